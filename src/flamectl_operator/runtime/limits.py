"""Bounds on what goes on: so many at a time, so many a second. Both can be changed while somebody waits."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from flamectl_operator.runtime.clock import Clock

#: The longest that somebody who waits for a token sleeps before looking again, in seconds: the rate may have been raised.
LOOK_AGAIN = 1.0

#: And the shortest, in seconds: rounding may leave a wait so short that it does not move the clock.
SHORTEST_WAIT = 0.001


class Slots:
    """Lets so many in at a time; the others wait in line.

    Args:
        limit: How many, at least 1.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._line: deque[asyncio.Future[None]] = deque()

    def resize(self, limit: int) -> None:
        """Changes how many may be in; those who are in stay."""
        self._limit = limit
        self._admit()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits for a slot and keeps it for as long as this is entered."""
        await self._enter()
        try:
            yield
        finally:
            self._leave()

    async def _enter(self) -> None:
        if self._taken < self._limit and not self._line:
            self._taken += 1
            return
        admitted = asyncio.get_running_loop().create_future()
        self._line.append(admitted)
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self._leave()  # let in and called away at the same moment
            else:
                self._line.remove(admitted)
                self._admit()  # somebody who came after, while this one was still in line
            raise

    def _leave(self) -> None:
        self._taken -= 1
        self._admit()

    def _admit(self) -> None:
        while self._line and self._taken < self._limit:
            # Who was cancelled just now takes itself off the line when it runs.
            admitted = next((each for each in self._line if not each.done()), None)
            if admitted is None:
                return
            self._line.remove(admitted)
            self._taken += 1
            admitted.set_result(None)


class TokenBucket:
    """Lets so many pass a second, and a few at once after a while in which nobody came, as client-go's rate limiter.

    Args:
        rate: How many a second; 0 lets everybody pass.
        burst: How many at once; 0 means as many as in a second, at least one.
        clock: The time.
    """

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        self._clock = clock
        self._turn = asyncio.Lock()
        self._rate = rate
        self._size = _size(rate, burst)
        self._tokens = self._size
        self._filled: float | None = None

    def resize(self, rate: float, burst: int) -> None:
        """Changes the rate and how many may pass at once."""
        self._fill()
        self._rate, self._size = rate, _size(rate, burst)
        self._tokens = min(self._tokens, self._size)

    async def take(self) -> None:
        """Waits until it may pass; who comes first passes first."""
        if self._rate == 0:
            return
        async with self._turn:
            while self._rate > 0:
                self._fill()
                if self._tokens >= 1:
                    self._tokens -= 1
                    return
                missing = (1 - self._tokens) / self._rate
                await self._clock.sleep(min(max(missing, SHORTEST_WAIT), LOOK_AGAIN))

    def _fill(self) -> None:
        now = self._clock.monotonic()
        if self._filled is not None:
            self._tokens = min(self._size, self._tokens + (now - self._filled) * self._rate)
        self._filled = now


def _size(rate: float, burst: int) -> float:
    return float(burst or max(1.0, rate))
