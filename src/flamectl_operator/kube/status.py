"""From what a server says went wrong to the error that tells a caller what to do."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import msgspec

from flamectl_operator.kube import errors

if TYPE_CHECKING:
    from datetime import datetime

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

#: A body that is no Status comes from something before the API server; this much of it (characters) says enough.
_FOREIGN_BODY_LENGTH = 200


class StatusDetails(msgspec.Struct, frozen=True, rename="camel"):
    """The part of `Status.details` that is read."""

    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True, rename="camel"):
    """`metav1.Status`, with which the API server answers when it does not answer with an object."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


STATUS = msgspec.json.Decoder(Status)


def error_from_status(status: Status, code: int = 0, retry_after: float | None = None) -> errors.ApiError:
    """Make the error that a Status stands for.

    Args:
        status: What the server said.
        code: The HTTP status code, which counts if given; an ERROR event of a watch has the one of the Status only.
        retry_after: Seconds from the `Retry-After` header; without one those of the details count.
    """
    code = code or status.code
    if retry_after is None and status.details is not None and status.details.retry_after_seconds > 0:
        retry_after = float(status.details.retry_after_seconds)
    error = _BY_CODE.get(code, errors.ServerError if code >= _FIRST_SERVER_ERROR else errors.ApiError)
    if error is errors.ConflictError and status.reason != "Conflict":
        # Any other is no race, such as that of a webhook that denies a request with this code.
        error = errors.AlreadyExistsError if status.reason == "AlreadyExists" else errors.ApiError
    # Validation messages have line breaks; an error is one line in logs, status and events.
    return error(code, status.reason, " ".join(status.message.split()), retry_after)


def error_from_response(code: int, body: bytes, retry_after: float | None = None) -> errors.ApiError:
    """Make the error that an HTTP response with `code` stands for, whatever its body is."""
    try:
        status = STATUS.decode(body)
    except msgspec.DecodeError:
        status = Status()
    if status.kind != "Status":
        status = Status(message=f"HTTP {code}: {body[:_FOREIGN_BODY_LENGTH].decode(errors='replace')}")
    return error_from_status(status, code, retry_after)


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds to wait according to a `Retry-After` header, never negative; None when absent or not understood.

    Args:
        value: Seconds, or an HTTP date (RFC 9110, section 10.2.3).
        now: What a date is compared with, aware.
    """
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        due = parsedate_to_datetime(value)
        return max(0.0, (due - now).total_seconds())
    except (TypeError, ValueError):  # no date, or one without a time zone
        return None
