"""Children that are being deleted and that a finalizer keeps: the status names the finalizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from flamectl_operator.desired import names
from tests.unit.builders import OWNER, cached, merged, replicas
from tests.unit.subreconcilers.harness import LOCK_NAME, SM_NAME, cache_name, converged

FINALIZER = "example.com/hold"
HELD = {
    "deletionTimestamp": "2030-01-01T00:00:00Z",
    "deletionGracePeriodSeconds": 10,
    "finalizers": [FINALIZER],
}
_STORED = cached(1, persistence={"size": "1Gi"})


@pytest.mark.parametrize(
    ("changes", "plural", "name"),
    [
        ({}, "services", SM_NAME),
        ({}, "services", names.object_cache(OWNER.name)),
        ({}, "configmaps", names.config_map(OWNER.name)),
        ({"clientConfig": {}}, "configmaps", names.client_config(OWNER.name)),
        ({"networkPolicy": {}}, "networkpolicies", names.network_policy(OWNER.name)),
        ({}, "pods", SM_NAME),
        (cached(1), "pods", cache_name(0)),
        (_STORED, "pods", cache_name(0)),
    ],
)
@pytest.mark.parametrize("seconds", [0, 600])
async def test_finalizer_that_holds_a_child_is_named(
    changes: Mapping[str, Any], plural: str, name: str, seconds: int
) -> None:
    world = await converged(changes)
    world.change(plural, name, {"metadata": HELD})
    world.clock.elapsed += seconds

    await world.run_pass()
    await world.run_pass()

    assert f'"{name}"' in str(world.status.message)
    assert f"held by finalizer {FINALIZER}" in str(world.status.message)
    assert world.status.reason != "Healthy"


async def test_finalizer_that_holds_a_claim_without_a_pod_is_named() -> None:
    world = await converged(_STORED)
    world.api.remove("pods", cache_name(0))
    world.change("persistentvolumeclaims", cache_name(0), {"metadata": HELD})

    await world.run_pass()
    await world.run_pass()

    assert f"held by finalizer {FINALIZER}" in str(world.status.message)


async def test_finalizer_that_holds_the_lease_is_named() -> None:
    world = await converged(merged(replicas(2), {}))
    world.squat("leases", LOCK_NAME, ownerReferences=[OWNER.owner_reference()], **HELD)
    world.edit(replicas(1))

    await world.run_pass()

    assert f"held by finalizer {FINALIZER}" in str(world.status.message)
