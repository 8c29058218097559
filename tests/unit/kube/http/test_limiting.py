import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from flamectl_operator.kube.errors import TooManyRequestsError
from flamectl_operator.kube.http.limiting import LimitedTransport
from flamectl_operator.kube.http.request import Request
from flamectl_operator.kube.http.retrying import RetryingTransport
from flamectl_operator.kube.http.transport import Transport
from flamectl_operator.runtime.telemetry import Telemetry
from tests.unit.runtime.virtual_time import VirtualClock


class SlowTransport:
    """Takes a second for each request."""

    host = "10.0.0.1:443"

    def __init__(self) -> None:
        self.sent: list[float] = []
        self.failures = 0
        self.in_flight = 0
        self.most = 0
        self.closed = False

    async def send(self, _request: Request) -> bytes:
        self.sent.append(asyncio.get_running_loop().time() - 1000)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(1)
            if self.failures:
                self.failures -= 1
                raise TooManyRequestsError(429, retry_after=10)
        finally:
            self.in_flight -= 1
        return b"answer"

    @asynccontextmanager
    async def stream(self, *_arguments: object, **_options: object) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self._lines()

    async def _lines(self) -> AsyncIterator[bytes]:
        yield b"line"

    async def close(self) -> None:
        self.closed = True


class Listener(Telemetry):
    """Remembers how long requests were held back."""

    def __init__(self) -> None:
        self.held_back: list[tuple[str, str, float]] = []

    def request_held_back(self, method: str, host: str, seconds: float) -> None:
        self.held_back.append((method, host, seconds))


@pytest.fixture
def inner() -> SlowTransport:
    return SlowTransport()


async def _ask(transport: Transport, count: int) -> None:
    await asyncio.gather(*(transport.send(Request("GET", f"/{number}")) for number in range(count)))


async def test_concurrent_requests_are_limited(inner: SlowTransport) -> None:
    limited = LimitedTransport(inner, VirtualClock(), max_in_flight=3)

    await _ask(limited, 10)

    assert inner.most == 3
    assert inner.sent == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]


async def test_waits_of_requests_are_reported(inner: SlowTransport) -> None:
    listener = Listener()
    await _ask(LimitedTransport(inner, VirtualClock(), max_in_flight=1, telemetry=listener), 3)

    assert listener.held_back == [("GET", inner.host, seconds) for seconds in (0, 1, 2)]


async def test_stream_neither_waits_nor_counts(inner: SlowTransport) -> None:
    limited = LimitedTransport(inner, VirtualClock(), max_in_flight=1)
    requests = asyncio.create_task(_ask(limited, 2))
    await asyncio.sleep(0.5)

    async with limited.stream("/", read_timeout=1) as lines:
        assert [line async for line in lines] == [b"line"]
        assert inner.in_flight == 1, "one request has the only slot, the other waits"
    requests.cancel()


async def test_request_that_waits_for_a_retry_holds_no_slot(inner: SlowTransport) -> None:
    clock = VirtualClock()
    inner.failures = 1
    retrying = RetryingTransport(LimitedTransport(inner, clock, max_in_flight=1), clock, Random(1))

    await _ask(retrying, 3)

    *others, repeated = inner.sent
    assert others == [0, 1, 2]
    assert 11 <= repeated <= 1 + 10 * 1.5


async def test_new_limit_applies_to_waiting_requests(inner: SlowTransport) -> None:
    limited = LimitedTransport(inner, VirtualClock(), max_in_flight=1)
    requests = asyncio.create_task(_ask(limited, 5))
    await asyncio.sleep(0.5)
    limited.resize(max_in_flight=2)
    await requests

    assert inner.most == 2
    assert inner.sent == [0, 0.5, 1, 1.5, 2]


async def test_slow_requests_about_a_namespace_do_not_delay_one_about_another_namespace(inner: SlowTransport) -> None:
    limited = LimitedTransport(inner, VirtualClock(), max_in_flight=16)
    crowd = [Request("POST", "/api/v1/namespaces/crowd/pods") for _ in range(40)]
    requests = asyncio.gather(*map(limited.send, crowd))
    await asyncio.sleep(0.5)
    assert inner.in_flight == 12

    await limited.send(Request("GET", "/apis/flame.xflops.io/v1alpha1/namespaces/team/flameclusters/victim"))

    assert inner.sent == [0] * 12 + [0.5] + [1] * 12
    await requests
