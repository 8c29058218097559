"""Refusals of the API server: their reasons and remedies."""

from __future__ import annotations

import pytest

from flamectl_operator.kube.errors import ApiError, BadRequestError, ForbiddenError, InvalidError
from flamectl_operator.reconcile.refusals import RefusedError


def _forbidden(message: str) -> ForbiddenError:
    return ForbiddenError(403, "Forbidden", message)


@pytest.mark.parametrize(
    ("error", "reason", "remedy"),
    [
        (
            _forbidden('pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=9, limited: pods=9'),
            "QuotaExceeded",
            "raise the quota",
        ),
        (
            _forbidden('pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'),
            "PodSecurity",
            "podTemplate.spec.securityContext",
        ),
        (
            _forbidden('pods is forbidden: User "system:serviceaccount:a:b" cannot create resource "pods"'),
            "PermissionDenied",
            "apply config/rbac",
        ),
        (
            _forbidden("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"),
            "PermissionDenied",
            "apply config/rbac",
        ),
        (_forbidden('admission webhook "a.example.com" denied the request: no'), "AdmissionDenied", "webhook"),
        (
            InvalidError(422, "Invalid", "ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no"),
            "AdmissionDenied",
            "policy",
        ),
        (_forbidden('pods "x" is forbidden: no service account'), "AdmissionDenied", "change the field that the message names"),
        (BadRequestError(400, "BadRequest", 'strict decoding error: unknown field "spec.x"'), "Rejected", "correct"),
    ],
)  # fmt: skip
def test_refusal_has_one_reason_and_a_remedy(error: ApiError, reason: str, remedy: str) -> None:
    refusal = RefusedError.of(error)

    assert refusal.reason == reason
    assert str(refusal).startswith(str(error))
    assert remedy in str(refusal).removeprefix(str(error))


def test_server_text_is_translated_to_fields_of_the_flame_cluster() -> None:
    error = BadRequestError(400, "BadRequest", 'unknown field "spec.x"')

    assert str(RefusedError.of(error, lambda words: words.replace("spec.x", "spec.y"))).startswith(
        'unknown field "spec.y"'
    )
