"""A transport that retries requests where a retry is safe.

A read or a dry run can be repeated after almost any failure. A write can be repeated only when it is certain that nothing was
done: no connection was established, or the server rejected the request. If the connection broke after a write was sent, only a
read can tell whether the write was applied. That read is up to the caller, who knows the object.
"""

from random import Random

import tenacity

from flamectl_operator.kube.errors import (
    ConnectionFailedError,
    ConnectionLostError,
    KubernetesError,
    NotReadyError,
    ServerError,
    TooManyRequestsError,
)
from flamectl_operator.kube.http.request import Request
from flamectl_operator.kube.http.transport import Transport, WrappedTransport
from flamectl_operator.runtime.clock import Clock

MAX_ATTEMPTS = 4

#: Seconds before the first retry; doubled for each further retry, plus up to 50 % jitter.
BASE_DELAY = 0.25
JITTER = 0.5

#: The longest `Retry-After` to wait for, in seconds; for a longer one the caller decides.
MAX_RETRY_AFTER = 30.0

#: Seconds for all waits of one request together, because a worker that waits longer should requeue.
MAX_TOTAL_WAIT = 45.0

_SAFE_TO_REPEAT = (ConnectionFailedError, NotReadyError, TooManyRequestsError)
_SAFE_TO_READ_AGAIN = (*_SAFE_TO_REPEAT, ConnectionLostError, ServerError)


class RetryingTransport(WrappedTransport):
    """A transport that retries requests. Streams are not retried, because their reader knows where to resume."""

    def __init__(self, transport: Transport, clock: Clock, random: Random) -> None:
        super().__init__(transport)
        self._clock = clock
        self._random = random

    async def send(self, request: Request) -> bytes:
        """Send a request, and again after failures that leave it safe to repeat."""
        repeatable = _SAFE_TO_READ_AGAIN if request.changes_nothing else _SAFE_TO_REPEAT
        try:
            return await self._transport.send(request)
        except repeatable as error:
            failed: list[KubernetesError] = [error]

        async def attempt() -> bytes:
            """Raise the error of the first attempt, which did without tenacity, whose objects cost a quarter of a request."""
            if failed:
                raise failed.pop()
            return await self._transport.send(request)

        # One object per request, because tenacity keeps the state of an attempt in it.
        retrying = tenacity.AsyncRetrying(
            sleep=self._clock.sleep,
            stop=_give_up,
            wait=self._delay,
            retry=tenacity.retry_if_exception_type(repeatable),
            reraise=True,
        )
        return await retrying(attempt)

    def _delay(self, state: tenacity.RetryCallState) -> float:
        """Return the seconds that the server asks for, at least the backoff, with jitter: it asks all clients for the same."""
        seconds = max(BASE_DELAY * 2.0 ** (state.attempt_number - 1), min(_retry_after(state), MAX_RETRY_AFTER))
        return seconds * (1 + JITTER * self._random.random())


def _retry_after(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    return (error.retry_after or 0.0) if isinstance(error, KubernetesError) else 0.0


def _give_up(state: tenacity.RetryCallState) -> bool:
    """Return whether to stop; tenacity's own limit on time reads the real clock."""
    return state.attempt_number >= MAX_ATTEMPTS or state.idle_for + state.upcoming_sleep > MAX_TOTAL_WAIT
