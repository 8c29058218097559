"""Devices that their driver calls unhealthy, as a kubelet tells it of each container (since Kubernetes 1.36)."""

from typing import Any

import msgspec
import pytest

from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.reconcile.stores.transform import bounded_pod
from tests.unit.builders import NOW, cached, replicas
from tests.unit.subreconcilers.harness import SM_NAME, StepHarness, cache_name, converged, executor_name

TIME = NOW.isoformat()
MESSAGE = "ECC error count exceeded threshold"


def _report(world: StepHarness, name: str, health: str, resource: str = "nvidia.com/gpu", **more: Any) -> None:
    pod = world.pod(name)
    device = {"resourceID": "GPU-7", "health": health, **more}
    allocated = [{"name": resource, "resources": [{"resourceID": "GPU-0", "health": "Healthy"}, device]}]
    containers = [{**each, "allocatedResourcesStatus": allocated} for each in pod["status"]["containerStatuses"]]
    world.api.put("pods", {**pod, "status": {**pod["status"], "containerStatuses": containers}})


@pytest.mark.parametrize("name", [SM_NAME, executor_name(0), cache_name(0)], ids=["manager", "executor", "cache"])
@pytest.mark.parametrize(
    ("more", "said"),
    [({}, ""), ({"message": None}, ""), ({"message": MESSAGE}, f": {MESSAGE}")],
    ids=["", "null", "why"],
)
async def test_unhealthy_device_is_told_until_it_is_healthy_and_its_pod_stays(
    name: str, more: dict[str, Any], said: str
) -> None:
    world = await converged(cached())
    _report(world, name, "Unhealthy", **more)

    await world.converge()

    status, reason, message = world.condition("Degraded")
    assert (status, reason, world.status.reason, world.status.state) == (
        "True",
        "DeviceUnhealthy",
        "DeviceUnhealthy",
        "Running",
    )
    assert message.startswith(
        f'device "GPU-7" (nvidia.com/gpu) of Pod {name} is unhealthy{said} (an administrator checks node '
    )
    assert world.condition("Ready")[0] == "True"
    assert world.deleted == []

    _report(world, name, "Healthy")
    await world.converge()
    assert world.status.reason == "Healthy"


async def test_unhealthy_devices_of_several_pods_are_one_message() -> None:
    world = await converged(replicas(3))
    for ordinal in range(3):
        _report(world, executor_name(ordinal), "Unhealthy", resource="claim:gpus/one")

    await world.converge()

    message = world.condition("Degraded")[2]
    assert message.startswith(
        f'device "GPU-7" (claim:gpus/one) of Pod {executor_name(0)} is unhealthy, and so are devices of 2 more (an'
    )


async def test_device_of_unknown_health_is_not_told() -> None:
    """As while its driver restarts."""
    world = await converged(replicas(1))
    _report(world, executor_name(0), "Unknown")

    await world.converge()

    assert world.status.reason == "Healthy"


async def test_healthy_devices_are_not_kept() -> None:
    world = await converged(replicas(1))
    _report(world, executor_name(0), "Unhealthy")

    pod = bounded_pod(msgspec.convert(world.pod(executor_name(0)), PodView))

    [allocated] = pod.status.container_statuses[0].allocated_resources_status
    assert [each.resource_id for each in allocated.resources] == ["GPU-7"]
    _report(world, executor_name(0), "Healthy")
    pod = bounded_pod(msgspec.convert(world.pod(executor_name(0)), PodView))
    assert pod.status.container_statuses[0].allocated_resources_status == ()


@pytest.mark.parametrize(
    ("resource", "said"), [("nvidia.com/gpu", "nvidia.com/gpu"), ("claim:{x}", "claim:(x)")], ids=["", "braces"]
)
async def test_executor_that_ended_with_an_unhealthy_device_tells_the_device_also_when_its_pod_is_gone(
    resource: str, said: str
) -> None:
    world = await converged(replicas(2))
    _report(world, executor_name(0), "Unhealthy", resource=resource)
    pod = world.pod(executor_name(0))
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": TIME, "finishedAt": TIME}}
    containers = [{**each, "state": ended, "ready": False} for each in pod["status"]["containerStatuses"]]
    world.api.put("pods", {**pod, "status": {**pod["status"], "phase": "Failed", "containerStatuses": containers}})

    await world.converge()
    world.api.remove("pods", executor_name(0))
    await world.converge()

    node = pod["spec"]["nodeName"]
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "PodsFailing")
    assert f'(an administrator checks node {node}, whose device "GPU-7" ({said}) was unhealthy)' in message
