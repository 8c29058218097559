"""Turns the server's description of an error into the exception that tells a caller what to do."""

import re
from datetime import MAXYEAR, MINYEAR, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

import msgspec

from flamectl_operator.kube import errors, nesting

_BY_CODE: dict[int, type[errors.ApiError]] = {
    400: errors.BadRequestError,
    401: errors.UnauthorizedError,
    403: errors.ForbiddenError,
    404: errors.NotFoundError,
    409: errors.ConflictError,
    410: errors.GoneError,
    422: errors.InvalidError,
    429: errors.TooManyRequestsError,
}
_FIRST_SERVER_ERROR = 500
#: The words of a webhook or of an admission policy that denies a request. It chooses the code, which then says nothing else.
_DENIED = re.compile(r'admission webhook "[^"]*" denied |[\w.-]+ "[^"]*" is forbidden: ValidatingAdmissionPolicy ')
#: Errors that a denial keeps: other refusals, and the wish to be asked again later.
_OF_DENIALS = (errors.BadRequestError, errors.ForbiddenError, errors.InvalidError, errors.TooManyRequestsError)
#: The text of a 403 for a create in a namespace that is being deleted.
_TERMINATING = "being terminated"

#: The texts of a 403 for an object that the API server cannot judge at the moment. Its caches are not filled yet, the use of a
#: new quota is not counted yet, or LimitRanges cannot be read.
_NOT_READY = re.compile(
    r" is forbidden: (not yet ready to handle request$|status unknown for quota: |unable to .{1,200} at this time because )"
)
#: The begin of the text of a 409 for an object that a quota counts: somebody else used the quota at the same moment.
_QUOTA_RACE = re.compile(r"Operation cannot be fulfilled on (?:cluster)?resourcequotas\b")
#: The text of a refusal to which the API server gives the code 500: a Pod needs a quota that its namespace does not have.
_NO_QUOTA = "insufficient quota to match these scopes: "

#: The most seconds of a `retryAfterSeconds`, which JSON has no limit for. Callers wait for less.
_LONGEST_RETRY = 86400
#: The most characters of a body that is not a Status; it comes from a proxy in front of the API server.
_FOREIGN_BODY_LENGTH = 200


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of `Status.details` that are read."""

    retry_after_seconds: int = 0
    name: str = ""


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """`metav1.Status`, the API server's response when it does not return an object."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


STATUS = msgspec.json.Decoder(Status)


def error_from_status(status: Status, code: int = 0, retry_after: float | None = None) -> errors.ApiError:
    """Return the error for a Status; the HTTP code and the seconds of the `Retry-After` header take precedence over its own."""
    code = code or status.code
    if retry_after is None and status.details is not None and status.details.retry_after_seconds > 0:
        retry_after = float(min(status.details.retry_after_seconds, _LONGEST_RETRY))
    text = status.message[: errors.MAX_MESSAGE_SIZE]
    error = _BY_CODE.get(code, errors.ServerError if code >= _FIRST_SERVER_ERROR else errors.ApiError)
    if error is errors.ForbiddenError and _TERMINATING in text:
        error = errors.NamespaceTerminatingError
    if (error is errors.ForbiddenError and _NOT_READY.search(text)) or (
        error is errors.ConflictError and _QUOTA_RACE.match(text)
    ):
        error = errors.NotReadyError
    if error is errors.ServerError and text.startswith(_NO_QUOTA):
        error = errors.ForbiddenError
    if error is errors.ConflictError and status.reason != "Conflict":
        # Any other reason is not a race, for instance when a webhook denies a request with this code.
        error = errors.AlreadyExistsError if status.reason == "AlreadyExists" else errors.ApiError
    if code < _FIRST_SERVER_ERROR and error not in _OF_DENIALS and _DENIED.match(text):
        error = errors.ForbiddenError
    # Validation messages have line breaks, but an error is one line in logs, status and events.
    message = " ".join(text.split())
    found = error(code, status.reason[: errors.MAX_MESSAGE_SIZE], message, retry_after)
    if isinstance(found, errors.AlreadyExistsError) and status.details is not None:
        found.name = status.details.name[: errors.MAX_NAME_LENGTH]
    return found


def error_from_response(code: int, body: bytes, retry_after: float | None = None) -> errors.ApiError:
    """Return the error for an HTTP response with any body."""
    try:
        status = nesting.decode(STATUS, body)
    except msgspec.DecodeError:
        status = Status()
    if status.kind != "Status":
        status = Status(message=f"HTTP {code}: {body[:_FOREIGN_BODY_LENGTH].decode(errors='replace')}")
    return error_from_status(status, code, retry_after)


@lru_cache(maxsize=1)
def parse_date(value: str | None) -> datetime | None:
    """Return the time of a `Date` header; None when it is not valid or too close to the limits of `datetime`."""
    try:
        date = parsedate_to_datetime(value or "")
    except (OverflowError, ValueError):
        return None
    return date if date.tzinfo is not None and MINYEAR < date.year < MAXYEAR else None


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds of a `Retry-After` header, at least 0: a number or a date (RFC 9110, 10.2.3); None if not valid."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        due = parsedate_to_datetime(value)
        return max(0.0, (due - now).total_seconds())
    except (OverflowError, TypeError, ValueError):  # not a date, or a date without a time zone
        return None
