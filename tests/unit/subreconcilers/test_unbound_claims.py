"""A Pod that runs is not deleted for one whose PersistentVolumeClaim gets no volume, as its events tell."""

from typing import Any

import pytest

from flamectl_operator.kube.errors import ForbiddenError
from tests.unit.builders import cached, executor_template, merged, replicas, stored
from tests.unit.subreconcilers.harness import SM_NAME, StepHarness, cache_name, converged, executor_name

CLAIMS = "persistentvolumeclaims"
PERSISTENT = stored(size="1Gi")
MISSING = ("ProvisioningFailed", 'storageclass.storage.k8s.io "none" not found')
NO_CLASS = ("FailedBinding", "no persistent volumes available for this claim and no storage class is set")
FIRST_CONSUMER = ("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
EXTERNAL = ("ExternalProvisioning", "Waiting for a volume to be created by the external provisioner 'example.com/nfs'")


def _tell(world: StepHarness, claim: str, *events: tuple[str, str]) -> None:
    """The volume controller tells events of a claim."""
    uid = world.api.present(CLAIMS, claim)["metadata"]["uid"]
    for number, (reason, message) in enumerate(events):
        metadata = {"name": f"{claim}.{number}", "namespace": "default"}
        told = {"metadata": metadata, "involvedObject": {"uid": uid}, "reason": reason, "message": message}
        world.api.put("events", told)


def _bind(world: StepHarness, name: str) -> None:
    world.api.put(CLAIMS, world.api.present(CLAIMS, name) | {"status": {"phase": "Bound"}})


async def _persistence_added(before: dict[str, Any], changes: dict[str, Any]) -> StepHarness:
    """A cluster that runs, whose spec asks for claims since; they exist and have no volume."""
    world = await converged(before)
    world.api.binds_claims = False
    world.edit(changes)
    await world.run_pass()
    world.api.writes.clear()
    return world


@pytest.mark.parametrize("why", [MISSING, NO_CLASS], ids=["no StorageClass", "no default"])
async def test_session_manager_stays_while_its_new_claim_gets_no_volume(why: tuple[str, str]) -> None:
    world = await _persistence_added(replicas(2), PERSISTENT)
    _tell(world, SM_NAME, EXTERNAL, why)

    await world.run_passes(5, seconds=60)

    assert world.deleted == []
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "ClaimNotBound")
    assert f'PersistentVolumeClaim "{SM_NAME}", which a new Pod would mount, has no volume: {why[1]}' in message
    assert message.endswith("or see kubectl describe pvc my-flame-session-manager")
    assert "correct spec.sessionManager.persistence.storageClassName" in message

    _bind(world, SM_NAME)
    await world.run_pass()
    assert world.deleted == [SM_NAME]


async def test_session_manager_is_replaced_at_once_where_a_claim_waits_for_its_pod() -> None:
    world = await _persistence_added(replicas(2), PERSISTENT)
    assert world.deleted == [], "nothing is known of the claim a moment after its creation"
    _tell(world, SM_NAME, FIRST_CONSUMER)

    await world.run_pass()

    assert world.deleted == [SM_NAME]


@pytest.mark.parametrize("forbidden", [False, True], ids=["no events", "they may not be listed"])
async def test_session_manager_is_replaced_where_no_event_tells_of_its_claim(*, forbidden: bool) -> None:
    world = await _persistence_added(replicas(2), PERSISTENT)
    if forbidden:
        words = 'events is forbidden: User "operator" cannot list resource "events"'
        world.api.fail("list", "events", ForbiddenError(403, "Forbidden", words))
    else:
        world.clock.elapsed += 10

    await world.run_pass()

    assert world.deleted == [SM_NAME]
    assert world.condition("Degraded")[0] == "False"


async def test_session_manager_stays_while_a_volume_is_made_and_that_is_told_when_it_lasts() -> None:
    world = await _persistence_added(replicas(2), PERSISTENT)
    _tell(world, SM_NAME, EXTERNAL)

    await world.run_passes(3, seconds=15)
    assert world.condition("Degraded")[0] == "False"

    await world.run_passes(3, seconds=15)
    assert world.deleted == []
    assert world.condition("Degraded")[1] == "ClaimNotBound"
    assert "external provisioner 'example.com/nfs'" in world.condition("Degraded")[2]


async def test_object_caches_stay_while_their_new_claims_get_no_volume() -> None:
    world = await _persistence_added(merged(replicas(1), cached(2)), cached(2, persistence={"size": "1Gi"}))
    for ordinal in range(2):
        _tell(world, cache_name(ordinal), MISSING)

    await world.run_passes(3, seconds=60)

    assert world.deleted == []
    assert "correct spec.objectCache.persistence.storageClassName" in world.condition("Degraded")[2]


async def test_object_cache_whose_own_claim_has_no_volume_keeps_no_other_from_its_replacement() -> None:
    """The Pod of the second one mounts its claim, so it does not run, and nothing is lost with it."""
    persistent = cached(1, persistence={"size": "1Gi"})
    world = StepHarness(merged(replicas(1), persistent))
    await world.run_pass()
    _bind(world, cache_name(0))
    await world.converge()
    world.api.binds_claims = False
    world.edit(cached(2))
    await world.run_pass()
    _tell(world, cache_name(1), MISSING)
    world.set_pod(cache_name(1), "unschedulable")
    world.edit({"objectCache": {"env": [{"name": "A", "value": "b"}]}})
    world.api.writes.clear()

    await world.run_passes(3, seconds=60)

    assert cache_name(1) in world.deleted


@pytest.mark.parametrize(
    "changes",
    [
        stored(existingClaim="mine"),
        executor_template({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}]}),
    ],
    ids=["existingClaim", "podTemplate"],
)
async def test_pods_stay_while_a_claim_of_somebody_gets_no_volume(changes: dict[str, Any]) -> None:
    world = await converged(replicas(2))
    metadata = {"name": "mine", "namespace": "default", "creationTimestamp": "2025-06-01T11:00:00Z"}
    world.api.put(
        CLAIMS, {"metadata": metadata, "spec": {"accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Pending"}}
    )
    _tell(world, "mine", NO_CLASS)
    world.edit(changes)

    await world.run_passes(3, seconds=60)

    assert world.deleted == []
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "ClaimNotBound")
    assert message.endswith("see kubectl describe pvc mine")
    assert executor_name(0) in [each["metadata"]["name"] for each in world.api.all("pods")]
