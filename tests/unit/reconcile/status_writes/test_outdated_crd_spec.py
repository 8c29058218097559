"""A spec that reads differently at the same generation, because another CRD was installed."""

from copy import deepcopy
from typing import Any

import pytest

from flamectl_operator.reconcile.status_writes.contention import FIRST_REPEAT
from tests.unit.subreconcilers.errors import conflict
from tests.unit.subreconcilers.harness import KEY, StepHarness, converged

ENV = [{"name": "A", "value": "1"}]
SPEC = {
    "sessionManager": {
        "env": ENV,
        "storage": "fs:///var/lib/flame/session",
        "persistence": {"size": "1Gi", "deletionPolicy": "Retain"},
    },
    "executorManager": {
        "env": ENV,
        "podTemplate": {"metadata": {"labels": {"team": "a"}}},
        "replicas": 3,
        "drain": {"timeoutSeconds": 7200},
        "updateStrategy": {"type": "Recreate"},
    },
    "objectCache": {"image": "cache:1", "env": ENV, "replicas": 2},
    "networkPolicy": {},
    "commonLabels": {"team": "a"},
}


def read_without(world: StepHarness, path: str) -> None:
    """Another CRD drops a field from now on, whatever writes the object."""
    *parents, field = path.split(".")
    del spec_of(world, *parents)[field]


def read_with_another_default(world: StepHarness, path: str, value: Any) -> None:
    """Another CRD gives a field another default."""
    *parents, field = path.split(".")
    spec_of(world, *parents)[field] = value


def spec_of(world: StepHarness, *path: str) -> Any:
    found = world.api.objects["flameclusters", *KEY]["spec"]
    for each in path:
        found = found[each]
    return found


def nested(path: str, value: Any) -> dict[str, Any]:
    """The value as a change of a spec."""
    for field in reversed(path.split(".")):
        value = {field: value}
    return dict(value)


def pods(world: StepHarness) -> list[str]:
    return [pod["metadata"]["uid"] for pod in world.api.all("pods") if "deletionTimestamp" not in pod["metadata"]]


async def refusal(world: StepHarness, before: list[str]) -> str:
    """Return what the status says of a spec that reads differently, after passes that change nothing else."""
    result = await world.run_passes(4)

    assert pods(world) == before
    assert {verb for verb, *_ in world.writes} == {"status"}
    assert result.interrupted
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "OutdatedCRD")
    return message


DROPPED = [
    "sessionManager.env",
    "executorManager.env",
    "executorManager.podTemplate",
    "objectCache.env",
    # No Pod depends on these.
    "executorManager.replicas",
    "executorManager.drain",
    "executorManager.updateStrategy",
    "objectCache.replicas",
    "sessionManager.persistence.deletionPolicy",
    "networkPolicy",
    "commonLabels",
]
OTHER_DEFAULTS = {"executorManager.imagePullPolicy": "Always", "idle": {"timeoutSeconds": 1}, "suspend": True}


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("path", [*DROPPED, *OTHER_DEFAULTS])
async def test_spec_that_reads_differently_changes_nothing_and_says_so(path: str, *, restarts: bool) -> None:
    world = await converged(SPEC)
    before = pods(world)
    if path in OTHER_DEFAULTS:
        read_with_another_default(world, path, OTHER_DEFAULTS[path])
    else:
        read_without(world, path)
    if restarts:
        world.restart()
    assert ("spec" if restarts else f"spec.{path}") in await refusal(world, before)


async def test_reading_whose_record_ends_in_a_conflict_is_compared_with_that_of_another_operator() -> None:
    world = await converged(SPEC)
    before, rival = pods(world), world.rival("them")
    earlier = world.api.objects["flameclusters", *KEY]["status"]
    world.edit({"executorManager": {"drain": {"timeoutSeconds": 5}}})
    await rival.run_pass()
    cluster = world.api.objects["flameclusters", *KEY]
    recorded, cluster["status"] = cluster["status"], earlier
    read_with_another_default(world, "suspend", OTHER_DEFAULTS["suspend"])
    world.api.fail("status", "flameclusters", conflict())
    await world.run_pass()
    cluster["status"] = recorded
    assert "spec" in await refusal(world, before)


#: Values that make a spec invalid.
INVALID: dict[str, Any] = {
    "executorManager.replicas": -1,
    "executorManager.podTemplate": {"spec": {"hostNetwork": True}},
    "executorManager.drain": {"timeoutSeconds": -1},
    "networkPolicy": {"clients": [{}]},
}


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("invalid", ["once", "twice"])
@pytest.mark.parametrize("path", INVALID)
async def test_invalid_spec_that_reads_as_valid_under_another_crd_changes_nothing_and_says_so(
    path: str, invalid: str, *, restarts: bool
) -> None:
    world = await converged(SPEC)
    before = pods(world)
    world.edit(nested(path, INVALID[path]))
    await world.run_pass()
    assert world.condition("Degraded")[:2] == ("True", "InvalidSpec")
    if invalid == "twice":
        read_without(world, "sessionManager.env")
        await world.run_pass()
    read_without(world, path)
    if restarts:
        world.restart()
    assert "spec" in await refusal(world, before)

    world.edit({"executorManager": {"drain": {"timeoutSeconds": 5}}})
    await world.converge()
    assert world.condition("Degraded")[:2] == ("False", "AsExpected")


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
async def test_invalid_spec_that_other_settings_allow_is_obeyed(*, restarts: bool) -> None:
    world = await converged(SPEC)
    before = pods(world)
    world.edit({"executorManager": {"podTemplate": {"spec": {"hostPID": True}}}})
    await world.run_pass()
    assert world.condition("Degraded")[:2] == ("True", "InvalidSpec")
    world.configure({"flame": {"podPolicy": {"hostNamespaces": True}}})
    if restarts:
        world.restart()
    await world.converge()
    assert world.condition("Degraded")[:2] == ("False", "AsExpected")
    assert len(set(pods(world)) - set(before)) == 3


def write_hash(world: StepHarness, value: str) -> str | None:
    """Somebody edits the hash of the spec in the status; returns the hash before."""
    before = world.status.spec_hash
    world.change("flameclusters", KEY[1], {"status": {"specHash": value}})
    return before


async def test_hash_of_the_spec_that_somebody_edits_is_mended() -> None:
    world = await converged(SPEC)
    recorded = write_hash(world, "1-0")
    await world.converge()
    world.clock.elapsed += FIRST_REPEAT
    await world.converge()
    assert world.condition("Degraded")[:2] == ("False", "AsExpected")
    assert world.status.spec_hash == recorded


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("generation", [None, 0], ids=["taken out", "lowered"])
async def test_spec_that_reads_differently_changes_nothing_although_somebody_edits_the_observed_generation(
    generation: int | None, *, restarts: bool
) -> None:
    world = await converged(SPEC)
    before = pods(world)
    read_without(world, "sessionManager.env")
    await world.run_pass()
    world.change("flameclusters", KEY[1], {"status": {"observedGeneration": generation}})
    if restarts:
        world.restart()
    await world.run_passes(4)

    assert pods(world) == before
    assert world.condition("Degraded")[:2] == ("True", "OutdatedCRD")


@pytest.mark.parametrize("left", ["", "x", "0-0", "-", "10-0"])
async def test_hash_that_is_of_no_or_another_generation_holds_nothing_back(left: str) -> None:
    world = await converged(SPEC)
    recorded = write_hash(world, left)
    world.restart()
    await world.converge()
    assert world.condition("Degraded")[:2] == ("False", "AsExpected")
    assert world.status.spec_hash == recorded


async def test_edit_under_an_operator_that_knows_no_hash_is_obeyed() -> None:
    world = await converged(SPEC)
    earlier = world.status.spec_hash
    world.edit({"executorManager": {"drain": {"timeoutSeconds": 5}}})
    await world.converge()
    assert earlier is not None
    write_hash(world, earlier)
    world.restart()
    await world.converge()
    assert world.condition("Degraded")[:2] == ("False", "AsExpected")
    assert world.status.spec_hash != earlier


async def test_fields_stay_in_the_message_after_a_restart() -> None:
    world = await converged(SPEC)
    read_without(world, "executorManager.podTemplate")
    await world.run_pass()
    world.restart()
    writes = len(world.writes)
    await world.run_pass()
    assert len(world.writes) == writes
    assert "spec.executorManager.podTemplate" in world.condition("Degraded")[2]


async def test_spec_that_reads_as_before_again_ends_the_wait() -> None:
    world = await converged(SPEC)
    before, spec = pods(world), deepcopy(spec_of(world))
    read_without(world, "executorManager.podTemplate")
    await world.run_pass()
    world.api.objects["flameclusters", *KEY]["spec"] = spec
    await world.converge()
    assert pods(world) == before
    assert world.condition("Degraded")[:2] == ("False", "AsExpected")


async def test_edit_ends_the_wait_and_replaces_pods() -> None:
    world = await converged(SPEC)
    before = set(pods(world))
    read_without(world, "executorManager.podTemplate")
    await world.run_pass()
    world.edit({"executorManager": {"image": "executor:2"}})
    await world.converge()
    assert world.condition("Degraded")[:2] == ("False", "AsExpected")
    assert len(set(pods(world)) - before) == 3


@pytest.mark.parametrize("revision", ["0", ""])
async def test_revision_in_the_status_that_no_pod_has_holds_nothing_back(revision: str) -> None:
    world = await converged(SPEC)
    status = world.api.objects["flameclusters", *KEY]["status"]
    status["executorManager"]["revision"] = status["sessionManager"]["revision"] = revision
    await world.converge()
    assert world.condition("Degraded")[:2] == ("False", "AsExpected")
