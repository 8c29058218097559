"""The memory for answers of session managers while they arrive and are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flamectl_operator.runtime.slots import Slots


class AnswerMemory(Slots):
    """Bytes that answers take in the order in which they asked. Namespaces take turns."""

    @contextmanager
    def share(self, namespace: str = "") -> Iterator[Share]:
        """Hold bytes while the context is entered."""
        share = Share(self, namespace)
        try:
            yield share
        finally:
            self.give_back(share.size, namespace)


class Share:
    """The bytes of one answer."""

    def __init__(self, memory: AnswerMemory, namespace: str) -> None:
        self._memory = memory
        self._namespace = namespace
        #: Called when bytes were taken, because the time of an answer begins again with its turn.
        self.taken: Callable[[], object] = lambda: None
        self.size = 0
        #: Bytes that have arrived or are announced.
        self.received = 0

    async def take(self, size: int) -> None:
        """Wait until there are so many more bytes."""
        await self._memory.take(size, self._namespace)
        self.size += size
        self.taken()
