"""A transport that holds requests back: the operator's own share of keeping the API server well.

By default only the number of requests under way is bounded. Their rate is the business of the API server's priority and
fairness, which knows how busy it is; a client that does not is either too slow or too fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.kube.transport import REQUEST_TIMEOUT
from flamectl_operator.kube.wire import JSON
from flamectl_operator.runtime.limits import Slots, TokenBucket
from flamectl_operator.runtime.observer import UNOBSERVED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from flamectl_operator.kube.transport import Guard, Transport
    from flamectl_operator.runtime.clock import Clock
    from flamectl_operator.runtime.observer import Observer


class LimitedTransport:
    """Bounds requests in number and rate; streams, which last for ever, are not counted.

    It goes around the transport and inside of the retries: each attempt counts, the wait for the next one does not. What must
    not wait in line, such as the renewal of a lease, uses the transport inside.

    Args:
        transport: Carries the requests.
        clock: The time.
        qps: Requests a second; 0 for any number.
        burst: Requests at once before `qps` holds them back; 0 for those of a second.
        max_in_flight: Requests under way at a time.
        observer: Hears how long requests were held back.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        qps: float = 0.0,
        burst: int = 0,
        max_in_flight: int,
        observer: Observer = UNOBSERVED,
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._observer = observer
        self._tokens = TokenBucket(qps, burst, clock)
        self._slots = Slots(max_in_flight)

    def resize(self, *, qps: float, burst: int, max_in_flight: int) -> None:
        """Changes the bounds, also for requests that wait already."""
        self._tokens.resize(qps, burst)
        self._slots.resize(max_in_flight)

    @property
    def host(self) -> str:
        """See `Transport.host`."""
        return self._transport.host

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        *,
        content_type: str = JSON,
        timeout: float = REQUEST_TIMEOUT,  # noqa: ASYNC109 - see the protocol
        guard: Guard | None = None,
    ) -> bytes:
        """See `Transport.request`; the timeout begins when the request may go, and the guard is asked after that."""
        asked = self._clock.monotonic()
        await self._tokens.take()
        async with self._slots.slot():
            self._observer.request_held_back(method, self.host, self._clock.monotonic() - asked)
            return await self._transport.request(
                method, path, query, body, content_type=content_type, timeout=timeout, guard=guard
            )

    def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, read_timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See `Transport.stream`."""
        return self._transport.stream(path, query, read_timeout=read_timeout)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._transport.close()
