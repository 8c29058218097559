"""Limits the memory that answers of session managers take while they arrive, are read, and are kept."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from flamectl_operator.runtime.slots import Slots


class AnswerMemory(Slots):
    """Bytes that answers take in the order in which they asked. Namespaces take turns."""

    @contextmanager
    def share(self, namespace: str = "") -> "Iterator[Share]":
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


Key = tuple[str, str]


def to_give_up(sizes: Mapping[Key, int], newest: Key, most: int) -> tuple[Key, ...]:
    """Return the FlameClusters whose answers are given up, until those that are left have `most` bytes.

    The namespace that keeps most gives up its largest answer, or the newest answer alone if that is its own. So a namespace keeps
    its share, whoever comes first and however many answers another one has.
    """
    left, found = dict(sizes), list[Key]()
    while sum(left.values()) > most:
        kept: Counter[str] = Counter()
        for (namespace, _), size in left.items():
            kept[namespace] += size
        namespace = max(kept, key=lambda each: (kept[each], each == newest[0]))
        if namespace == newest[0]:
            return (newest,)
        found.append(max((key for key in left if key[0] == namespace), key=left.__getitem__))
        del left[found[-1]]
    return tuple(found)
