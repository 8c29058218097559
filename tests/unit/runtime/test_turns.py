"""Works side by side report in their order, whichever of them is faster."""

import asyncio
from contextvars import ContextVar
from functools import partial

import pytest

from flamectl_operator.runtime.turns import in_turn, side_by_side

WHO: ContextVar[str] = ContextVar("who", default="nobody")


async def _work(said: list[str], name: str, steps: int, error: Exception | None = None) -> str:
    """Say something at each of some steps."""
    WHO.set(name)
    for step in range(steps):
        in_turn(lambda step=step: said.append(f"{WHO.get()}{step}"))  # type: ignore[misc]
        await asyncio.sleep(0)
    if error is not None:
        raise error
    return name


def test_report_is_made_at_once_where_nothing_runs_beside_it() -> None:
    said: list[str] = []
    in_turn(lambda: said.append("at once"))

    assert said == ["at once"]


@pytest.mark.parametrize("steps", [(3, 1, 1), (1, 3, 1), (1, 1, 3), (2, 2, 2), (0, 0, 1)])
async def test_reports_and_results_have_the_order_of_the_works(steps: tuple[int, ...]) -> None:
    said: list[str] = []

    results = await side_by_side(*(partial(_work, said, name, count) for name, count in zip("abc", steps, strict=True)))

    assert results == ["a", "b", "c"]
    assert said == [f"{name}{step}" for name, count in zip("abc", steps, strict=True) for step in range(count)]


async def test_first_work_reports_at_once_and_the_next_one_when_its_turn_comes() -> None:
    said: list[str] = []
    go_on, heard, seen = asyncio.Event(), asyncio.Event(), []

    async def first() -> None:
        in_turn(lambda: said.append("first"))
        seen.append(list(said))
        await go_on.wait()

    def report() -> None:
        said.append("second")
        heard.set()

    async def second() -> None:
        in_turn(report)
        seen.append(list(said))
        go_on.set()
        await heard.wait()
        in_turn(lambda: said.append("second again"))
        seen.append(list(said))

    await side_by_side(first, second)

    assert seen == [["first"], ["first"], ["first", "second", "second again"]]


async def test_report_of_a_task_that_a_work_started_waits_for_the_turn_of_the_work() -> None:
    said: list[str] = []

    async def second() -> None:
        await asyncio.gather(_work(said, "b", 1), _work(said, "c", 1))

    await side_by_side(partial(_work, said, "a", 9), second)

    assert said[-2:] == ["b0", "c0"]


async def test_failure_of_a_work_neither_stops_the_others_nor_swallows_their_reports() -> None:
    said: list[str] = []
    with pytest.raises(ValueError, match="broken"):
        await side_by_side(partial(_work, said, "a", 1, ValueError("broken")), partial(_work, said, "b", 3))

    assert said == ["a0", "b0", "b1", "b2"]


async def test_cancelled_works_have_ended_and_have_reported_what_they_did() -> None:
    said: list[str] = []
    begun = asyncio.Barrier(3)

    async def long(name: str) -> None:
        await _work(said, name, 1)
        try:
            await begun.wait()
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            in_turn(lambda: said.append(f"{name} ends"))

    running = asyncio.create_task(side_by_side(partial(long, "a"), partial(long, "b")))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert said == ["a0", "a ends", "b0", "b ends"]


async def test_works_that_are_cancelled_before_they_begin_leave_nothing_behind() -> None:
    said: list[str] = []
    running = asyncio.create_task(side_by_side(partial(_work, said, "a", 1), partial(_work, said, "b", 1)))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert said == []
