"""What can go wrong with a request, one class for each thing a caller would do differently.

The API server says what happened in a `Status` object: decisions are made on its `reason` and code, never on the text of
its message, with three exceptions that the API leaves no way around: what a 403 was for, and that a webhook knows no dry run.
"""

from __future__ import annotations


class KubernetesError(Exception):
    """Base of all errors of the `kube` room; `str()` is one line for a log, a status or an event."""

    #: Whether a write that ended so may have been applied all the same. Then only a read can tell.
    outcome_unknown = False
    #: Seconds that the server asks to wait before another attempt; None when it does not ask.
    retry_after: float | None = None


class ConfigurationError(KubernetesError):
    """No usable credentials or address: a bad kubeconfig, or not in a cluster. Fix the configuration; do not retry."""


class NotLeadingError(KubernetesError):
    """This process no longer leads, so the request was not sent. Another process does the work now."""


class LockLostError(KubernetesError):
    """This process does not hold the lock (any more) that the request needs, so it was not sent. Take it again."""


class ConnectionFailedError(KubernetesError):
    """No connection could be made, so nothing was sent. Retry."""


class UntrustedServerError(ConnectionFailedError):
    """Who answers has a certificate that our authorities did not sign. These may have been replaced: load them again."""


class ConnectionLostError(KubernetesError):
    """The connection broke or timed out after the request was sent. A write may or may not have been applied."""

    outcome_unknown = True


class UndecodableError(ConnectionLostError):
    """The answer was cut off, or is not what the API promises. As for a lost answer, a write may have been applied."""


class ApiError(KubernetesError):
    """The API server answered with an error.

    Args:
        code: HTTP status code.
        reason: `Status.reason`, a CamelCase word such as `AlreadyExists`; empty when the body was no Status.
        message: `Status.message`, the server's own words.
        retry_after: Seconds the server asks to wait (`Retry-After`), if it does.
    """

    def __init__(self, code: int, reason: str = "", message: str = "", retry_after: float | None = None) -> None:
        super().__init__(message or f"HTTP {code} {reason}".strip())
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def knows_no_dry_run(self) -> bool:
        """Whether a dry run failed for a webhook that knows of none."""
        return "does not support dry run" in self.message


class BadRequestError(ApiError):
    """400: the body is not what the API knows, such as an unknown field under strict validation. Do not retry as is."""


class UnauthorizedError(ApiError):
    """401: the credentials are not accepted (any more)."""


class ForbiddenError(ApiError):
    """403: RBAC, admission or a quota refuses it. Nothing was changed. Show the server's words and retry slowly."""

    @property
    def quota(self) -> bool:
        """Whether a ResourceQuota refused it."""
        return "exceeded quota" in self.message

    @property
    def namespace_terminating(self) -> bool:
        """Whether nothing can be created any more, for the namespace is being deleted."""
        return "being terminated" in self.message


class NotFoundError(ApiError):
    """404: the object, its namespace or its kind does not exist."""

    @property
    def of_object(self) -> bool:
        """Whether the 404 is about an object. Otherwise the API server may not know the path at the moment."""
        return self.reason == "NotFound"


class ConflictError(ApiError):
    """409 Conflict: a precondition (resourceVersion, uid) did not hold. The view was old: look again, then decide again."""


class AlreadyExistsError(ApiError):
    """409 AlreadyExists: the name is taken, be it by an object that is on its way out. Read it to see whose it is."""


class GoneError(ApiError):
    """410: the resourceVersion or continue token is too old. List again."""


class InvalidError(ApiError):
    """422: the object breaks a rule of its schema. Do not retry as is."""


class TooManyRequestsError(ApiError):
    """429: the server sheds load; nothing was done. Wait `retry_after` and retry."""


class ServerError(ApiError):
    """5xx: the server or something before it failed. A write may or may not have been applied."""

    outcome_unknown = True
