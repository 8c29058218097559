"""Errors of an API server, in its own words."""

from collections.abc import Callable
from typing import TypeAlias

from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.kube.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    ConnectionFailedError,
    ConnectionLostError,
    ForbiddenError,
    InvalidError,
    KubernetesError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
)
from flamectl_operator.reconcile.refusals.error import RefusedError

#: What makes an error anew.
Failure: TypeAlias = Callable[[], KubernetesError]


def refusal_of(error: KubernetesError, template: ComponentTemplate | None = None) -> str:
    assert isinstance(error, ApiError)
    return str(RefusedError.of(error, template))


def quota() -> ForbiddenError:
    return ForbiddenError(
        403, "Forbidden", 'pods "x" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=3'
    )


def forbidden() -> ForbiddenError:
    return ForbiddenError(403, "Forbidden", 'pods is forbidden: User "operator" cannot create resource "pods"')


def invalid() -> InvalidError:
    return InvalidError(422, "Invalid", "spec.containers[0].image: Required value")


def no_dry_run() -> BadRequestError:
    return BadRequestError(400, "BadRequest", 'admission webhook "a.example.com" does not support dry run')


def bad_request() -> BadRequestError:
    return BadRequestError(400, "BadRequest", 'strict decoding error: unknown field "spec.nodeSelectors"')


def already_exists() -> AlreadyExistsError:
    return AlreadyExistsError(409, "AlreadyExists", "the name is taken")


def conflict() -> ConflictError:
    return ConflictError(409, "Conflict", "the object has been modified")


def not_found() -> NotFoundError:
    return NotFoundError(404, "NotFound", 'namespaces "default" not found')


def overloaded() -> TooManyRequestsError:
    return TooManyRequestsError(429, "TooManyRequests", "too many requests", 1.0)


def broken() -> ServerError:
    return ServerError(500, "InternalError", "etcdserver: request timed out")


def lost() -> ConnectionLostError:
    return ConnectionLostError("connection reset")


def unreachable() -> ConnectionFailedError:
    return ConnectionFailedError("connection refused")


#: Answers that do not change by themselves, with the reason that the `Degraded` condition gives.
REFUSALS = [(quota, "QuotaExceeded"), (forbidden, "PermissionDenied"), (invalid, "Rejected"), (bad_request, "Rejected")]
