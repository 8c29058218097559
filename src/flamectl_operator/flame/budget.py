"""A number of bytes that all answers share which arrive and are read at the same time."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Budget:
    """Bytes that holders take in the order in which they asked.

    Args:
        limit: The most bytes that all holders have together.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._line: deque[tuple[asyncio.Future[None], int]] = deque()
        #: Bytes that holders have.
        self.taken = 0

    @contextmanager
    def share(self) -> Iterator[Share]:
        """Hold bytes while the context is entered."""
        share = Share(self)
        try:
            yield share
        finally:
            self.taken -= share.size
            self._admit()

    async def take(self, size: int) -> None:
        """Wait until there are so many bytes, and take them; they must not be more than the limit."""
        admitted = asyncio.get_running_loop().create_future()
        entry = (admitted, size)
        self._line.append(entry)
        self._admit()
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self.taken -= size  # admitted and cancelled in the same iteration of the loop
            else:
                self._line.remove(entry)
            self._admit()
            raise

    def _admit(self) -> None:
        while self._line and self.taken + self._line[0][1] <= self._limit:
            admitted, size = self._line[0]
            if admitted.done():
                return  # a caller that was just cancelled removes itself from the line when it runs
            self._line.popleft()
            self.taken += size
            admitted.set_result(None)


class Share:
    """The bytes of one holder."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.size = 0
        #: Bytes that have arrived or are announced.
        self.received = 0

    async def take(self, size: int) -> None:
        """Wait until there are so many more bytes."""
        await self._budget.take(size)
        self.size += size
