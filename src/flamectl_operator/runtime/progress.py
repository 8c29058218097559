"""What is under way, and when it last got on: so that what is stuck can be told from what takes long.

A pass over a large cluster may take minutes, and one against an API server that answers nothing longer still, for each of
its requests has to run into its timeout first. Neither is helped by starting the process again. But whatever waits for
something that will never come gets on with nothing at all.
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
    """Something under way; `moved` is when it last got on, by the event loop's clock."""

    moved: float


#: What the running task, or the one that started it, works on.
_WORK: ContextVar[_Work | None] = ContextVar("work", default=None)


def got_on() -> None:
    """Says that what the running task works on has got on by a bit, such as by an answer or the end of waiting for it."""
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
        """What has not got on for the longest time, and since when, by the event loop's clock; None when nothing is under way."""
        key = min(self._works, key=lambda key: self._works[key].moved, default=None)
        return None if key is None else (key, self._works[key].moved)


def _now() -> float:
    return asyncio.get_running_loop().time()
