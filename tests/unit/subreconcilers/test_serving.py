"""An executor serves when it is registered: what a rollout and a scale-down take while some executors never register."""

from collections.abc import Callable
from typing import Any

import pytest

from flamectl_operator.flame.knowledge import OFF
from tests.unit.builders import merged, rolling
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
    assert "usual causes are the image" in message


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
