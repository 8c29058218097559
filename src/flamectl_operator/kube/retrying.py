"""Trying again what may be tried again.

A read can be repeated after almost any failure, and so can a rehearsal (dry run). A write only when it is certain that
nothing was done: no connection was made, or the server refused to take the request on. Whether a write whose connection
broke was applied only a read can tell, and that is up to the caller, who knows what to read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tenacity

from flamectl_operator.kube.errors import (
    ConnectionFailedError,
    ConnectionLostError,
    KubernetesError,
    ServerError,
    TooManyRequestsError,
)
from flamectl_operator.kube.transport import REQUEST_TIMEOUT
from flamectl_operator.kube.wire import JSON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from random import Random

    from flamectl_operator.kube.transport import Guard, Transport
    from flamectl_operator.runtime.clock import Clock

MAX_ATTEMPTS = 4

#: Seconds before the first retry, doubled for each further one, and up to half as long again by jitter.
BASE_DELAY = 0.25
JITTER = 0.5

#: The longest `Retry-After` that is waited for, in seconds; after that the caller decides.
MAX_RETRY_AFTER = 30.0

#: Seconds that all waits of one request may take together. A worker that waits longer should rather requeue.
MAX_TOTAL_WAIT = 45.0

_SAFE_TO_REPEAT = (ConnectionFailedError, TooManyRequestsError)
_SAFE_TO_READ_AGAIN = (*_SAFE_TO_REPEAT, ConnectionLostError, ServerError)


class RetryingTransport:
    """A transport that retries requests; streams are not retried, for who reads them knows from where to go on.

    Args:
        transport: Carries each attempt.
        clock: Sleeps between attempts.
        random: The source of jitter.
    """

    def __init__(self, transport: Transport, clock: Clock, random: Random) -> None:
        self._transport = transport
        self._clock = clock
        self._random = random

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
        """See `Transport.request`; the timeout is that of one attempt."""
        changes_nothing = method == "GET" or (query is not None and query.get("dryRun") == "All")
        # One object a request: tenacity keeps the state of an attempt in it.
        retrying = tenacity.AsyncRetrying(
            sleep=self._clock.sleep,
            stop=_give_up,
            wait=self._delay,
            retry=tenacity.retry_if_exception_type(_SAFE_TO_READ_AGAIN if changes_nothing else _SAFE_TO_REPEAT),
            reraise=True,
        )
        return await retrying(
            self._transport.request, method, path, query, body, content_type=content_type, timeout=timeout, guard=guard
        )

    def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, read_timeout: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """See `Transport.stream`."""
        return self._transport.stream(path, query, read_timeout=read_timeout)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._transport.close()

    def _delay(self, state: tenacity.RetryCallState) -> float:
        """Seconds until the next attempt: as long as the server asks for, and never less than the backoff.

        The server asks everybody for the same; jitter keeps those who were refused together from coming back together.
        """
        seconds = max(BASE_DELAY * 2.0 ** (state.attempt_number - 1), min(_retry_after(state), MAX_RETRY_AFTER))
        return seconds * (1 + JITTER * self._random.random())


def _retry_after(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    return (error.retry_after or 0.0) if isinstance(error, KubernetesError) else 0.0


def _give_up(state: tenacity.RetryCallState) -> bool:
    """Whether to end it here. tenacity's own rule for the time spent reads a clock that is not ours."""
    return state.attempt_number >= MAX_ATTEMPTS or state.idle_for + state.upcoming_sleep > MAX_TOTAL_WAIT
