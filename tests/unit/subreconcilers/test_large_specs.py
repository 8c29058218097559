"""Specs that the store does not hold, because they are large: a pass reads them when they are not rendered."""

from typing import Any

import pytest
from pytest_mock import MockerFixture

from flamectl_operator.api.constants import PLURAL
from flamectl_operator.observed.flame_cluster import MAX_KEPT_SPEC_SIZE
from flamectl_operator.reconcile.objects.outcomes import CHANGED_RECHECK_SECONDS
from flamectl_operator.reconcile.stores.stores import WHOLE_FLAME_CLUSTERS
from tests.unit.builders import OWNER, merged, raw_spec, replicas
from tests.unit.subreconcilers.errors import lost
from tests.unit.subreconcilers.harness import StepHarness

LARGE = {"executorManager": {"podTemplate": {"metadata": {"annotations": {"notes": "x" * MAX_KEPT_SPEC_SIZE}}}}}


class Reads:
    """Counts how often whole FlameClusters are read."""

    def __init__(self, world: StepHarness, mocker: MockerFixture) -> None:
        self._get = mocker.spy(world.api, "get")

    @property
    def number(self) -> int:
        return sum(call.args[0] is WHOLE_FLAME_CLUSTERS for call in self._get.call_args_list)


async def test_large_spec_is_read_once_and_runs_as_any_other(mocker: MockerFixture) -> None:
    world = StepHarness(merged(LARGE, replicas(3)))
    reads = Reads(world, mocker)
    await world.converge()
    assert (len(world.executor_ids), world.status.state) == (3, "Running")
    assert reads.number == 1


async def test_large_spec_is_read_again_when_it_changes(mocker: MockerFixture) -> None:
    world = StepHarness(merged(LARGE, replicas(3)))
    await world.converge()
    reads = Reads(world, mocker)
    world.edit(replicas(5))
    await world.converge()
    assert len(world.executor_ids) == 5
    assert reads.number == 1


async def test_large_spec_is_read_again_when_its_rendering_was_dropped(mocker: MockerFixture) -> None:
    world = StepHarness(LARGE)
    await world.converge()
    reads = Reads(world, mocker)
    world.controller._context.renderer.forget(OWNER.uid)
    await world.run_pass()
    assert reads.number == 1


async def test_ordinary_spec_is_never_read(mocker: MockerFixture) -> None:
    world = StepHarness()
    reads = Reads(world, mocker)
    await world.converge()
    assert reads.number == 0


@pytest.mark.parametrize("change", ["spec", "gone", "recreated"])
async def test_pass_ends_without_a_write_when_a_large_spec_changed_before_it_was_read(change: str) -> None:
    world = StepHarness(merged(LARGE, replicas(3)))
    world.sync()
    if change == "spec":
        world.edit(replicas(1))
    else:
        world.api.remove(PLURAL, OWNER.name)
    if change == "recreated":
        world.apply(raw_spec(merged(LARGE, replicas(1))), uid="another")
    assert (await world.run_pass(stale=True)).delay == CHANGED_RECHECK_SECONDS
    assert world.writes == []
    # The read brought the change, so the next pass needs no watch.
    stored = world.stores.flame_clusters.get(OWNER.namespace, OWNER.name)
    assert (stored is None) == (change == "gone")
    if change == "spec":
        await world.run_pass(stale=True)
        assert world.status.executor_manager.replicas == 1


async def test_pass_ends_without_a_write_when_a_large_spec_cannot_be_read() -> None:
    world = StepHarness(LARGE)
    world.api.fail("get", PLURAL, lost())
    assert len((await world.run_pass()).errors) == 1
    assert world.writes == []


async def test_large_spec_that_reads_differently_at_the_same_generation_is_rendered_anew() -> None:
    world = StepHarness(merged(LARGE, {"paused": True}))
    await world.run_pass()
    assert world.writes[0][0] == "status"
    found: dict[str, Any] = world.api.objects["flameclusters", OWNER.namespace, OWNER.name]
    found["spec"]["paused"] = False
    await world.converge()
    assert world.condition("Degraded")[:2] == ("True", "OutdatedCRD")
    assert "spec" in world.condition("Degraded")[2]
