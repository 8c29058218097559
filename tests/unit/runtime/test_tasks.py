from __future__ import annotations

import asyncio

import pytest

from flamectl_operator.runtime.tasks import TaskDiedError, run_forever, while_running


async def fail_after(seconds: float) -> None:
    await asyncio.sleep(seconds)
    raise ValueError("broken")


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


async def test_a_task_that_merely_returns_is_as_bad() -> None:
    with pytest.raises(TaskDiedError, match="task workers ended without being asked to"):
        await run_forever({"workers": asyncio.sleep(1), "reflector": asyncio.sleep(2)})


async def test_of_two_that_end_at_once_the_one_with_an_error_is_named() -> None:
    with pytest.raises(TaskDiedError) as caught:
        await run_forever({"a": asyncio.sleep(1), "b": fail_after(1)})
    assert caught.value.name == "b"


async def test_cancelling_cancels_all_tasks() -> None:
    cancelled: list[str] = []

    async def wait_for_ever(name: str) -> None:
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            cancelled.append(name)
            raise

    running = asyncio.create_task(run_forever({name: wait_for_ever(name) for name in "ab"}))
    await asyncio.sleep(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(cancelled) == ["a", "b"]


async def test_work_is_waited_for_and_ends_what_runs_beside_it() -> None:
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


async def test_work_that_fails_says_so() -> None:
    with pytest.raises(ValueError, match="broken"):
        await while_running({"settings": asyncio.sleep(1e9)}, fail_after(1))


async def test_work_does_not_go_on_without_what_must_run_beside_it() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            ended.append("work")

    with pytest.raises(TaskDiedError, match="task settings failed: broken"):
        await while_running({"settings": fail_after(1)}, work())
    assert ended == ["work"]


async def test_cancelling_cancels_the_work_and_what_runs_beside_it() -> None:
    cancelled: list[str] = []

    async def wait_for_ever(name: str) -> None:
        try:
            await asyncio.sleep(1e9)
        except asyncio.CancelledError:
            cancelled.append(name)
            raise

    running = asyncio.create_task(while_running({"settings": wait_for_ever("settings")}, wait_for_ever("work")))
    await asyncio.sleep(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(cancelled) == ["settings", "work"]
