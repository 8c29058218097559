"""Pods that somebody else made with labels by which a Service finds its Pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.builders import cached, replicas
from tests.unit.subreconcilers.harness import SM_NAME, StepHarness, cache_name, converged, executor_name


def _copy(world: StepHarness, of: str, **metadata: Any) -> None:
    """Somebody writes the manifest of a Pod to a file, changes its name, and applies it."""
    pod = world.pod(of)
    changed = {**pod["metadata"], "name": "copy", "uid": "copy", **metadata}
    world.api.put("pods", {**pod, "metadata": changed})


@pytest.mark.parametrize(
    ("of", "service"), [(SM_NAME, SM_NAME), (cache_name(0), "my-flame-object-cache")], ids=["session manager", "cache"]
)
async def test_copy_of_a_pod_that_a_service_finds_is_told_until_it_has_other_labels(of: str, service: str) -> None:
    world = await converged(cached())
    _copy(world, of)

    await world.converge()

    status, reason, message = world.condition("Degraded")
    assert (status, reason, world.status.reason) == ("True", "ForeignPods", "ForeignPods")
    assert message.startswith(
        f'Pod "copy" is not the operator\'s, but has the labels by which Service "{service}" finds its Pods'
    )
    assert world.condition("Ready")[0] == "True"
    assert world.deleted == []

    _copy(world, of, labels={"flame.xflops.io/cluster": "my-flame"})
    await world.converge()
    assert world.status.reason == "Healthy"


@pytest.mark.parametrize("name", ["copy", executor_name(0)], ids=["a copy", "of an earlier FlameCluster"])
async def test_executor_that_is_none_of_the_operators_is_told_until_it_is_gone(name: str) -> None:
    """As after `kubectl delete --cascade=orphan`, or from a backup: it registers with Flame and takes work."""
    world = await converged(replicas(1))
    pod = world.pod(executor_name(0))
    orphan = {**pod["metadata"], "name": name, "uid": "orphan", "ownerReferences": []}
    world.api.put("pods", {**pod, "metadata": orphan})

    await world.converge()

    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "ForeignPods")
    assert message.startswith(f'Pod "{name}" is not the operator\'s, but has the labels of an executor')
    assert name not in world.deleted

    world.api.remove("pods", name)
    await world.converge()
    assert world.status.reason == "Healthy"
