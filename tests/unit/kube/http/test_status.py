from datetime import UTC, datetime

import msgspec
import pytest

from flamectl_operator.kube import errors
from flamectl_operator.kube.http.status import error_from_response, parse_date, parse_retry_after

NOW = datetime(2025, 1, 1, tzinfo=UTC)


def body(reason: str = "", message: str = "", **more: object) -> bytes:
    return msgspec.json.encode({"kind": "Status", "reason": reason, "message": message, **more})


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (307, "", errors.ApiError),
        (400, "BadRequest", errors.BadRequestError),
        (401, "Unauthorized", errors.UnauthorizedError),
        (403, "Forbidden", errors.ForbiddenError),
        (404, "NotFound", errors.NotFoundError),
        (405, "MethodNotAllowed", errors.ApiError),
        (409, "Conflict", errors.ConflictError),
        (409, "AlreadyExists", errors.AlreadyExistsError),
        (409, "", errors.ApiError),  # a webhook's denial, of which any code may be
        (409, "Protected", errors.ApiError),
        (410, "Expired", errors.GoneError),
        (422, "Invalid", errors.InvalidError),
        (429, "TooManyRequests", errors.TooManyRequestsError),
        (500, "InternalError", errors.ServerError),
        (504, "Timeout", errors.ServerError),
    ],
)
def test_code_has_its_error(code: int, reason: str, expected: type[errors.ApiError]) -> None:
    error = error_from_response(code, body(reason, "words of the server"))
    assert type(error) is expected
    assert (error.code, error.reason, str(error)) == (code, reason, "words of the server")


WEBHOOK = 'admission webhook "pods.example.com" denied the request: no'
POLICY = """pods "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"""


@pytest.mark.parametrize("words", [WEBHOOK, POLICY], ids=["webhook", "policy"])
@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "", errors.BadRequestError),
        (401, "Unauthorized", errors.ForbiddenError),
        (404, "NotFound", errors.ForbiddenError),
        (409, "Conflict", errors.ForbiddenError),
        (409, "AlreadyExists", errors.ForbiddenError),
        (409, "", errors.ForbiddenError),
        (410, "Gone", errors.ForbiddenError),
        (413, "RequestEntityTooLarge", errors.ForbiddenError),
        (422, "Invalid", errors.InvalidError),
        (429, "TooManyRequests", errors.TooManyRequestsError),
        (500, "", errors.ServerError),
    ],
)
def test_denial_is_a_refusal_whatever_its_code(
    code: int, reason: str, expected: type[errors.ApiError], words: str
) -> None:
    error = error_from_response(code, body(reason, words))
    assert type(error) is expected
    assert (error.code, error.reason, str(error)) == (code, reason, words)


def test_message_of_many_lines_becomes_one_line() -> None:
    assert str(error_from_response(422, body("Invalid", "a:\n  * b\n  * c"))) == "a: * b * c"


@pytest.mark.parametrize("foreign", [b"<html>Bad\nGateway</html>", b"{}", b"", b"\xff\xfe", b"[1]"])
def test_body_without_status_gives_the_error_of_its_code(foreign: bytes) -> None:
    error = error_from_response(502, foreign)
    assert type(error) is errors.ServerError
    assert str(error).startswith("HTTP 502")
    assert "\n" not in str(error)


def test_retry_after_header_takes_precedence_over_the_details() -> None:
    with_details = body("TooManyRequests", details={"retryAfterSeconds": 7})
    assert error_from_response(429, with_details, 3).retry_after == 3
    assert error_from_response(429, with_details).retry_after == 7
    assert error_from_response(429, body(details={"name": "x"})).retry_after is None
    assert error_from_response(429, body(details={"retryAfterSeconds": 10**400})).retry_after == 86400


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("5", 5),
        (" 0 ", 0),
        ("Wed, 01 Jan 2025 00:00:30 GMT", 30),
        ("Tue, 31 Dec 2024 00:00:00 GMT", 0),
        ("soon", None),
        ("-5", None),
        ("²", None),
        ("Wed, 01 Jan 2025 00:00:30", None),
        (f"Wed, {2**64} Jan 2025 00:00:30 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, NOW) == seconds


@pytest.mark.parametrize(
    "value",
    [
        f"Wed, {2**64} Jan 2025 00:00:00 GMT",
        f"Wed, 01 Jan {2**64} 00:00:00 GMT",
        f"Wed, 01 Jan 2025 {2**64}:00:00 GMT",
        f"Wed, 01 Jan 2025 00:00:00 +{2**64}",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ],
)
def test_date_that_leaves_no_room_to_calculate_is_none(value: str) -> None:
    assert parse_date(value) is None


DEEP = b'{"x":' * 20_000 + b"1" + b"}" * 20_000


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b'{"kind":"Status","reason":"Expired","message":"too old","x":' + DEEP + b"}", "too old"),
        (b'{"kind":"Status","message":"\xff"}', "HTTP 410: "),
        (b"[" * 100_000, "HTTP 410: [[["),
    ],
    ids=["nested deeply", "no UTF-8", "cut off"],
)
def test_status_that_is_hard_to_decode_has_the_error_of_its_code(answer: bytes, expected: str) -> None:
    error = error_from_response(410, answer)
    assert type(error) is errors.GoneError
    assert str(error).startswith(expected)


@pytest.mark.parametrize(
    "words",
    [
        "not yet ready to handle request",
        "status unknown for quota: compute, resources: limits.cpu,pods",
        "unable to CREATE pods at this time because there was an error enforcing limit ranges",
    ],
)
def test_403_of_what_the_api_server_cannot_judge_yet_is_no_refusal(words: str) -> None:
    assert type(error_from_response(403, body("Forbidden", f'pods "x" is forbidden: {words}'))) is errors.NotReadyError


@pytest.mark.parametrize("kind", ["resourcequotas", "clusterresourcequotas.quota.openshift.io"])
def test_409_for_a_quota_that_others_use_is_no_conflict_of_the_object(kind: str) -> None:
    words = f'Operation cannot be fulfilled on {kind} "q": the object has been modified'

    assert type(error_from_response(409, body("Conflict", words))) is errors.NotReadyError
    assert type(error_from_response(409, body("Conflict", words.replace(kind, "pods")))) is errors.ConflictError


def test_500_for_a_quota_that_the_namespace_lacks_is_a_refusal() -> None:
    words = "insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]"

    assert type(error_from_response(500, body("", words))) is errors.ForbiddenError


def test_403_of_a_terminating_namespace_is_recognised() -> None:
    words = 'pods "x" is forbidden: unable to create new content in namespace a because it is being terminated'

    assert type(error_from_response(403, body("Forbidden", words))) is errors.NamespaceTerminatingError
    assert type(error_from_response(403, body("Forbidden", "no"))) is errors.ForbiddenError
