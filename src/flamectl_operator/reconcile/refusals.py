"""Refusals of the API server, and the joined error of a step that does several things."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from flamectl_operator.kube.errors import BadRequestError, ForbiddenError, InvalidError, KubernetesError
from flamectl_operator.runtime.outcome import Outcome, blocked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from flamectl_operator.kube.errors import ApiError

#: Errors that do not go away by themselves.
REFUSALS = (ForbiddenError, InvalidError, BadRequestError)

#: The reason of a refusal by a ResourceQuota.
QUOTA_EXCEEDED = "QuotaExceeded"

#: The remedy of a refusal, by its reason. The author of the FlameCluster, the administrator of the namespace and the
#: administrator of the operator are each responsible for some of the reasons.
_REMEDIES = {
    QUOTA_EXCEEDED: "raise the quota, or request fewer resources",
    "PodSecurity": (
        "set podTemplate.spec.securityContext of the component as in config/samples/flamecluster-restricted.yaml, or lower"
        " the level of the namespace"
    ),
    "PermissionDenied": "apply config/rbac of the operator's version",
    "AdmissionDenied": "change the field that the message names, or change the policy or the webhook",
    "Rejected": "correct the field that the message names",
}
_ADMISSION = re.compile(r"admission webhook|ValidatingAdmissionPolicy|MutatingAdmissionPolicy|admission plugin")
_PERMISSION = re.compile(r"\bUser \"[^\"]*\" cannot |can't set finalizers on|\(RBAC\)|attempting to grant RBAC")


class RefusedError(Exception):
    """The API server refuses a write that cannot succeed until a person changes something.

    Args:
        reason: One CamelCase word for the `Degraded` condition.
        message: The server's own text and the remedy.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @classmethod
    def of(cls, error: ApiError, explain: Callable[[str], str] = str) -> RefusedError:
        """Return the refusal for an error of the API server.

        Args:
            error: The error.
            explain: Translates the server's text into fields of the FlameCluster.
        """
        words = str(error)
        if isinstance(error, ForbiddenError) and error.quota:
            reason = QUOTA_EXCEEDED
        elif "violates PodSecurity" in words:
            reason = "PodSecurity"
        elif _ADMISSION.search(words):
            reason = "AdmissionDenied"
        elif isinstance(error, ForbiddenError):
            reason = "PermissionDenied" if _PERMISSION.search(words) else "AdmissionDenied"
        else:
            reason = "Rejected"
        return cls(reason, f"{explain(words)} ({_REMEDIES[reason]})")

    @property
    def outcome(self) -> Outcome:
        """The outcome that reports the refusal to users."""
        return blocked(self.reason, str(self))


Failure = RefusedError | KubernetesError


async def collect(*works: Callable[[], Awaitable[Outcome]]) -> list[Outcome]:
    """Do several things one after the other; an error of one does not prevent the others.

    Raises:
        RefusedError: A work was refused.
        KubernetesError: None was refused, and one failed.
    """
    outcomes: list[Outcome] = []
    errors: list[Failure] = []
    for work in works:
        try:
            outcomes.append(await work())
        except (RefusedError, KubernetesError) as error:
            errors.append(error)
    if errors:
        raise primary_error(errors)
    return outcomes


async def collect_in_parallel(*works: Callable[[], Awaitable[Outcome]]) -> tuple[list[Outcome], list[Failure]]:
    """Do several independent things in parallel.

    Returns:
        The outcomes of the works that did not fail, and the errors of the others.
    """
    outcomes: list[Outcome] = []
    errors: list[Failure] = []
    for result in await asyncio.gather(*(work() for work in works), return_exceptions=True):
        if isinstance(result, (RefusedError, KubernetesError)):
            errors.append(result)
        elif isinstance(result, BaseException):
            raise result
        else:
            outcomes.append(result)
    return outcomes, errors


def primary_error(errors: Sequence[Exception]) -> Exception:
    """Return the error that a step with several errors raises: the first refusal, which users must see, else the first error."""
    return next((error for error in errors if isinstance(error, RefusedError)), errors[0])
