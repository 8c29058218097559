from __future__ import annotations

import asyncio

import pytest

from flamectl_operator.runtime.progress import UnderWay, got_on


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_nothing_is_still_when_nothing_is_under_way() -> None:
    works: UnderWay[str] = UnderWay()
    assert works.stillest() is None
    with works.begin("a"):
        assert works.stillest() == ("a", now())
    assert works.stillest() is None


async def test_what_has_not_got_on_for_the_longest_time_is_the_stillest() -> None:
    works: UnderWay[str] = UnderWay()
    begun = now()

    async def work(name: str, *steps: float) -> None:
        with works.begin(name):
            for step in steps:
                await asyncio.sleep(step)
                got_on()

    async with asyncio.TaskGroup() as group:
        group.create_task(work("quick", 1, 1, 1, 1, 1, 1))
        group.create_task(work("slow", 2, 100))
        await asyncio.sleep(5.5)
        assert works.stillest() == ("slow", begun + 2)


async def test_tasks_started_by_a_work_move_it() -> None:
    works: UnderWay[str] = UnderWay()

    async def part() -> None:
        await asyncio.sleep(3)
        got_on()

    with works.begin("a"):
        async with asyncio.TaskGroup() as group:
            group.create_task(part())
        assert works.stillest() == ("a", now())


async def test_outside_of_any_work_nothing_moves() -> None:
    works: UnderWay[str] = UnderWay()
    begun = now()

    async def idle() -> None:
        with works.begin("a"):
            await asyncio.sleep(10)

    async with asyncio.TaskGroup() as group:
        group.create_task(idle())
        await asyncio.sleep(5)
        got_on()
        assert works.stillest() == ("a", begun)


async def test_a_work_that_fails_is_over() -> None:
    works: UnderWay[str] = UnderWay()
    with pytest.raises(ValueError, match="no"), works.begin("a"):
        raise ValueError("no")
    assert works.stillest() is None
