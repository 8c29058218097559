"""An executor serves when it is registered: what a rollout and a scale-down take while some executors never register."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flamectl_operator.flame.knowledge import OFF
from tests.unit.builders import merged, replicas, rolling
from tests.unit.subreconcilers.flame_harness import FlameHarness, converged
from tests.unit.subreconcilers.harness import executor_name

_NEW_IMAGE = {"executorManager": {"image": "xflops/flame-executor-manager:broken"}}
_QUICK = {"flame": {"registrationDeadlineSeconds": 30}}


def _registered(world: FlameHarness) -> int:
    return sum(executor_name(each) in world.model.nodes for each in world.executor_ids)


async def _fewest(world: FlameHarness, seconds: int, count: Callable[[FlameHarness], int] = _registered) -> int:
    fewest = count(world)
    for _ in range(seconds):
        await world.tick()
        fewest = min(fewest, count(world))
    return fewest


async def _broken_rollout(changes: dict[str, Any], seconds: int = 0) -> FlameHarness:
    world = await converged(changes, _QUICK)
    first = max(world.executor_ids) + 1
    world.cut_off = {executor_name(each) for each in range(first, first + 100)}
    world.edit(_NEW_IMAGE)
    await world.live(seconds)
    return world


@pytest.mark.parametrize("drain", [0, 600])
async def test_rollout_to_executors_that_never_register_stops_with_all_others_registered(drain: int) -> None:
    world = await _broken_rollout(merged(rolling(8, 1, 0), {"executorManager": {"drain": {"timeoutSeconds": drain}}}))
    assert await _fewest(world, 120) == 7

    assert world.executor_ids == [0, 1, 2, 3, 4, 5, 6, 9]
    assert world.status.state == "Running"
    assert world.status.reason == "ExecutorsNotRegistered"
    assert world.condition("Ready")[0] == "False"
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "ExecutorsNotRegistered")
    assert executor_name(9) in message
    assert "The rollout has stopped until the spec changes, and 7 executors of the earlier revision stay" in message
    assert "correct spec.executorManager" in message


async def test_executor_that_does_not_register_is_replaced_once_and_told_once() -> None:
    world = await _broken_rollout(rolling(3, 1, 0), 100)
    world.events.told.clear()
    world.api.writes.clear()
    # Failures of executors that work are forgotten after ten minutes.
    for _ in range(30):
        world.clock.elapsed += 30
        await world.tick()

    assert world.executor_ids == [0, 1, 4]
    assert world.events.told == []
    assert [each for each in world.api.writes if each[1] == "pods"] == []


async def test_stopped_rollout_stays_stopped_under_another_operator_process() -> None:
    world = await _broken_rollout(rolling(3, 1, 0), 100)
    world.clock.elapsed += 900
    await world.tick()
    said = world.condition("Degraded")
    assert said[:2] == ("True", "ExecutorsNotRegistered")
    for _ in range(2):
        world.restart()
        world.asked.target, world.asked.known = None, OFF
        for _ in range(50):
            await world.tick()
            assert world.condition("Degraded") == said
    assert world.executor_ids == [0, 1, 4]


async def test_change_of_the_spec_ends_the_stop() -> None:
    world = await _broken_rollout(rolling(8, 1, 0), 120)
    world.cut_off = set()
    world.edit({"executorManager": {"image": "xflops/flame-executor-manager:good"}})
    assert await _fewest(world, 100) >= 6

    assert world.executor_ids == list(range(10, 18))
    assert world.status.reason == "Healthy"


async def test_stale_executor_that_never_registered_is_superseded_without_a_budget() -> None:
    world = await _broken_rollout(rolling(8, 1, 0), 20)
    assert executor_name(8) not in world.model.nodes
    world.cut_off = {executor_name(8)}
    world.edit({"executorManager": {"image": "xflops/flame-executor-manager:good"}})
    assert await _fewest(world, 9) >= 7
    assert 8 not in world.executor_ids
    await world.live(60)

    assert world.status.reason == "Healthy"


async def test_rollout_goes_on_by_ready_pods_when_the_session_manager_does_not_answer() -> None:
    world = await converged(rolling(4, 1, 0))
    world.asked.broken = "Network is unreachable"
    await world.live(80)
    world.cut_off = {executor_name(each) for each in range(4, 20)}
    world.edit(_NEW_IMAGE)
    await world.live(60)

    assert world.executor_ids == [4, 5, 6, 7]


async def test_lost_answer_during_a_broken_rollout_takes_no_registered_executor() -> None:
    world = await _broken_rollout(rolling(8, 1, 0), 60)
    for _ in range(20):
        world.asked.broken = "no answer"
        await world.tick()
        world.asked.broken = None
        await world.tick()
    assert _registered(world) == 7


async def test_scale_down_takes_the_executors_that_flame_does_not_know() -> None:
    world = await converged(replicas(3))
    world.cut_off = {executor_name(3), executor_name(4)}
    world.edit(replicas(5))
    await world.live(30)
    # The one that costs least to delete is registered.
    world.change(
        "pods", executor_name(0), {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-9"}}}
    )
    world.edit(replicas(3))
    await world.live(30)

    assert world.executor_ids == [0, 1, 2]


async def test_session_manager_that_restarted_costs_no_executor_of_a_rollout() -> None:
    storage = "fs:///var/lib/flame/session"
    persistent = {"sessionManager": {"storage": storage, "persistence": {"size": "1Gi"}}}
    world = await converged(rolling(6, 1, 0) | persistent, storage=storage)
    for name in world.model.managers:
        world.model.managers[name].reachable = False
    world.model.nodes.clear()
    world.edit({"executorManager": {"image": "xflops/flame-executor-manager:next"}})
    await world.live(10)

    assert world.executor_ids == [0, 1, 2, 3, 4, 5]
