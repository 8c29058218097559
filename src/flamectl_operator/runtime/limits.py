"""Limits on concurrency, which can be changed while callers wait, and on rates."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slots:
    """A semaphore with a limit that can be changed; callers wait in the order in which they came.

    Args:
        limit: The most slots that all holders have together, at least 1.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line: deque[tuple[asyncio.Future[None], int]] = deque()
        #: Slots that holders have.
        self.taken = 0

    def resize(self, limit: int) -> None:
        """Change the limit; callers that hold a slot keep it."""
        self._limit = limit
        self._admit()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot and keep it while the context is entered."""
        await self.take()
        try:
            yield
        finally:
            self.give_back()

    async def take(self, count: int = 1) -> None:
        """Wait until there are so many slots, and take them; they must not be more than the limit."""
        if self.taken + count <= self._limit and not self._line:
            self.taken += count
            return
        admitted = asyncio.get_running_loop().create_future()
        self._line.append((admitted, count))
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self.give_back(count)  # admitted and cancelled in the same iteration of the loop
            else:
                self._line.remove((admitted, count))
                self._admit()  # slots may have been free for the next caller
            raise

    def give_back(self, count: int = 1) -> None:
        """Let others have slots."""
        self.taken -= count
        self._admit()

    def _admit(self) -> None:
        while self._line:
            # A caller that was just cancelled removes itself from the line when it runs.
            first = next((each for each in self._line if not each[0].done()), None)
            if first is None or self.taken + first[1] > self._limit:
                return
            self._line.remove(first)
            self.taken += first[1]
            first[0].set_result(None)


class Bucket:
    """A token bucket, which every limit on requests, events and log lines uses.

    Args:
        rate: Tokens per second.
        size: The most tokens; the bucket starts full.
        now: The time, in seconds of a monotonic clock.
    """

    __slots__ = ("_filled", "_tokens", "rate", "size")

    def __init__(self, rate: float, size: float, now: float) -> None:
        self.rate = rate
        self.size = size
        self._tokens = size
        self._filled = now

    def try_take(self, now: float, keep: float = 0) -> bool:
        """Take a token if at least `keep` tokens remain after it.

        Returns:
            Whether a token was taken.
        """
        self._fill(now)
        if self._tokens < 1 + keep:
            return False
        self._tokens -= 1
        return True

    def give_back(self) -> None:
        """Put a token back that was taken in vain."""
        self._tokens = min(self.size, self._tokens + 1)

    def delay(self, now: float) -> float:
        """Return the seconds until a token is available."""
        self._fill(now)
        return max(0.0, (1 - self._tokens) / self.rate)

    def _fill(self, now: float) -> None:
        self._tokens = min(self.size, self._tokens + (now - self._filled) * self.rate)
        self._filled = now
