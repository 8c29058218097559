import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from flamectl_operator.runtime.tasks import TaskDiedError, racing, run_forever, while_running


async def _with_work(background: dict[str, Coroutine[Any, Any, None]]) -> None:
    _, work = background.popitem()
    await while_running(background, work)


async def fail_after(seconds: float) -> None:
    await asyncio.sleep(seconds)
    raise ValueError("broken")


async def test_race_ends_with_its_first_task() -> None:
    begun = asyncio.get_running_loop().time()
    slow, fast = asyncio.create_task(asyncio.sleep(3)), asyncio.create_task(asyncio.sleep(1, "fast"))
    async with racing(slow, fast) as ended:
        assert asyncio.get_running_loop().time() - begun == 1
        assert ended == {fast}
        assert await fast == "fast"
        assert not slow.done(), "it may still be waited for"
    assert slow.cancelled()


async def test_error_of_the_first_task_is_raised_only_when_awaited() -> None:
    failing, other = asyncio.create_task(fail_after(1)), asyncio.create_task(asyncio.sleep(1e9))
    async with racing(failing, other) as ended:
        assert ended == {failing}
        with pytest.raises(ValueError, match="broken"):
            await failing
    assert other.cancelled()


async def test_leaving_a_race_waits_for_the_other_tasks_and_drops_their_errors() -> None:
    cleaned: list[float] = []

    async def stubborn() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            await asyncio.sleep(5)
            cleaned.append(asyncio.get_running_loop().time())
            raise ValueError("too late")

    async with racing(asyncio.create_task(stubborn()), asyncio.create_task(asyncio.sleep(1))):
        assert not cleaned
    assert cleaned == [asyncio.get_running_loop().time()]


async def test_error_in_the_context_of_a_race_ends_its_tasks() -> None:
    other = asyncio.create_task(asyncio.sleep(1e9))
    with pytest.raises(KeyError):
        async with racing(other, asyncio.create_task(asyncio.sleep(1))):
            raise KeyError
    assert other.cancelled()


async def test_cancelling_a_race_before_anything_ended_cancels_its_tasks() -> None:
    tasks = [asyncio.create_task(asyncio.sleep(1e9)) for _ in range(2)]

    async def race() -> None:
        async with racing(*tasks):
            raise AssertionError("nothing has ended")

    running = asyncio.create_task(race())
    await asyncio.sleep(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert all(task.cancelled() for task in tasks)


async def test_a_task_that_fails_ends_all_with_its_error() -> None:
    other = asyncio.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            other.set()

    with pytest.raises(TaskDiedError, match="task reflector failed: broken") as caught:
        await run_forever({"workers": wait_for_ever(), "reflector": fail_after(1)})
    assert isinstance(caught.value.__cause__, ValueError)
    assert other.is_set()


async def test_task_that_returns_ends_all_with_an_error() -> None:
    with pytest.raises(TaskDiedError, match="task workers ended unexpectedly"):
        await run_forever({"workers": asyncio.sleep(1), "reflector": asyncio.sleep(2)})


@pytest.mark.parametrize("run", [run_forever, _with_work], ids=["tasks", "work and background tasks"])
async def test_cancelling_cancels_all_tasks(run: Callable[[dict[str, Any]], Coroutine[Any, Any, None]]) -> None:
    cancelled: list[str] = []

    async def wait_for_ever(name: str) -> None:
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            cancelled.append(name)
            raise

    running = asyncio.create_task(run({name: wait_for_ever(name) for name in "ab"}))
    await asyncio.sleep(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(cancelled) == ["a", "b"]


async def test_background_tasks_end_with_the_work() -> None:
    ended: list[str] = []

    async def wait_for_ever() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            ended.append("background")

    async def work() -> None:
        await asyncio.sleep(1)
        ended.append("work")

    await while_running({"settings": wait_for_ever()}, work())
    assert ended == ["work", "background"]


async def test_work_is_cancelled_when_a_background_task_ends() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            ended.append("work")

    with pytest.raises(TaskDiedError, match="task settings failed: broken"):
        await while_running({"settings": fail_after(1)}, work())
    assert ended == ["work"]
