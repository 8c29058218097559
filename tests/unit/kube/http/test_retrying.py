from random import Random
from unittest.mock import AsyncMock

import pytest
from pytest_mock import MockerFixture

from flamectl_operator.kube.errors import (
    ConflictError,
    ConnectionFailedError,
    ConnectionLostError,
    KubernetesError,
    NotFoundError,
    NotReadyError,
    ServerError,
    TooManyRequestsError,
)
from flamectl_operator.kube.http.request import Request
from flamectl_operator.kube.http.retrying import MAX_TOTAL_WAIT, RetryingTransport
from tests.unit.runtime.virtual_time import VirtualClock

FAILED = ConnectionFailedError("refused")
LOST = ConnectionLostError("reset")
BROKEN = ServerError(500)
BUSY = TooManyRequestsError(429)
NOT_READY = NotReadyError(409, "Conflict")


@pytest.fixture
def inner(mocker: MockerFixture) -> AsyncMock:
    transport: AsyncMock = mocker.AsyncMock()
    transport.stream = mocker.Mock()
    return transport


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def retrying(inner: AsyncMock, clock: VirtualClock) -> RetryingTransport:
    return RetryingTransport(inner, clock, Random(1))


async def test_request_that_succeeds_at_once_prepares_no_retries(
    retrying: RetryingTransport, inner: AsyncMock, mocker: MockerFixture
) -> None:
    prepared = mocker.patch("flamectl_operator.kube.http.retrying.tenacity.AsyncRetrying")
    inner.send.return_value = b"answer"
    assert await retrying.send(Request("POST", "/x", body=b"{}")) == b"answer"
    prepared.assert_not_called()


@pytest.mark.parametrize(
    "request_", [Request("GET", "/x"), Request("POST", "/x", {"dryRun": "All"}, b"body")], ids=["read", "dry run"]
)
@pytest.mark.parametrize("error", [FAILED, LOST, BROKEN, BUSY])
async def test_request_that_changes_nothing_is_retried_after_any_transport_error(
    retrying: RetryingTransport, inner: AsyncMock, error: KubernetesError, request_: Request
) -> None:
    inner.send.side_effect = [error, b"answer"]
    assert await retrying.send(request_) == b"answer"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("error", [FAILED, BUSY, NOT_READY])
async def test_write_is_retried_when_nothing_was_done(
    retrying: RetryingTransport, inner: AsyncMock, method: str, error: KubernetesError
) -> None:
    inner.send.side_effect = [error, b"answer"]
    assert await retrying.send(Request(method, "/x", {"a": "b"}, b"body", timeout=3)) == b"answer"
    first, second = inner.send.call_args_list
    assert first == second
    assert first.args == (Request(method, "/x", {"a": "b"}, b"body", timeout=3),)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("error", [LOST, BROKEN])
async def test_write_with_an_unknown_outcome_is_not_retried(
    retrying: RetryingTransport, inner: AsyncMock, method: str, error: KubernetesError
) -> None:
    inner.send.side_effect = [error]
    with pytest.raises(type(error)):
        await retrying.send(Request(method, "/x"))
    assert inner.send.call_count == 1


@pytest.mark.parametrize("error", [NotFoundError(404), ConflictError(409)])
async def test_client_error_is_not_retried(
    retrying: RetryingTransport, inner: AsyncMock, error: KubernetesError
) -> None:
    inner.send.side_effect = [error]
    with pytest.raises(type(error)):
        await retrying.send(Request("GET", "/x"))


async def test_error_is_raised_after_four_attempts(
    retrying: RetryingTransport, inner: AsyncMock, clock: VirtualClock
) -> None:
    inner.send.side_effect = BROKEN
    with pytest.raises(ServerError):
        await retrying.send(Request("GET", "/x"))
    assert inner.send.call_count == 4
    assert len(clock.sleeps) == 3
    assert all(base <= sleep <= 1.5 * base for base, sleep in zip((0.25, 0.5, 1), clock.sleeps, strict=True))


@pytest.mark.parametrize(("asked", "least"), [(7, 7), (3600, 30)], ids=["longer", "too long"])
async def test_server_may_ask_for_a_longer_pause(
    retrying: RetryingTransport, inner: AsyncMock, clock: VirtualClock, asked: int, least: int
) -> None:
    inner.send.side_effect = [TooManyRequestsError(429, retry_after=asked), b""]
    await retrying.send(Request("POST", "/x"))
    [pause] = clock.sleeps
    assert least <= pause <= 1.5 * least


async def test_jitter_separates_retries_after_the_same_retry_after(
    retrying: RetryingTransport, inner: AsyncMock, clock: VirtualClock
) -> None:
    for _ in range(2):
        inner.send.side_effect = [TooManyRequestsError(429, retry_after=7), b""]
        await retrying.send(Request("POST", "/x"))
    one, other = clock.sleeps
    assert one != other


async def test_total_of_pauses_is_limited(retrying: RetryingTransport, inner: AsyncMock, clock: VirtualClock) -> None:
    inner.send.side_effect = TooManyRequestsError(429, retry_after=15)
    with pytest.raises(TooManyRequestsError):
        await retrying.send(Request("GET", "/x"))
    assert len(clock.sleeps) == 2
    assert sum(clock.sleeps) <= MAX_TOTAL_WAIT
