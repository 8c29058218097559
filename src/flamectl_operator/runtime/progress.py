"""What is under way, and when it last made progress: this tells work that is stuck from work that takes long.

A pass over a large cluster may take minutes. One against an API server that does not answer takes longer still, for each of its
requests has to time out first. Starting the process again helps neither. Work that is stuck makes no progress at all: it waits
for something that never comes.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

K = TypeVar("K", bound="Hashable")


@dataclass(slots=True)
class _Work:
    """Something under way; `moved` is when it last made progress, by the event loop's clock."""

    moved: float


#: What the running task, or the one that started it, works on.
_WORK: ContextVar[_Work | None] = ContextVar("work", default=None)


def got_on() -> None:
    """Notes progress of the work that the running task belongs to, such as a request that was answered or timed out."""
    work = _WORK.get()
    if work is not None:
        work.moved = _now()


class UnderWay(Generic[K]):
    """Things under way, each by its key."""

    def __init__(self) -> None:
        self._works: dict[K, _Work] = {}

    @contextmanager
    def begin(self, key: K) -> Iterator[None]:
        """For the time of a piece of work; tasks that are started in it work on the same."""
        work = self._works[key] = _Work(_now())
        token = _WORK.set(work)
        try:
            yield
        finally:
            _WORK.reset(token)
            del self._works[key]

    def stillest(self) -> tuple[K, float] | None:
        """The work whose last progress is longest ago, and when that was by the event loop's clock; None if there is no work."""
        key = min(self._works, key=lambda key: self._works[key].moved, default=None)
        return None if key is None else (key, self._works[key].moved)


def _now() -> float:
    return asyncio.get_running_loop().time()
