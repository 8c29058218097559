"""Work in progress and the time of its last progress, which tells stuck work from slow work.

A pass over a large cluster may take minutes. A pass against an API server that does not answer takes even longer, because each of
its requests has to time out first. Restarting the process helps neither. Stuck work makes no progress at all: it waits for
something that never comes.
"""

import asyncio
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Work:
    """Work in progress; `moved` is the time of its last progress on the event loop's clock."""

    moved: float


#: The work of the running task, or of the task that started it.
_WORK: ContextVar[_Work | None] = ContextVar("work", default=None)


def record_progress() -> None:
    """Record progress of the running task's work, such as a request that was answered or timed out."""
    work = _WORK.get()
    if work is not None:
        work.moved = asyncio.get_running_loop().time()


class UnderWay(Generic[K]):
    """Work in progress, by key."""

    def __init__(self) -> None:
        self._works: dict[K, _Work] = {}

    @contextmanager
    def begin(self, key: K) -> Iterator[None]:
        """Track work while the context is entered; tasks started inside belong to the same work."""
        work = self._works[key] = _Work(asyncio.get_running_loop().time())
        token = _WORK.set(work)
        try:
            yield
        finally:
            _WORK.reset(token)
            del self._works[key]

    def longest_idle(self) -> tuple[K, float] | None:
        """Return the work whose last progress is oldest, with the time of that progress; None without work."""
        key = min(self._works, key=lambda key: self._works[key].moved, default=None)
        return None if key is None else (key, self._works[key].moved)
