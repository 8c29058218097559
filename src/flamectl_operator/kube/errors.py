"""Errors of requests: one class for each different reaction of a caller.

The API server describes an error in a `Status` object. Decisions use its `reason` and code, not the text of its message.
Where the API offers no other way they use the text: for the causes of a 403 and a 409, for a missing quota, for webhooks that do
not support dry run, and for denials, because a webhook or a policy chooses their code.
"""

from typing import TypeVar

E = TypeVar("E", bound=Exception)

#: The most characters of an error's text. The server may quote what a user wrote, which may have megabytes.
MAX_MESSAGE_SIZE = 16 * 1024
#: The most characters of a name.
MAX_NAME_LENGTH = 253


class KubernetesError(Exception):
    """Base of all errors of the `kube` room; `str()` is one line for a log, a status or an event."""

    #: Whether a write that failed this way may have been applied. Then only a read can tell.
    outcome_unknown = False
    #: Seconds to wait before a retry, as the server asks; None when it does not ask.
    retry_after: float | None = None


class ConfigurationError(KubernetesError):
    """No usable credentials or address: a bad kubeconfig, or not in a cluster. Fix the configuration; do not retry."""


class NotLeadingError(KubernetesError):
    """This process no longer leads, so the request was not sent. Another process does the work now."""


class LockLostError(KubernetesError):
    """This process does not hold the lock that the request needs, so the request was not sent. Take the lock again."""


class ConnectionFailedError(KubernetesError):
    """No connection was established, so nothing was sent. Retry."""


class UntrustedServerError(ConnectionFailedError):
    """The server's certificate is not signed by our certificate authorities. They may have been replaced: load them again."""


class ConnectionLostError(KubernetesError):
    """The connection broke or timed out after the request was sent. A write may or may not have been applied."""

    outcome_unknown = True


class UndecodableError(ConnectionLostError):
    """The response was cut off, or is not what was asked for. As after a lost response, a write may have been applied."""


class RenamedError(UndecodableError):
    """The API server gave a new object another name than the request, or that name is taken; a webhook changes it."""

    def __init__(self, kind: str, name: str, other: str) -> None:
        super().__init__(f'the answer of the API server is not {kind} "{name}", but "{other[:MAX_NAME_LENGTH]}"')
        self.other = other[:MAX_NAME_LENGTH]


class AnswerTooLargeError(KubernetesError):
    """The response is larger than this process accepts. A write was applied; request a shorter page of a list."""

    outcome_unknown = True


class ApiError(KubernetesError):
    """The API server answered with an error: the reason and message of its Status, and the seconds to wait if it says so."""

    def __init__(self, code: int, reason: str = "", message: str = "", retry_after: float | None = None) -> None:
        super().__init__(message or f"HTTP {code} {reason}".strip())
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def knows_no_dry_run(self) -> bool:
        """Whether a dry run failed because a webhook does not support it."""
        return "does not support dry run" in self.message


class BadRequestError(ApiError):
    """400: the body does not match the API, such as an unknown field under strict validation. Do not retry unchanged."""


class UnauthorizedError(ApiError):
    """401: the server does not accept the credentials, or no longer does."""


class ForbiddenError(ApiError):
    """403: RBAC, admission or a quota refuses the request. Nothing was changed. Show the server's text and retry slowly."""

    @property
    def quota(self) -> bool:
        """Whether a ResourceQuota refused the request."""
        return "exceeded quota" in self.message


class NamespaceTerminatingError(ApiError):
    """403: the namespace is being deleted, so nothing can be created in it. Do not report it; wait for its end."""


class NotReadyError(ApiError):
    """403, 409: the API server cannot tell at the moment what it allows. Nothing was done. Retry.

    It has just started, a quota is new, or many objects that a quota counts are created at once.
    """


class NotFoundError(ApiError):
    """404: the object, its namespace or its kind does not exist."""

    @property
    def of_object(self) -> bool:
        """Whether the 404 is about an object. Otherwise the API server may not know the path at the moment."""
        return self.reason == "NotFound"


class ConflictError(ApiError):
    """409 Conflict: a precondition (resourceVersion, uid) did not hold, because the view was old. Read it and decide again."""


class AlreadyExistsError(ApiError):
    """409 AlreadyExists: the name is taken, possibly by a terminating object. Read the object to see its owner."""

    #: The name that is taken; empty when the API server does not say it.
    name = ""


class GoneError(ApiError):
    """410: the resourceVersion or continue token is too old. List again."""


class InvalidError(ApiError):
    """422: the object breaks a rule of its schema. Do not retry unchanged."""


class TooManyRequestsError(ApiError):
    """429: the server sheds load; nothing was done. Wait `retry_after` and retry."""


class ServerError(ApiError):
    """5xx: the server or a proxy in front of it failed. A write may or may not have been applied."""

    outcome_unknown = True


def bare(error: E) -> E:
    """Return an error that somebody keeps, without the frames that it passed and what they hold."""
    error.__cause__ = error.__context__ = error.__traceback__ = None
    return error


def already_exists(plural: str, name: str) -> AlreadyExistsError:
    """Return the error of a creation whose name is taken, where no API server has answered so."""
    return AlreadyExistsError(409, "AlreadyExists", f'{plural} "{name}" already exists')
