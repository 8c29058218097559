"""Children that are being deleted and that a finalizer keeps: the status names the finalizer."""

from collections.abc import Mapping
from typing import Any

import pytest

from flamectl_operator.desired import names
from flamectl_operator.status.health import LATE_SECONDS
from tests.unit.builders import OWNER, cached, merged, replicas, stored, text
from tests.unit.subreconcilers.harness import LOCK_NAME, SM_NAME, cache_name, converged, executor_name

FINALIZER = "example.com/hold"
HELD = {"deletionTimestamp": "2030-01-01T00:00:00Z", "deletionGracePeriodSeconds": 10, "finalizers": [FINALIZER]}
_STORED = cached(1, persistence={"size": "1Gi"})


@pytest.mark.parametrize(
    ("changes", "plural", "name", "reason"),
    [
        ({}, "services", SM_NAME, "ServiceConflict"),
        ({}, "services", names.object_cache(OWNER.name), "ServiceConflict"),
        ({}, "configmaps", names.config_map(OWNER.name), "NameConflict"),
        ({"clientConfig": {}}, "configmaps", names.client_config(OWNER.name), "NameConflict"),
        ({"networkPolicy": {}}, "networkpolicies", names.network_policy(OWNER.name), "NameConflict"),
    ],
)
async def test_finalizer_that_holds_a_child_is_named_and_degrades_the_cluster_after_a_minute(
    changes: Mapping[str, Any], plural: str, name: str, reason: str
) -> None:
    world = await converged(changes)
    world.change(plural, name, {"metadata": {**HELD, "deletionTimestamp": text(world.clock.now())}})
    await world.run_pass()
    assert f'"{name}" to terminate (held by finalizer {FINALIZER})' in str(world.status.message)
    assert (world.condition("Degraded")[0], world.condition("Ready")[0]) == ("False", "False")

    world.clock.elapsed += 60
    await world.run_pass()

    status, said, message = world.condition("Degraded")
    assert (status, said, world.status.reason) == ("True", reason, reason)
    assert f'"{name}" to terminate (held by finalizer {FINALIZER})' in message
    world.api.remove(plural, name)
    await world.converge()
    assert world.status.reason == "Healthy"


@pytest.mark.parametrize(
    ("field", "plural", "name"),
    [
        ("networkPolicy", "networkpolicies", names.network_policy(OWNER.name)),
        ("clientConfig", "configmaps", names.client_config(OWNER.name)),
    ],
)
async def test_finalizer_that_holds_a_child_which_is_no_longer_wanted_is_named(
    field: str, plural: str, name: str
) -> None:
    world = await converged({field: {}})
    world.change(plural, name, {"metadata": {"finalizers": [FINALIZER]}})
    world.edit({field: None})

    await world.run_passes(2)

    assert f'"{name}" to terminate (held by finalizer {FINALIZER})' in str(world.status.message)
    assert world.condition("Degraded")[0] == "False"
    world.change(plural, name, {"metadata": {"deletionTimestamp": text(world.clock.now())}})
    world.clock.elapsed += 60
    await world.run_pass()
    assert world.condition("Degraded")[:2] == ("True", "NameConflict")
    world.api.remove(plural, name)
    await world.converge()
    assert world.status.reason == "Healthy"


@pytest.mark.parametrize(("changes", "name"), [(replicas(2), executor_name(0)), (cached(1), cache_name(0))])
async def test_finalizer_that_holds_up_a_suspension_is_named(changes: Mapping[str, Any], name: str) -> None:
    world = await converged(changes)
    world.change("pods", name, {"metadata": {"finalizers": [FINALIZER]}})
    world.edit({"suspend": True})

    await world.run_pass()
    for pod in list(world.api.all("pods")):
        if not pod["metadata"].get("finalizers"):
            world.api.remove("pods", pod["metadata"]["name"])
    await world.run_pass()

    assert world.status.message == f'Suspending: 1 Pod left; Pod "{name}" is held by finalizer {FINALIZER}'


async def test_finalizer_that_keeps_executors_from_being_recreated_is_named() -> None:
    world = await converged(replicas(2, type="Recreate"))
    world.change("pods", executor_name(0), {"metadata": {"finalizers": [FINALIZER]}})
    world.edit({"executorManager": {"image": "xflops/flame-executor-manager:v0.6.1"}})

    await world.run_passes(2)

    assert f"to terminate (held by finalizer {FINALIZER})" in str(world.status.message)


async def test_finalizer_that_holds_a_claim_without_a_pod_is_named_and_degrades_the_cluster_after_a_minute() -> None:
    """As while a snapshot of the claim is made, or for ever if its driver is gone. No Pod can be created meanwhile."""
    world = await converged(_STORED)
    world.api.remove("pods", cache_name(0))
    held = {**HELD, "deletionTimestamp": text(world.clock.now())}
    world.change("persistentvolumeclaims", cache_name(0), {"metadata": held})

    result = await world.run_passes(2)

    assert f"held by finalizer {FINALIZER}" in str(world.status.message)
    assert world.condition("Degraded")[0] == "False"
    assert result.delay is not None, "no event tells that the minute is over"
    world.clock.elapsed += 60
    await world.run_pass()
    assert world.condition("Degraded")[:2] == ("True", "NameConflict")
    assert f"(held by finalizer {FINALIZER})" in world.condition("Degraded")[2]
    world.api.remove("persistentvolumeclaims", cache_name(0))
    await world.converge()
    assert world.status.reason == "Healthy"


async def test_finalizer_that_holds_a_needed_claim_is_named_while_the_cluster_is_paused() -> None:
    world = await converged(_STORED)
    world.edit({"paused": True})
    world.api.remove("pods", cache_name(0))
    going = {**HELD, "deletionTimestamp": world.clock.now().isoformat()}
    world.change("persistentvolumeclaims", cache_name(0), {"metadata": going})
    world.clock.elapsed += LATE_SECONDS

    await world.run_passes(2)

    assert f"(held by finalizer {FINALIZER})" in str(world.status.message)


async def test_finalizer_that_holds_the_lease_is_named() -> None:
    world = await converged(merged(replicas(2), {}))
    world.squat("leases", LOCK_NAME, ownerReferences=[OWNER.owner_reference()], **HELD)
    world.edit(replicas(1))

    await world.run_pass()

    assert f"held by finalizer {FINALIZER}" in str(world.status.message)


async def test_session_manager_that_was_deleted_with_a_long_grace_period_tells_until_when_it_may_run() -> None:
    world = await converged()
    world.change("pods", SM_NAME, {"metadata": {**HELD, "deletionGracePeriodSeconds": 86400, "finalizers": []}})

    await world.run_pass()

    advice = f"kubectl delete pod {SM_NAME} --grace-period=10 ends it sooner"
    said = f'Pod "{SM_NAME}" may run until 2030-01-01 00:00:00 UTC, by the grace period of its deletion ({advice})'
    assert said in str(world.status.message)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, SM_NAME),
        (stored(size="1Gi"), SM_NAME),
        (cached(1), cache_name(0)),
        (_STORED, cache_name(0)),
    ],
    ids=["session manager", "session manager with a claim", "object cache", "object cache with a claim"],
)
async def test_pod_whose_name_is_needed_and_that_a_finalizer_holds_degrades_the_cluster(
    changes: Mapping[str, Any], name: str
) -> None:
    """Nothing but the owner of the finalizer ends it, and a forced deletion does not either."""
    world = await converged(changes)
    world.change("pods", name, {"metadata": {**HELD, "deletionTimestamp": text(world.clock.now())}})
    await world.run_passes(2)
    assert f"held by finalizer {FINALIZER}" in str(world.status.message)
    assert world.condition("Degraded")[0] == "False"

    world.clock.elapsed += 90
    result = await world.run_passes(3)
    if world.condition("Degraded")[0] == "False":
        assert result.delay is not None, "no event tells that a minute is over after the forced deletion"
        world.clock.elapsed += 60
        await world.run_pass()

    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "NameConflict")
    assert f"held by finalizer {FINALIZER}" in message
    world.api.remove("pods", name)
    await world.converge()
    assert world.status.reason == "Healthy"
