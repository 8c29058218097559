import asyncio

import pytest

from flamectl_operator.runtime.progress import UnderWay, record_progress


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_longest_idle_is_none_without_work() -> None:
    works: UnderWay[str] = UnderWay()
    assert works.longest_idle() is None
    with works.begin("a"):
        assert works.longest_idle() == ("a", now())
    assert works.longest_idle() is None


async def test_longest_idle_is_the_work_with_the_oldest_progress() -> None:
    works: UnderWay[str] = UnderWay()
    begun = now()

    async def work(name: str, *steps: float) -> None:
        with works.begin(name):
            for step in steps:
                await asyncio.sleep(step)
                record_progress()

    async with asyncio.TaskGroup() as group:
        group.create_task(work("quick", 1, 1, 1, 1, 1, 1))
        group.create_task(work("slow", 2, 100))
        await asyncio.sleep(5.5)
        assert works.longest_idle() == ("slow", begun + 2)


async def test_progress_of_child_tasks_counts_for_their_work() -> None:
    works: UnderWay[str] = UnderWay()

    async def part() -> None:
        await asyncio.sleep(3)
        record_progress()

    with works.begin("a"):
        async with asyncio.TaskGroup() as group:
            group.create_task(part())
        assert works.longest_idle() == ("a", now())


async def test_progress_outside_of_work_is_ignored() -> None:
    works: UnderWay[str] = UnderWay()
    begun = now()

    async def idle() -> None:
        with works.begin("a"):
            await asyncio.sleep(10)

    async with asyncio.TaskGroup() as group:
        group.create_task(idle())
        await asyncio.sleep(5)
        record_progress()
        assert works.longest_idle() == ("a", begun)


async def test_failed_work_is_no_longer_tracked() -> None:
    works: UnderWay[str] = UnderWay()
    with pytest.raises(ValueError, match="no"), works.begin("a"):
        raise ValueError("no")
    assert works.longest_idle() is None
