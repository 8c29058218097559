"""Scale-down and rollouts, with sessions that run."""

from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any

import pytest

from flamectl_operator.api.constants import DRAINING_ANNOTATION, DRAINING_SINCE_ANNOTATION
from flamectl_operator.reconcile.steps.batch import BATCH_LONGEST_PAUSE
from tests.flame.model import ModelSession
from tests.unit.builders import replicas
from tests.unit.subreconcilers.errors import forbidden
from tests.unit.subreconcilers.flame_harness import FlameHarness, busy, converged
from tests.unit.subreconcilers.harness import SM_NAME, executor_name


def _each_once(session: ModelSession) -> bool:
    return session.done and all(task.runs == 1 for task in session.tasks)


@pytest.mark.parametrize("priorities", [(1, 5), (5, 1)])
async def test_executor_of_the_session_with_the_lowest_priority_goes_first(priorities: tuple[int, int]) -> None:
    world = await converged(replicas(2))
    for priority in priorities:
        world.model.open_session(f"s{priority}", tasks=1, seconds=100, priority=priority)
        await world.live(3)
    nodes = {each.session.name: each.node for each in world.model.executors.values() if each.session is not None}
    assert len(set(nodes.values())) == 2

    world.edit(replicas(1))
    await world.live(10)

    assert [executor_name(each) for each in world.draining] == [nodes["s1"]]


async def test_drain_time_of_each_executor_begins_when_its_own_mark_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _ = await busy(replicas(3), 3, 100)
    patch = world.api.merge_patch

    async def slowly(*arguments: Any, **options: Any) -> Any:
        world.clock.elapsed += 3
        return await patch(*arguments, **options)

    monkeypatch.setattr(world.api, "merge_patch", slowly)
    world.edit(replicas(0))
    await world.run_pass()

    marks = [world.pod(executor_name(each))["metadata"]["annotations"] for each in range(3)]
    times = sorted(datetime.fromisoformat(each[DRAINING_SINCE_ANNOTATION]) for each in marks)
    assert times[1] - times[0] >= timedelta(seconds=3)


async def test_drained_executor_is_deleted_with_one_second_of_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    world, session = await busy(replicas(1), 1, 20)
    delete, graces = world.api.delete, []

    async def noted(*arguments: Any, **options: Any) -> Any:
        graces.append(options.get("grace_period_seconds"))
        return await delete(*arguments, **options)

    monkeypatch.setattr(world.api, "delete", noted)
    world.edit(replicas(0))
    await world.live(100, until=lambda: not world.executor_ids)

    assert session.done
    assert graces == [1]


async def test_drain_ends_with_the_session_though_other_sessions_wait() -> None:
    """Flame gives no executor to any session while an idle one is listed on a node that was released."""
    world = await converged(replicas(2), storage="fs:///var/lib/flame/session")
    ends = world.model.open_session("ends", tasks=1, seconds=20, max_instances=1)
    lasts = world.model.open_session("lasts", tasks=1, seconds=1000, priority=1)
    await world.live(3)
    waits = world.model.open_session("waits", tasks=1, seconds=10)

    world.edit(replicas(1))
    await world.live(30)
    assert ends.done
    assert world.draining == []
    world.edit(replicas(2))
    await world.live(30)

    assert waits.done
    assert lasts.count("running") == 1


async def test_busy_executor_is_deleted_when_its_session_has_ended() -> None:
    world, session = await busy(replicas(1), 3, 20)
    world.edit(replicas(0))
    await world.live(30)
    assert world.draining == [0]
    assert "draining my-flame-executor-manager-0, 1 with work, until" in (world.status.message or "")
    assert world.status.executor_manager.draining == 1

    await world.live(40)
    assert _each_once(session)
    assert world.executor_ids == []
    # With SQLite Flame goes on listing the executor until its node is reported as lost.
    await world.live(60)
    assert (world.model.nodes, world.model.executors) == ({}, {})
    assert world.events.reasons.count("ExecutorsDraining") == 1


@pytest.mark.parametrize("verb", ["patch", "delete"])
async def test_no_executor_is_marked_after_a_standstill_before_the_next_pass(verb: str) -> None:
    """The one that must stay may have failed meanwhile, and the operator has not read that yet."""
    world = await converged(replicas(3), {"controller": {"maxWritesInFlight": 1}})
    if verb == "delete":  # an executor that has not started goes without a drain, before others are marked
        world.edit(replicas(2))
        await world.live(60, until=lambda: world.executor_ids == [0, 1])
        world.edit(replicas(3))
        await world.run_pass()

    def stand_still() -> None:
        world.clock.elapsed += BATCH_LONGEST_PAUSE

    world.edit(replicas(1))
    world.api.interference[verb, "pods"] = stand_still
    result = await world.run_pass()

    assert world.draining == ([2] if verb == "patch" else [])
    assert ("NextBatch", 0) in [(each.reason, each.delay) for each in result.outcomes]
    await world.live(60)
    assert world.executor_ids == [0]


async def test_executor_is_deleted_and_reported_when_its_time_is_over() -> None:
    world, session = await busy({"executorManager": {"replicas": 2, "drain": {"timeoutSeconds": 30}}}, 2, 90)
    world.edit({"executorManager": {"replicas": 1}})
    await world.live(40)
    assert len(world.executor_ids) == 1
    assert "DrainTimedOut" in world.events.reasons
    # The rest runs again elsewhere, as soon as Flame has noticed.
    await world.live(400, until=lambda: session.done)
    assert session.done
    assert set(world.model.nodes) == {executor_name(each) for each in world.executor_ids}


async def test_without_a_drain_time_executors_go_at_once() -> None:
    world, _ = await busy({"executorManager": {"replicas": 2, "drain": {"timeoutSeconds": 0}}}, 2, 90)
    world.edit({"executorManager": {"replicas": 1}})
    await world.tick()

    assert len(world.executor_ids) == 1


async def test_unreachable_session_manager_delays_no_scale_down() -> None:
    world = FlameHarness(replicas(3))
    world.asked.broken = "Name or service not known"
    await world.live(10)
    assert world.condition("SessionManagerReachable")[:2] == ("False", "Unreachable")

    world.edit(replicas(1))
    await world.tick()

    assert world.executor_ids == [0]
    assert world.events.reasons.count("ExecutorsDraining") == 0


async def test_executor_with_work_stays_when_its_session_manager_has_its_label_again_after_minutes() -> None:
    world, session = await busy(replicas(1), 1, 400)
    world.unlabel("pods", SM_NAME)
    world.api.fail("patch", "pods", forbidden(), name=SM_NAME, times=1000)
    await world.live(100)
    world.edit({"executorManager": {"image": "e:9"}})
    await world.live(100)
    world.api.faults.clear()

    await world.live(400, until=lambda: session.done)

    assert [task.runs for task in session.tasks] == [1]


async def test_marked_executors_go_when_the_session_manager_stays_unreachable() -> None:
    world, _ = await busy(replicas(2), 2, 1000)
    world.edit(replicas(1))
    await world.live(3)
    assert len(world.draining) == 1

    world.asked.broken = "Network is unreachable"
    await world.live(30)
    assert len(world.executor_ids) == 2
    await world.live(120)
    assert len(world.executor_ids) == 1


async def test_suspended_cluster_waits_for_no_drain() -> None:
    world, _ = await busy(replicas(2), 2, 1000)
    world.edit(replicas(1))
    await world.live(3)

    world.edit({"suspend": True})
    await world.live(10)

    assert world.api.all("pods") == []


async def test_flame_0_5_is_never_asked() -> None:
    world = FlameHarness({"flameVersion": "0.5", **replicas(2)})
    await world.live(10)
    assert world.asked.target is None
    world.edit(replicas(1))
    await world.tick()
    assert world.executor_ids == [0]
    assert {each.type for each in world.status.conditions}.isdisjoint(
        {"SessionManagerReachable", "ExecutorsRegistered"}
    )


def _metadata(world: FlameHarness, executor_id: int) -> dict[str, Any]:
    metadata: dict[str, Any] = world.pod(executor_name(executor_id))["metadata"]
    return metadata


@pytest.mark.parametrize("since", ["2999-01-01T00:00:00+00:00", "soon", "2020-01-01T00:00:00", None])
async def test_mark_without_a_time_that_counts_is_mended_once_and_the_drain_ends_in_time(since: str | None) -> None:
    world, _ = await busy({"executorManager": {"replicas": 2, "drain": {"timeoutSeconds": 60}}}, 2, 1000)
    marks = {DRAINING_ANNOTATION: "Surplus"} | ({DRAINING_SINCE_ANNOTATION: since} if since is not None else {})
    world.change("pods", executor_name(0), {"metadata": {"annotations": marks}})
    began = world.clock.now()

    await world.live(5)
    mended = deepcopy(_metadata(world, 0))
    await world.live(40)
    assert _metadata(world, 0) == mended
    assert datetime.fromisoformat(mended["annotations"][DRAINING_SINCE_ANNOTATION]) - began < timedelta(seconds=5)
    await world.live(60)
    assert 0 not in world.executor_ids


async def test_webhook_that_takes_the_mark_of_a_drain_off_is_reported() -> None:
    world, _ = await busy(replicas(1), 3, 20)
    world.api.webhook = lambda _, manifest: manifest["metadata"].get("annotations", {}).pop(DRAINING_ANNOTATION, None)

    world.edit(replicas(0))
    await world.live(10)

    assert world.condition("Degraded")[:2] == ("True", "ChangesUndone")
    assert world.executor_ids == [0]
    assert "ExecutorsDraining" not in world.events.reasons
