"""A spec that reads differently at the same generation, because another CRD was installed."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.subreconcilers.harness import KEY, converged

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.subreconcilers.harness import StepHarness

ENV = [{"name": "A", "value": "1"}]
SPEC = {
    "sessionManager": {"env": ENV},
    "executorManager": {"env": ENV, "podTemplate": {"metadata": {"labels": {"team": "a"}}}},
    "objectCache": {"image": "cache:1", "env": ENV},
}


def read_without(world: StepHarness, component: str, field: str) -> None:
    """Another CRD drops a field from now on, whatever writes the object."""
    del spec_of(world)[component][field]


def read_with_another_default(world: StepHarness, component: str, field: str) -> None:
    """Another CRD gives a field another default."""
    spec_of(world)[component][field] = "Always"


def spec_of(world: StepHarness) -> Any:
    return world.api.objects["flameclusters", *KEY]["spec"]


def pods(world: StepHarness) -> list[str]:
    return [pod["metadata"]["uid"] for pod in world.api.all("pods") if "deletionTimestamp" not in pod["metadata"]]


CASES = [
    pytest.param(read_without, "sessionManager", "env", id="session manager without env"),
    pytest.param(read_without, "executorManager", "env", id="executors without env"),
    pytest.param(read_without, "executorManager", "podTemplate", id="executors without podTemplate"),
    pytest.param(read_without, "objectCache", "env", id="object cache without env"),
    pytest.param(read_with_another_default, "executorManager", "imagePullPolicy", id="executors with another default"),
]


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize(("change", "component", "field"), CASES)
async def test_spec_that_reads_differently_replaces_nothing_and_says_so(
    change: Callable[[StepHarness, str, str], None], component: str, field: str, *, restarts: bool
) -> None:
    world = await converged(SPEC)
    before = pods(world)
    change(world, component, field)
    if restarts:
        world.restart()
    for _ in range(4):
        result = await world.run_pass()

    assert pods(world) == before
    assert {verb for verb, *_ in world.writes} == {"status"}
    assert result.interrupted
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "OutdatedCRD")
    assert f"spec.{component}" in message
    assert restarts or component == "objectCache" or f"spec.{component}.{field}" in message


async def test_fields_stay_in_the_message_after_a_restart() -> None:
    world = await converged(SPEC)
    read_without(world, "executorManager", "podTemplate")
    await world.run_pass()
    world.restart()
    writes = len(world.writes)
    await world.run_pass()
    assert len(world.writes) == writes
    assert "spec.executorManager.podTemplate" in world.condition("Degraded")[2]


async def test_spec_that_reads_as_before_again_ends_the_wait() -> None:
    world = await converged(SPEC)
    before, spec = pods(world), deepcopy(spec_of(world))
    read_without(world, "executorManager", "podTemplate")
    await world.run_pass()
    world.api.objects["flameclusters", *KEY]["spec"] = spec
    await world.converge()
    assert pods(world) == before
    assert world.condition("Degraded")[:2] == ("False", "AsExpected")


async def test_edit_ends_the_wait_and_replaces_pods() -> None:
    world = await converged(SPEC)
    before = set(pods(world))
    read_without(world, "executorManager", "podTemplate")
    await world.run_pass()
    world.edit({"executorManager": {"image": "executor:2"}})
    await world.converge()
    assert world.condition("Degraded")[:2] == ("False", "AsExpected")
    assert len(set(pods(world)) - before) == 1


@pytest.mark.parametrize("revision", ["0", ""])
async def test_revision_in_the_status_that_no_pod_has_holds_nothing_back(revision: str) -> None:
    world = await converged(SPEC)
    status = world.api.objects["flameclusters", *KEY]["status"]
    status["executorManager"]["revision"] = status["sessionManager"]["revision"] = revision
    await world.converge()
    assert world.condition("Degraded")[:2] == ("False", "AsExpected")
