"""Executors that follow the demand of sessions, and clusters that suspend themselves when there is none."""

from collections.abc import Mapping
from typing import Any

import pytest

from flamectl_operator.api.status import State
from flamectl_operator.flame.answer import Resources
from tests.unit.builders import NOW, PodState, merged
from tests.unit.subreconcilers.flame_harness import FlameHarness, converged
from tests.unit.subreconcilers.harness import KEY, SM_NAME, executor_name

_LIMITS = {"cpu": "1", "memory": "1Gi"}


def _autoscaled(least: int = 1, most: int = 6, **changes: Any) -> dict[str, Any]:
    autoscaling = {"minReplicas": least, "maxReplicas": most, "idleTimeoutSeconds": 30, **changes}
    return {"executorManager": {"autoscaling": autoscaling, "resources": {"limits": _LIMITS}}}


def _spec(world: FlameHarness) -> dict[str, Any]:
    found: dict[str, Any] = world.api.objects["flameclusters", *KEY]["spec"]
    return found


def _pods(world: FlameHarness) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.api.all("pods")}


def _restart(world: FlameHarness) -> None:
    """Let another process take over that has not asked the session manager yet."""
    world.restart()
    world.asked.follow(KEY, None, busy=False)


class _Full(FlameHarness):
    """A world in which executors beyond the first one do not start."""

    others: PodState = "unschedulable"

    def let_pods_become_ready(self) -> None:
        for executor_id in self.executor_ids[1:]:
            self.set_executor(executor_id, self.others)
        ready = {SM_NAME, *map(executor_name, self.executor_ids[:1])}
        for name in sorted(_pods(self) & ready):
            self.set_pod(name, "ready")


def _desired(world: FlameHarness) -> int | None:
    return world.status.executor_manager.autoscaling.desired


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


async def test_suspended_cluster_starts_again_with_the_minimum() -> None:
    world = await converged(_autoscaled(2), delay_release=5)
    world.model.open_session("s", tasks=5, seconds=500)
    await world.live(10)
    assert _desired(world) == 5

    world.edit({"suspend": True})
    await world.live(20)

    assert _pods(world) == set()
    assert _desired(world) == 2


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


async def _suspended_itself() -> FlameHarness:
    world = await converged(_IDLE)
    await world.live(120, until=lambda: not _pods(world))
    assert _pods(world) == set()
    await world.live(3)
    return world


async def test_cluster_without_open_sessions_suspends_itself_with_a_reason() -> None:
    world = await _suspended_itself()

    assert world.status.reason == "IdleSuspended"
    assert "no session has been in use since" in (world.status.message or "")
    assert world.condition("Suspended")[:2] == ("True", "IdleSuspended")
    assert world.status.idle.suspended_generation == world.status.observed_generation
    assert "IdleSuspended" in world.events.reasons
    assert "suspend" not in _spec(world)


async def test_cluster_does_not_suspend_itself_between_short_sessions_that_no_answer_shows() -> None:
    world = await converged(_IDLE)
    world.asked.asleep = True
    for number in range(8):
        world.model.open_session(f"s{number}", tasks=1, seconds=2)
        await world.live(50)
        assert not world.model.sessions[f"s{number}"].is_open
        assert world.status.state is State.RUNNING

    await world.live(120, until=lambda: not _pods(world))
    assert world.status.reason == "IdleSuspended"


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


async def test_message_about_a_session_that_is_too_large_survives_a_long_name() -> None:
    world = await converged(merged(_autoscaled(1), {"executorManager": {"resources": {"limits": {"cpu": "1"}}}}))
    world.model.open_session("\x1b[31m" + "x" * 250, 1, 1000, resources=Resources(64, 2**40), closes=False)
    await world.live(5)

    status, reason, message = world.condition("Autoscaling")
    assert (status, reason) == ("True", "SessionTooLarge")
    assert message.endswith(
        "asks for more than one executor offers: raise spec.executorManager.resources.limits, or let the session ask for less"
    )
    assert "\x1b" not in message


async def test_session_that_is_too_large_for_the_limit_of_the_whole_pod_is_told_with_that_field() -> None:
    limits = {"limits": {"cpu": "1", "memory": "2Gi"}}
    pod = {"resources": None, "podTemplate": {"spec": {"resources": limits}}}
    world = await converged(merged(_autoscaled(1), {"executorManager": pod}))
    world.model.open_session("s", 1, 1000, resources=Resources(64, 2**40), closes=False)
    await world.live(5)

    message = world.condition("Autoscaling")[2]
    assert "offers: raise spec.executorManager.podTemplate.spec.resources.limits, or let the session" in message


@pytest.mark.parametrize("restarted", [False, True], ids=["", "by an operator that has just started"])
async def test_executors_stay_when_autoscaling_begins_while_the_session_manager_cannot_be_asked(
    *, restarted: bool
) -> None:
    world = await converged({"executorManager": {"replicas": 5, "resources": {"limits": _LIMITS}}})
    world.model.open_session("s", tasks=5, seconds=500)
    await world.live(10)
    before = _pods(world)
    world.asked.broken = "no route"
    await world.live(30)

    world.edit(merged(_autoscaled(1), {"executorManager": {"replicas": 1}}))
    if restarted:
        _restart(world)
    await world.live(40)
    world.asked.broken = None
    await world.live(40)

    assert _pods(world) == before
    assert world.draining == []


async def test_executors_without_demand_stay_for_the_idle_time_when_autoscaling_begins() -> None:
    world = await converged({"executorManager": {"replicas": 3, "resources": {"limits": _LIMITS}}})

    world.edit(merged(_autoscaled(1), {"executorManager": {"replicas": 1}}))
    await world.live(20)
    assert _desired(world) == 3

    await world.live(20)
    assert _desired(world) == 1
