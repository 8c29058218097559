"""Works that run side by side and report in turn, so that readers see the same order whichever of them is faster."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import TypeVar

T = TypeVar("T")


class _Turns:
    """Whose turn it is, and the reports that wait for theirs."""

    def __init__(self, count: int) -> None:
        self._waiting: list[list[Callable[[], None]]] = [[] for _ in range(count)]
        self._ended: set[int] = set()
        self._present = 0

    def report(self, number: int, make: Callable[[], None]) -> None:
        """Make a report of a work now, or when all works before it have ended."""
        if number <= self._present:
            make()
        else:
            self._waiting[number].append(make)

    def end(self, number: int) -> None:
        """Note the end of a work; the next one may report."""
        self._ended.add(number)
        while self._present in self._ended:
            self._present += 1
            for make in self._waiting[self._present] if self._present < len(self._waiting) else ():
                make()


#: The turns of the works to which the running code belongs, and the number of its work; None where nothing runs beside it.
_TURN: ContextVar[tuple[_Turns, int] | None] = ContextVar("turn", default=None)


def in_turn(report: Callable[[], None]) -> None:
    """Make a report that others see, such as an event: at once, or when the works before that of the caller have ended."""
    turn = _TURN.get()
    if turn is None:
        report()
    else:
        turns, number = turn
        turns.report(number, partial(copy_context().run, report))


async def side_by_side(*works: Callable[[], Awaitable[T]]) -> list[T]:
    """Run works at the same time, each as a task of its own; return their results in their order, or raise the first error.

    The failure of one does not stop the others, because a request that is cut off may have been carried out. All have ended when
    this returns or raises.
    """
    turns = _Turns(len(works))

    async def run(number: int, work: Callable[[], Awaitable[T]]) -> T:
        _TURN.set((turns, number))
        try:
            return await work()
        finally:
            turns.end(number)

    ends = await asyncio.gather(*(run(number, work) for number, work in enumerate(works)), return_exceptions=True)
    results: list[T] = []
    for end in ends:
        if isinstance(end, BaseException):
            raise end
        results.append(end)
    return results
