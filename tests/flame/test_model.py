"""The fake session manager behaves as Flame was seen to behave, its bugs included."""

import asyncio
from collections import Counter

import pytest

from flamectl_operator.flame.answer import ExecutorState, Load, NodeState
from tests.flame.model import RECONNECT, SCHEDULE, START, FlameModel


def _model(**options: object) -> FlameModel:
    return FlameModel(asyncio.get_running_loop(), **options)  # type: ignore[arg-type]


def _report_lost(model: FlameModel, name: str) -> None:
    connection = object()
    model.register_node(name, 0)
    model.connect(name, connection)
    model.disconnect(name, connection)


async def test_dead_node_is_never_forgotten_and_gets_work_that_never_starts() -> None:
    model = _model()
    model.start_executor_manager("a")
    model.kill_executor_manager("a")
    await asyncio.sleep(3600)
    assert model.answer().nodes == {"a": NodeState.NOT_READY}
    session = model.open_session("s", tasks=1)
    await asyncio.sleep(3600)
    assert not session.done
    assert [each.state for each in model.executors.values()] == [ExecutorState.VOID]


async def test_tasks_of_a_lost_node_run_elsewhere_after_thirty_seconds() -> None:
    model = _model()
    model.start_executor_manager("a")
    session = model.open_session("s", tasks=1, seconds=10)
    await asyncio.sleep(5)
    model.kill_executor_manager("a")
    _report_lost(model, "a")
    model.start_executor_manager("b")
    await asyncio.sleep(29)
    assert not session.done
    await asyncio.sleep(20)
    assert session.done
    assert [task.runs for task in session.tasks] == [2]


@pytest.mark.parametrize(
    ("storage", "left"),
    [("fs:///var/lib/flame/session", []), ("sqlite://flame.db", [ExecutorState.UNBINDING])],
)
async def test_release_of_a_living_node_lets_its_session_end_and_brings_no_new_work(
    storage: str, left: list[ExecutorState]
) -> None:
    """With SQLite its executors stay Unbinding for ever."""
    model = _model(storage=storage)
    model.start_executor_manager("a")
    session = model.open_session("s", tasks=40, seconds=1)
    await asyncio.sleep(5)
    model.release_node("a")
    await asyncio.sleep(60)
    assert session.done
    assert [task.runs for task in session.tasks] == [1] * 40
    assert [each.state for each in model.answer().executors] == left
    assert model.answer().drained("a")
    other = model.open_session("t", tasks=1)
    await asyncio.sleep(60)
    assert not other.done


async def test_node_that_dies_after_its_release_leaks_its_executors() -> None:
    model = _model()
    model.start_executor_manager("a")
    session = model.open_session("s", tasks=1, seconds=100)
    await asyncio.sleep(5)
    model.release_node("a")
    model.kill_executor_manager("a")
    await asyncio.sleep(3600)
    assert [each.state for each in model.executors.values()] == [ExecutorState.BOUND]
    # Registered and released again, it still leaks.
    model.register_node("a", 0)
    model.release_node("a")
    await asyncio.sleep(3600)
    assert len(model.executors) == 1
    # Reported as lost, it is cleaned up, and its task runs elsewhere.
    _report_lost(model, "a")
    model.start_executor_manager("b")
    await asyncio.sleep(31)
    model.release_node("a")
    await asyncio.sleep(110)
    assert session.done
    assert set(model.nodes) == {"b"}


async def test_without_storage_the_tasks_of_a_lost_node_never_end() -> None:
    model = _model(storage="none")
    model.start_executor_manager("a")
    session = model.open_session("s", tasks=1, seconds=10)
    await asyncio.sleep(5)
    model.kill_executor_manager("a")
    _report_lost(model, "a")
    model.start_executor_manager("b")
    await asyncio.sleep(3600)
    assert session.count("running") == 1
    assert not session.done


@pytest.mark.parametrize(("pause", "done"), [(10, False), (40, True)])
async def test_hostname_that_comes_back_within_thirty_seconds_starts_nothing(pause: float, *, done: bool) -> None:
    model = _model()
    model.start_executor_manager("a")
    model.kill_executor_manager("a")
    await asyncio.sleep(pause)
    model.start_executor_manager("a")
    assert model.nodes["a"].state is NodeState.READY
    session = model.open_session("s", tasks=1)
    await asyncio.sleep(100)
    assert session.done is done


@pytest.mark.parametrize(("pause", "ended"), [(10, False), (40, True)])
async def test_task_runs_for_ever_when_its_hostname_comes_back_within_thirty_seconds(
    pause: float, *, ended: bool
) -> None:
    model = _model()
    model.start_executor_manager("a")
    session = model.open_session("s", tasks=1, seconds=10)
    await asyncio.sleep(5)
    model.kill_executor_manager("a")
    await asyncio.sleep(pause)
    model.start_executor_manager("a")
    await asyncio.sleep(3600)
    assert session.done is ended
    assert session.count("running") == (not ended)


async def test_executor_keeps_its_session_for_a_while_after_the_last_task() -> None:
    model = _model()
    model.start_executor_manager("a")
    model.open_session("s", tasks=1, closes=False)
    await asyncio.sleep(30)
    assert model.answer().load("a")[0] is Load.BUSY
    await asyncio.sleep(60)
    assert model.answer().load("a")[0] is Load.NONE


async def test_later_flame_keeps_idle_executors() -> None:
    model = _model(keeps_idle=True)
    model.start_executor_manager("a")
    model.open_session("s", tasks=1)
    await asyncio.sleep(100)
    assert model.answer().load("a")[0] is Load.IDLE
    await asyncio.sleep(60)
    assert model.answer().load("a")[0] is Load.NONE


async def test_restart_with_storage_keeps_nodes_and_runs_tasks_again() -> None:
    model = _model()
    for name in ("a", "b"):
        model.start_executor_manager(name)
    session = model.open_session("s", tasks=1, seconds=50)
    await asyncio.sleep(5)
    model.stop()
    model.kill_executor_manager("b")
    model.start()
    await asyncio.sleep(200)
    assert model.answer().nodes == {"a": NodeState.READY, "b": NodeState.READY}
    assert session.done


async def test_sessions_get_executors_after_a_restart_between_two_rounds_of_the_scheduler() -> None:
    model = _model()
    model.start_executor_manager("a")
    session = model.open_session("s", tasks=1)
    model.stop()
    model.start()
    await asyncio.sleep(200)
    assert session.done


async def test_restart_without_storage_forgets_everything() -> None:
    model = _model(storage="none")
    model.start_executor_manager("a")
    model.open_session("s", tasks=1)
    await asyncio.sleep(200)
    model.stop()
    model.start()
    assert model.sessions == {}
    await asyncio.sleep(10)
    assert model.answer().nodes == {"a": NodeState.READY}


async def test_executor_manager_that_reconnects_while_an_executor_begins_loses_no_task() -> None:
    model = _model()
    model.start_executor_manager("a")
    await asyncio.sleep(1)
    model.cut_off("a")
    model.restore("a")
    # The executor is placed while it has not reconnected yet, and begins after that.
    await asyncio.sleep(RECONNECT - SCHEDULE - START / 2)
    session = model.open_session("s", tasks=2, seconds=10)
    await asyncio.sleep(60)
    assert session.done
    assert [task.runs for task in session.tasks] == [1, 1]


async def test_report_of_a_lost_node_removes_executors_that_are_unbinding_for_ever() -> None:
    model = _model()
    model.start_executor_manager("a")
    session = model.open_session("s", tasks=1)
    await asyncio.sleep(0.5)
    model.release_node("a")
    await asyncio.sleep(60)
    model.kill_executor_manager("a")
    await asyncio.sleep(60)
    assert session.done
    assert [each.state for each in model.answer().executors] == [ExecutorState.UNBINDING]
    _report_lost(model, "a")
    await asyncio.sleep(60)
    assert model.answer().executors == ()


async def test_scheduler_takes_any_node_with_room() -> None:
    model = _model()
    for name in "abcd":
        model.start_executor_manager(name, capacity=3)
    found = set()
    for number in range(12):
        model.open_session(str(number), tasks=6, seconds=5)
        await asyncio.sleep(2)
        used = Counter(each.node for each in model.executors.values())
        assert (used.total(), max(used.values()) <= 3) == (6, True)
        found.add(tuple(sorted(used.values())))
        await asyncio.sleep(90)
    assert len(found) > 1
