"""A number of bytes that all answers share which arrive and are read at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flamectl_operator.runtime.limits import Slots


class Budget(Slots):
    """Bytes that holders take in the order in which they asked."""

    @contextmanager
    def share(self) -> Iterator[Share]:
        """Hold bytes while the context is entered."""
        share = Share(self)
        try:
            yield share
        finally:
            self.give_back(share.size)


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
