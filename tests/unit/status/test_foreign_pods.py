"""Pods that somebody else made with labels by which a Service finds its Pods."""

from typing import Any

import pytest

from tests.unit.builders import cached, replicas
from tests.unit.subreconcilers.harness import SM_NAME, StepHarness, cache_name, converged, executor_name


def _copy(world: StepHarness, of: str, name: str = "copy", **metadata: Any) -> None:
    """Somebody writes the manifest of a Pod to a file, changes its name, and applies it."""
    pod = world.pod(of)
    world.api.put("pods", {**pod, "metadata": {**pod["metadata"], "name": name, "uid": f"copy-{name}", **metadata}})


def _replica_set(name: str) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "set", "controller": True}


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
    _copy(world, executor_name(0), name, ownerReferences=[])

    await world.converge()

    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "ForeignPods")
    assert message.startswith(f'Pod "{name}" is not the operator\'s, but has the labels of an executor')
    assert name not in world.deleted

    world.api.remove("pods", name)
    await world.converge()
    assert world.status.reason == "Healthy"


@pytest.mark.parametrize("name", ["copy", executor_name(0)], ids=["other name", "name of an executor"])
@pytest.mark.parametrize(
    ("of", "effect"),
    [
        (SM_NAME, f'the labels by which Service "{SM_NAME}" finds its Pods'),
        (executor_name(0), "the labels of an executor"),
    ],
    ids=["session manager", "executor"],
)
async def test_foreign_pod_with_a_controller_is_told_with_that_controller_because_deleting_the_pod_is_no_help(
    of: str, effect: str, name: str
) -> None:
    """As of a Deployment whose author copied all labels of a Pod: it creates each deleted Pod again."""
    world = await converged(replicas(1))
    pod = world.pod(of)
    metadata = {**pod["metadata"], "name": name, "uid": "foreign", "ownerReferences": [_replica_set("tools-7d9")]}
    if name == executor_name(0):
        world.api.remove("pods", name)
        await world.converge()
    world.api.put("pods", {**pod, "metadata": metadata})

    await world.converge()

    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "ForeignPods")
    assert message.startswith(f'Pod "{name}" of ReplicaSet "tools-7d9" is not the operator\'s, but has {effect}')
    assert message.endswith('(remove its label app, or correct ReplicaSet "tools-7d9", which controls it)')
    assert name not in world.deleted


async def test_foreign_pods_of_one_controller_are_one_notice_that_stays_while_their_number_grows() -> None:
    world = await converged(replicas(1))
    messages = []
    for number in range(1, 4):
        _copy(world, executor_name(0), executor_name(number), ownerReferences=[_replica_set("tools")])
        await world.converge()
        messages.append(world.condition("Degraded")[2])

    first = f'Pod "{executor_name(1)}" of ReplicaSet "tools" is not the operator\'s, but has the labels of an executor'
    assert messages[0].startswith(first)
    assert messages[1] == messages[2]
    assert messages[1].endswith(
        'so it may take work, and so have others (remove their label app, or correct ReplicaSet "tools", which controls them)'
    )


async def test_executor_of_an_earlier_cluster_of_the_name_is_left_to_the_garbage_collector_without_a_word() -> None:
    world = await converged(replicas(1))
    [owner] = world.pod(executor_name(0))["metadata"]["ownerReferences"]
    _copy(world, executor_name(0), executor_name(7), ownerReferences=[{**owner, "uid": "before"}])

    await world.converge()

    assert world.status.reason == "Healthy"
