"""Executors that follow the demand of sessions, and clusters that suspend themselves when there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flamectl_operator.api.status import AutoscalingStatus
from tests.unit.builders import NOW
from tests.unit.subreconcilers.flame_world import FlameWorld, converged
from tests.unit.subreconcilers.world import KEY, SM_NAME, _stores, executor_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.unit.builders import PodState

_LIMITS = {"cpu": "1", "memory": "1Gi"}


def _autoscaled(least: int = 1, most: int = 6, **changes: Any) -> dict[str, Any]:
    autoscaling = {"minReplicas": least, "maxReplicas": most, "idleTimeoutSeconds": 30, **changes}
    return {"executorManager": {"autoscaling": autoscaling, "resources": {"limits": _LIMITS}}}


def _spec(world: FlameWorld) -> dict[str, Any]:
    found: dict[str, Any] = world.api.objects["flameclusters", *KEY]["spec"]
    return found


def _pods(world: FlameWorld) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.api.all("pods")}


def _restart(world: FlameWorld) -> None:
    """Let another process take over that has not asked the session manager yet."""
    world.restart()
    world.asked.follow(KEY, None, busy=False)


class _Full(FlameWorld):
    """A world in which executors beyond the first one do not start."""

    others: PodState = "unschedulable"

    def let_pods_become_ready(self) -> None:
        for executor_id in self.executor_ids[1:]:
            self.set_executor(executor_id, self.others)
        ready = {SM_NAME, *map(executor_name, self.executor_ids[:1])}
        for name in sorted(_pods(self) & ready):
            self.set_pod(name, "ready")


def _desired(world: FlameWorld) -> int | None:
    return world.status.executor_manager.autoscaling.desired


async def test_burst_gets_executors_and_none_goes_that_is_bound() -> None:
    world = await converged(_autoscaled(), delay_release=5)
    assert world.executor_ids == [0]

    session = world.model.open_session("s", tasks=12, seconds=20)
    await world.live(30, until=lambda: len(world.executor_ids) == 6)
    assert len(world.executor_ids) == 6
    assert _desired(world) == 6
    assert world.status.executor_manager.replicas == 6

    await world.live(300, until=lambda: len(world.executor_ids) == 1)
    assert len(world.executor_ids) == 1
    assert session.done
    assert {task.runs for task in session.tasks} == {1}
    assert world.status.executor_manager.autoscaling == AutoscalingStatus(desired=1)
    assert "replicas" not in _spec(world)["executorManager"]


async def test_cluster_at_rest_is_not_written() -> None:
    world = await converged(_autoscaled())
    await world.live(120)
    assert world.writes == []
    assert world.condition("Autoscaling")[:2] == ("True", "FollowsDemand")


async def test_executor_that_works_stays_although_another_one_has_a_higher_deletion_cost() -> None:
    world = await converged(_autoscaled(2))
    world.model.open_session("s", tasks=1, seconds=500)
    await world.live(5)
    (busy,) = {each.node for each in world.model.executors.values() if each.task}
    (idle,) = _pods(world) - {busy, SM_NAME}
    world.change("pods", idle, {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "100"}}})

    world.edit(_autoscaled(1))
    await world.live(60)

    assert _pods(world) == {busy, SM_NAME}


@pytest.mark.parametrize("broken", [None, "Network is unreachable"])
async def test_number_is_frozen_while_the_session_manager_cannot_be_asked(broken: str | None) -> None:
    world = await converged(_autoscaled(), delay_release=5)
    world.model.open_session("s", tasks=3, seconds=20)
    await world.live(10)
    assert _desired(world) == 3

    world.asked.broken = broken
    await world.live(300)

    assert _desired(world) == (3 if broken else 1)
    assert world.condition("Autoscaling")[1] == ("DemandUnknown" if broken else "FollowsDemand")


async def test_time_without_answers_does_not_count_as_idle() -> None:
    world = await converged(_autoscaled(), delay_release=5)
    world.model.open_session("s", tasks=3, seconds=20)
    await world.live(10)
    world.asked.broken = "Network is unreachable"
    await world.live(300)
    world.asked.broken = None
    await world.live(20)
    assert _desired(world) == 3

    await world.live(20)
    assert _desired(world) == 1


async def test_times_survive_a_restart_of_the_operator() -> None:
    world = await converged(_autoscaled(), delay_release=5)
    world.model.open_session("s", tasks=3, seconds=20)
    await world.live(40, until=lambda: world.status.executor_manager.autoscaling.scale_down_since is not None)
    since = world.status.executor_manager.autoscaling.scale_down_since
    assert since is not None

    _restart(world)
    await world.live(60, until=lambda: _desired(world) == 1)

    assert (world.clock.now() - since).total_seconds() < 35


async def test_suspended_cluster_starts_again_with_the_minimum() -> None:
    world = await converged(_autoscaled(2), delay_release=5)
    world.model.open_session("s", tasks=5, seconds=500)
    await world.live(10)
    assert _desired(world) == 5

    world.edit({"suspend": True})
    await world.live(20)

    assert _pods(world) == set()
    assert _desired(world) == 2


async def test_two_operators_of_which_one_has_an_old_view_make_no_executor_too_many_and_lose_no_task() -> None:
    world = await converged(_autoscaled(), delay_release=5)
    rival = world.rival("them")
    rival.stores = _stores(rival.news, world.asked)
    rival.restart()
    session = world.model.open_session("s", tasks=12, seconds=20)
    most = 0
    for second in range(400):
        await world.tick()
        await rival.run_pass(stale=second % 3 != 0)
        most = max(most, len(world.executor_ids))
        if session.done and len(world.executor_ids) == 1:
            break

    assert most == 6
    assert len(world.executor_ids) == 1
    assert {task.runs for task in session.tasks} == {1}


@pytest.mark.parametrize("state", ["unschedulable", "crashing"])
async def test_executors_that_do_not_start_hold_growth_back(state: PodState) -> None:
    world = _Full(_autoscaled(1, 20, maxPending=2))
    world.others = state
    await world.live(10)
    world.model.open_session("s", tasks=20, seconds=500)
    await world.live(30)

    assert _desired(world) == 3
    assert world.condition("Autoscaling")[:2] == ("True", "TooManyPending")


# --- Idle clusters

_IDLE: Mapping[str, Any] = {"idle": {"timeoutSeconds": 60}}


async def _suspended_itself() -> FlameWorld:
    world = await converged(_IDLE)
    await world.live(120, until=lambda: not _pods(world))
    assert _pods(world) == set()
    await world.live(3)
    return world


async def test_cluster_without_open_sessions_suspends_itself_with_a_reason() -> None:
    world = await _suspended_itself()

    assert world.status.reason == "IdleSuspended"
    assert "no session has been open since" in (world.status.message or "")
    assert world.condition("Suspended")[:2] == ("True", "IdleSuspended")
    assert world.status.idle.suspended_generation == world.status.observed_generation
    assert "IdleSuspended" in world.events.reasons
    assert "suspend" not in _spec(world)


async def test_cluster_that_suspended_itself_rests_also_after_a_restart_of_the_operator() -> None:
    world = await _suspended_itself()
    world.api.writes.clear()
    _restart(world)
    await world.live(200)

    assert world.writes == []
    assert _pods(world) == set()


async def test_suspend_false_wakes_a_cluster_that_suspended_itself() -> None:
    world = await _suspended_itself()
    world.edit({"suspend": False})
    await world.live(30)

    assert world.status.message == "All components healthy"
    assert world.status.idle.suspended_generation is None
    await world.live(120)
    assert world.status.reason == "IdleSuspended"


async def test_open_session_keeps_a_cluster_up() -> None:
    world = await converged(_IDLE)
    world.model.open_session("s", tasks=1, seconds=1, closes=False)
    await world.live(300)
    assert world.status.reason == "Healthy"

    world.model.close_session("s")
    await world.live(120)
    assert world.status.reason == "IdleSuspended"


async def test_cluster_whose_session_manager_does_not_answer_stays_up() -> None:
    world = await converged(_IDLE)
    world.asked.broken = "Network is unreachable"
    await world.live(400)

    assert world.status.reason == "Healthy"
    assert world.status.idle.since is None


async def test_suspension_that_was_recorded_before_the_operator_died_is_carried_out_by_the_next_one() -> None:
    world = await converged(_IDLE)
    await world.live(200, until=lambda: (world.clock.now() - (world.status.idle.since or NOW)).total_seconds() >= 58)
    world.clock.elapsed += 5
    world.asked.poll()
    await world.recorded()
    assert world.status.idle.suspended_generation is not None
    assert len(_pods(world)) == 2

    _restart(world)
    world.model.open_session("s", tasks=1)
    await world.live(20)

    assert _pods(world) == set()
    assert world.status.reason == "IdleSuspended"
