from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from flamectl_operator.kube.errors import (
    ConflictError,
    ConnectionFailedError,
    ConnectionLostError,
    KubernetesError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
)
from flamectl_operator.kube.retrying import MAX_TOTAL_WAIT, RetryingTransport
from tests.unit.runtime.virtual_time import VirtualClock

if TYPE_CHECKING:
    from unittest.mock import AsyncMock

    from pytest_mock import MockerFixture

FAILED = ConnectionFailedError("refused")
LOST = ConnectionLostError("reset")
BROKEN = ServerError(500)
BUSY = TooManyRequestsError(429)


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


@pytest.mark.parametrize("error", [FAILED, LOST, BROKEN, BUSY])
async def test_a_read_is_repeated_after_any_failure_of_the_way(
    retrying: RetryingTransport, inner: AsyncMock, error: KubernetesError
) -> None:
    inner.request.side_effect = [error, b"answer"]
    assert await retrying.request("GET", "/x") == b"answer"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("error", [FAILED, BUSY])
async def test_a_write_is_repeated_when_nothing_was_done(
    retrying: RetryingTransport, inner: AsyncMock, method: str, error: KubernetesError
) -> None:
    inner.request.side_effect = [error, b"answer"]
    assert await retrying.request(method, "/x", {"a": "b"}, b"body", timeout=3) == b"answer"
    first, second = inner.request.call_args_list
    assert first == second
    assert first.args == (method, "/x", {"a": "b"}, b"body")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("error", [LOST, BROKEN])
async def test_a_write_is_not_repeated_when_it_may_have_been_done(
    retrying: RetryingTransport, inner: AsyncMock, method: str, error: KubernetesError
) -> None:
    inner.request.side_effect = [error]
    with pytest.raises(type(error)):
        await retrying.request(method, "/x")
    assert inner.request.call_count == 1


@pytest.mark.parametrize("error", [FAILED, LOST, BROKEN, BUSY])
async def test_a_rehearsal_is_repeated_like_a_read(
    retrying: RetryingTransport, inner: AsyncMock, error: KubernetesError
) -> None:
    inner.request.side_effect = [error, b"answer"]
    assert await retrying.request("POST", "/x", {"dryRun": "All"}, b"body") == b"answer"


@pytest.mark.parametrize("error", [NotFoundError(404), ConflictError(409)])
async def test_an_answer_is_an_answer(retrying: RetryingTransport, inner: AsyncMock, error: KubernetesError) -> None:
    inner.request.side_effect = [error]
    with pytest.raises(type(error)):
        await retrying.request("GET", "/x")


async def test_after_four_attempts_the_error_is_the_callers(
    retrying: RetryingTransport, inner: AsyncMock, clock: VirtualClock
) -> None:
    inner.request.side_effect = BROKEN
    with pytest.raises(ServerError):
        await retrying.request("GET", "/x")
    assert inner.request.call_count == 4
    assert len(clock.sleeps) == 3
    assert all(base <= sleep <= 1.5 * base for base, sleep in zip((0.25, 0.5, 1), clock.sleeps, strict=True))


async def test_the_server_may_ask_for_a_longer_pause(
    retrying: RetryingTransport, inner: AsyncMock, clock: VirtualClock
) -> None:
    inner.request.side_effect = [TooManyRequestsError(429, retry_after=7), b""]
    await retrying.request("POST", "/x")
    [pause] = clock.sleeps
    assert 7 <= pause <= 10.5


async def test_those_who_were_asked_for_the_same_pause_do_not_come_back_together(
    retrying: RetryingTransport, inner: AsyncMock, clock: VirtualClock
) -> None:
    for _ in range(2):
        inner.request.side_effect = [TooManyRequestsError(429, retry_after=7), b""]
        await retrying.request("POST", "/x")
    one, other = clock.sleeps
    assert one != other


async def test_a_very_long_pause_is_cut(retrying: RetryingTransport, inner: AsyncMock, clock: VirtualClock) -> None:
    inner.request.side_effect = [TooManyRequestsError(429, retry_after=3600), b""]
    await retrying.request("POST", "/x")
    [pause] = clock.sleeps
    assert 30 <= pause <= 45


async def test_all_pauses_together_are_bounded(
    retrying: RetryingTransport, inner: AsyncMock, clock: VirtualClock
) -> None:
    inner.request.side_effect = TooManyRequestsError(429, retry_after=15)
    with pytest.raises(TooManyRequestsError):
        await retrying.request("GET", "/x")
    assert len(clock.sleeps) == 2
    assert sum(clock.sleeps) <= MAX_TOTAL_WAIT


async def test_streams_and_closing_go_straight_through(retrying: RetryingTransport, inner: AsyncMock) -> None:
    assert retrying.stream("/x", {"a": "b"}, read_timeout=5) is inner.stream.return_value
    inner.stream.assert_called_once_with("/x", {"a": "b"}, read_timeout=5)
    await retrying.close()
    inner.close.assert_awaited_once_with()
