"""The behaviour of a session manager with SQLite towards sessions and executors, as rules like those of `contract.py`.

A rule plays the executors and the clients as well: it opens sessions, starts executors, binds them to sessions and runs tasks.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from grpclib import GRPCError

from flamectl_operator.flame.answer import ExecutorState, Load, NodeState
from tests.flame.bench import LOST, ROUNDS, SOON
from tests.flame.model import BIND_FAILED, RETRY_LIMIT, RETRY_LIMIT_REACHED

if TYPE_CHECKING:
    from tests.flame.bench import Bench, Executor, Rule


async def executor_runs_tasks_of_its_session_and_ends_with_it(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a")):
        session = await bench.open_session("s", tasks=2)
        executor = await bench.bound()
        assert executor.session == session
        for _ in range(2):
            assert await bench.launch(executor)
            assert (await bench.session("s")).running == 1
            await bench.complete(executor)
        await bench.call("CloseSession", session_id=session)
        assert not await bench.launch(executor)
        await bench.leave(executor)
        await _unregister_idle(bench)
        assert await bench.executors() == []


async def session_tells_when_it_was_opened_and_closed(bench: Bench) -> None:
    before = time.time()
    session = await bench.open_session("s", tasks=0)
    opened = (await bench.answer()).used_at
    await bench.sleep(ROUNDS)
    await bench.call("CloseSession", session_id=session)
    closed = (await bench.answer()).used_at
    # Some storage keeps whole seconds.
    assert before - 1 <= opened <= closed <= time.time()


async def task_tells_each_time_that_it_was_begun(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a")):
        await bench.open_session("s", tasks=2)
        assert await bench.launch(await bench.bound())
    async with bench.client() as client:
        await client.report_lost(bench.name("a"))
        assert await bench.becomes(bench.name("a"), NodeState.NOT_READY, LOST)
        await client.release_node(bench.name("a"))
    assert sorted(await bench.tasks("s")) == [("pending", 0), ("pending", 1)]
    async with bench.executor_manager(bench.name("b")):
        executor = await bench.bound()
        for _ in range(2):
            assert await bench.launch(executor)
            await bench.complete(executor)
        assert sorted(await bench.tasks("s")) == [("succeeded", 1), ("succeeded", 2)]


async def session_gets_one_executor_at_a_time(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a"), capacity=3):
        await bench.open_session("s", tasks=3)
        known: list[str] = []
        for _ in range(3):
            new = await bench.executor(ExecutorState.VOID)
            await bench.sleep(ROUNDS)
            assert [each.id for each in await bench.executors() if each.id not in known] == [new.id]
            known.append((await bench.bound()).id)


async def executors_go_to_any_node_with_room(bench: Bench) -> None:
    nodes = {bench.name("a"): 9, bench.name("b"): 9, bench.name("c"): 1}
    async with (
        bench.executor_manager(bench.name("a"), capacity=9),
        bench.executor_manager(bench.name("b"), capacity=9),
        bench.executor_manager(bench.name("c"), capacity=1),
    ):
        await bench.open_session("s", tasks=18)
        known = [await bench.bound()]
        for _ in range(17):
            known.append(await bench.bound(but=[each.id for each in known]))
        used = [sum(each.node == node for each in known) for node in nodes]
        assert all(number <= room for number, room in zip(used, nodes.values(), strict=True))
        assert sum(number > 0 for number in used) > 1


async def session_waits_for_an_executor_on_a_dead_node_though_another_has_room(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("dead")):
        pass
    await bench.open_session("s", tasks=2)
    assert (await bench.executor(ExecutorState.VOID)).node == bench.name("dead")
    async with bench.executor_manager(bench.name("a"), capacity=2), bench.client() as client:
        await bench.sleep(ROUNDS)
        assert await bench.executors(bench.name("a")) == []
        await client.report_lost(bench.name("dead"))
        assert await bench.becomes(bench.name("dead"), NodeState.NOT_READY, LOST)
        assert await bench.executor(ExecutorState.VOID, bench.name("a"))
        assert await bench.executors(bench.name("dead")) == []


async def session_of_lower_priority_gets_no_executor_while_tasks_of_a_higher_one_wait(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a"), capacity=4):
        await bench.open_session("low", tasks=1, priority=1)
        await bench.open_session("high", tasks=1, priority=2)
        # One that began for the lower one goes to the higher one.
        executor = await bench.bound()
        assert executor.session == bench.name("high")
        await bench.sleep(ROUNDS)
        assert [each for each in await bench.executors() if each.session == bench.name("low")] == []
        assert await bench.launch(executor)
        assert (await bench.bound()).session == bench.name("low")


async def failed_tasks_are_counted_and_not_repeated(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a")):
        await bench.open_session("s", tasks=2)
        executor = await bench.bound()
        assert await bench.launch(executor)
        await bench.complete(executor, failed=True)
        found = await bench.session("s")
        assert (found.pending, found.running, found.failed) == (1, 0, 1)


async def _fail_to_bind(bench: Bench, executor: Executor, times: int) -> None:
    """Let a new executor fail to bind to its session as an executor manager does whose application does not start."""
    await bench.call("RegisterExecutor", executor_id=executor.id, executor_spec={"node": executor.node})
    for _ in range(times):
        await bench.binding(executor.id)
        result = {"return_code": 12, "message": "no such file"}
        await bench.call("BindExecutorCompleted", executor_id=executor.id, result=result)
        await bench.leave(executor)


async def _unregister_idle(bench: Bench) -> None:
    """Let executors without a session go, such as have just started for a session that is paused by now, too."""
    for each in await bench.executors():
        if each.state is ExecutorState.VOID:
            await bench.call("RegisterExecutor", executor_id=each.id, executor_spec={"node": each.node})
    for each in await bench.executors():
        if not each.session:
            await bench.turns(each.id, ExecutorState.RELEASING)
            await bench.call("UnregisterExecutor", executor_id=each.id)


async def session_is_paused_after_some_failures_to_bind_and_keeps_its_executors(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a"), capacity=3):
        await bench.open_session("s", tasks=3)
        works = await bench.bound()
        assert await bench.launch(works)
        fails = await bench.executor(ExecutorState.VOID)
        await _fail_to_bind(bench, fails, RETRY_LIMIT - 1)
        assert [code for code, _ in await bench.events("s")] == [BIND_FAILED] * (RETRY_LIMIT - 1)
        assert not (await bench.session("s")).paused
        await bench.binding(fails.id)
        await bench.call("BindExecutorCompleted", executor_id=fails.id, result={"return_code": 12, "message": "gone"})

        events = await bench.events("s")
        assert [code for code, _ in events] == [BIND_FAILED] * RETRY_LIMIT + [RETRY_LIMIT_REACHED]
        assert f"on node <{bench.name('a')}>" in events[-2][1]
        paused = (await bench.session("s")).paused
        assert paused == events[-1][1]
        assert "5/5 failed attempts; new executor assignment is paused for this session" in paused
        await bench.leave(fails)
        await _unregister_idle(bench)
        await bench.sleep(ROUNDS)
        assert await bench.executors() == [works]
        await bench.complete(works)
        assert await bench.launch(works)


async def paused_session_keeps_those_of_lower_priority_from_executors_while_its_tasks_wait(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a"), capacity=3):
        session = await bench.open_session("high", tasks=1, priority=1)
        await _fail_to_bind(bench, await bench.executor(ExecutorState.VOID), RETRY_LIMIT)
        await _unregister_idle(bench)
        await bench.open_session("low", tasks=1)
        await bench.sleep(ROUNDS)
        assert await bench.executors() == []
        await bench.call("CloseSession", session_id=session)
        assert (await bench.bound()).session == bench.name("low")


async def restart_ends_the_pause_of_a_session_and_keeps_its_events(bench: Bench) -> None:
    if bench.restart is None:
        pytest.skip("nothing here can restart the session manager")
    async with bench.executor_manager(bench.name("a")):
        await bench.open_session("s", tasks=1)
        await _fail_to_bind(bench, await bench.executor(ExecutorState.VOID), RETRY_LIMIT)
        assert (await bench.session("s")).paused
    await bench.restart()
    async with bench.executor_manager(bench.name("b")):
        assert RETRY_LIMIT_REACHED in {code for code, _ in await bench.events("s")}
        assert not (await bench.session("s")).paused


async def executor_of_a_released_node_ends_its_session_and_is_unbinding_for_ever(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a")), bench.client() as client:
        session = await bench.open_session("s", tasks=2)
        executor = await bench.bound()
        assert await bench.launch(executor)
        await client.release_node(bench.name("a"))
        with pytest.raises(GRPCError):
            await bench.complete(executor)
        with pytest.raises(GRPCError):
            await bench.launch(executor)
        assert await bench.launch(executor)
        with pytest.raises(GRPCError):
            await bench.complete(executor)
        assert ((found := await bench.session("s")).pending, found.running) == (0, 0)
        await bench.call("CloseSession", session_id=session)
        assert not await bench.launch(executor)
        for _ in range(3):
            with pytest.raises(GRPCError):
                await bench.leave(executor)
        await bench.sleep(ROUNDS)
        assert await bench.executors() == [executor._replace(state=ExecutorState.UNBINDING, session="")]
        assert (await bench.answer()).drained(bench.name("a"))


async def executor_that_binds_while_its_node_is_released_is_bound_for_ever(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a")), bench.client() as client:
        session = await bench.open_session("s", tasks=1)
        new = await bench.executor(ExecutorState.VOID)
        await bench.call("RegisterExecutor", executor_id=new.id, executor_spec={"node": new.node})
        executor = await bench.binding(new.id)
        await client.release_node(bench.name("a"))
        for _ in range(2):
            with pytest.raises(GRPCError):
                await bench.call("BindExecutorCompleted", executor_id=executor.id, result={"return_code": 0})
        await bench.call("CloseSession", session_id=session)
        await bench.sleep(ROUNDS)
        assert await bench.executors() == [executor._replace(state=ExecutorState.BOUND)]


async def session_waits_for_an_executor_that_is_unbinding_for_ever(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a")), bench.client() as client:
        session = await bench.open_session("s", tasks=1)
        executor = await bench.bound()
        await client.release_node(bench.name("a"))
        await bench.call("CloseSession", session_id=session)
        for _ in range(2):
            with pytest.raises(GRPCError):
                await bench.leave(executor)
    async with bench.executor_manager(bench.name("b"), capacity=4), bench.client() as client:
        await bench.open_session("first", tasks=1)
        await bench.sleep(ROUNDS)
        assert await bench.executors(bench.name("b")) == []
        await bench.open_session("second", tasks=1)
        other = await bench.executor(ExecutorState.VOID, bench.name("b"))
        await client.report_lost(bench.name("a"))
        assert await bench.becomes(bench.name("a"), NodeState.NOT_READY, LOST)
        assert await bench.executors(bench.name("a")) == []
        await bench.bound(but=[each.id for each in await bench.executors() if each.id != other.id])
        assert await bench.bound(but=[other.id])


async def idle_executor_of_a_released_node_stops_the_scheduler_until_its_node_is_reported(bench: Bench) -> None:
    async with bench.executor_manager(bench.name("a")), bench.client() as client:
        await bench.open_session("s", tasks=1)
        new = await bench.executor(ExecutorState.VOID)
        await client.release_node(bench.name("a"))
        await bench.call("RegisterExecutor", executor_id=new.id, executor_spec={"node": new.node})
        async with bench.executor_manager(bench.name("b"), capacity=4):
            await bench.open_session("other", tasks=1, priority=1)
            await bench.sleep(ROUNDS)
            assert await bench.executors() == [new._replace(state=ExecutorState.IDLE)]
            seen = await bench.answer()
            assert (seen.load(bench.name("a"))[0], seen.drained(bench.name("a"))) == (Load.IDLE, True)
            await client.report_lost(bench.name("a"))
            assert (await bench.bound(bench.name("b"))).session == bench.name("other")
            assert await bench.becomes(bench.name("a"), NodeState.NOT_READY, LOST + SOON)
            assert await bench.executors(bench.name("a")) == []


RULES: tuple[Rule, ...] = (
    executor_runs_tasks_of_its_session_and_ends_with_it,
    session_tells_when_it_was_opened_and_closed,
    task_tells_each_time_that_it_was_begun,
    session_gets_one_executor_at_a_time,
    executors_go_to_any_node_with_room,
    session_waits_for_an_executor_on_a_dead_node_though_another_has_room,
    session_of_lower_priority_gets_no_executor_while_tasks_of_a_higher_one_wait,
    failed_tasks_are_counted_and_not_repeated,
    session_is_paused_after_some_failures_to_bind_and_keeps_its_executors,
    paused_session_keeps_those_of_lower_priority_from_executors_while_its_tasks_wait,
    restart_ends_the_pause_of_a_session_and_keeps_its_events,
    executor_of_a_released_node_ends_its_session_and_is_unbinding_for_ever,
    executor_that_binds_while_its_node_is_released_is_bound_for_ever,
    session_waits_for_an_executor_that_is_unbinding_for_ever,
    idle_executor_of_a_released_node_stops_the_scheduler_until_its_node_is_reported,
)
