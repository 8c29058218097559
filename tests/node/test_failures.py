"""The actions of kubelets on Pods, and their effect on a FlameCluster."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.namespace import condition, flame_cluster, is_ready, uids
from tests.node.namespace import TOOLS_IMAGE, NodeNamespace, container_state, kill_container
from tools.controlplane import Plane
from tools.controlplane.waiting import wait_until


def test_killed_executor_is_replaced_under_a_new_name(world: NodeNamespace) -> None:
    world.apply(flame_cluster(replicas=2))
    before = world.wait_registered(executors=2)
    killed = min(before)

    kill_container(world.existing("pod", killed))
    world.wait(
        "another executor in its place", lambda: killed not in {p["metadata"]["name"] for p in world.live_executors()}
    )

    after = world.wait_registered(executors=2)
    assert before - after == {killed}


def test_killed_session_manager_restarts_in_place_and_all_executors_are_replaced(world: NodeNamespace) -> None:
    world.apply(flame_cluster(replicas=2))
    world.wait_registered(executors=2)
    manager, executors = world.existing("pod", "my-flame-session-manager"), uids(world.live_executors())

    kill_container(manager)
    world.wait("other executors", lambda: not executors.items() & uids(world.live_executors()).items())
    world.wait_registered(executors=2)

    after = world.existing("pod", "my-flame-session-manager")
    assert after["metadata"]["uid"] == manager["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 1


def test_executor_that_exceeds_its_memory_limit_is_replaced(world: NodeNamespace) -> None:
    limited = {"resources": {"limits": {"memory": "64Mi"}}}
    world.apply(flame_cluster(replicas=1, sessionManager={"slot": "cpu=1,mem=32m"}, executorManager=limited))
    [greedy] = world.wait_registered(executors=1)

    world.kubectl("exec", greedy, "--", "touch", "/tmp/flame/allocate")

    def reason() -> str:
        found = world.get("pod", greedy)
        statuses = found["status"]["containerStatuses"] if found else []
        return str(statuses[0]["state"].get("terminated", {}).get("reason", "")) if statuses else ""

    world.wait("the kernel to end the executor", lambda: reason() == "OOMKilled")
    world.wait("another executor", lambda: greedy not in {pod["metadata"]["name"] for pod in world.live_executors()})
    world.wait_registered(executors=1)


def test_unpullable_image_is_reported_once_until_it_is_corrected(world: NodeNamespace) -> None:
    world.apply(flame_cluster(replicas=2, executorManager={"image": "registry.invalid/executor:1"}))
    status = world.wait("the status to name the cause", lambda: _degraded(world, "ImagePullFailed"))
    assert "registry.invalid/executor:1" in condition(status, "Degraded")["message"]
    written = world.wait_at_rest(seconds=3)

    # The kubelet goes on trying, and says it in turns of other words.
    seen: set[str] = set()

    def both_turns() -> bool:
        for pod in world.executors():
            statuses = pod["status"].get("initContainerStatuses", [])
            seen.update(each["state"].get("waiting", {}).get("reason", "") for each in statuses)
        return seen >= {"ErrImagePull", "ImagePullBackOff"}

    world.wait("the kubelet to try again", both_turns)
    flame = "flamecluster/my-flame"
    assert world.resource_versions()[flame] == written[flame]

    world.apply(flame_cluster(replicas=2))
    world.wait_registered(executors=2)


def test_session_manager_whose_liveness_probe_fails_restarts_in_place(world: NodeNamespace) -> None:
    probe = _probe("!", "-e", "/tmp/ill") | {"failureThreshold": 1, "terminationGracePeriodSeconds": 1}
    world.apply(flame_cluster(replicas=1, sessionManager=_with_probe("session-manager", livenessProbe=probe)))
    world.wait_registered(executors=1)
    before = world.session_manager()

    world.kubectl("exec", before["metadata"]["name"], "--", "touch", "/tmp/ill")
    world.wait("the kubelet to restart it", lambda: container_state(world.session_manager()).get("restartCount") == 1)

    world.wait_registered(executors=1)
    assert world.session_manager()["metadata"]["uid"] == before["metadata"]["uid"]


def test_executor_whose_readiness_probe_fails_is_named_until_it_passes(world: NodeNamespace) -> None:
    probe = _probe("-e", "/tmp/flame/well")
    world.apply(flame_cluster(replicas=1, executorManager=_with_probe("executor-manager", readinessProbe=probe)))
    told = world.wait("the status to name the executor", lambda: _unhealthy(world, "PodNotReady"))

    world.kubectl("exec", told["name"], "--", "touch", "/tmp/flame/well")
    assert world.wait_registered(executors=1) == {told["name"]}


def test_executor_that_hangs_in_an_init_container_is_named_with_it_until_it_goes_on(world: NodeNamespace) -> None:
    command = ["sh", "-c", "until test -e /tmp/prepared; do sleep 1; done"]
    waiting = {"name": "prepare", "image": TOOLS_IMAGE, "imagePullPolicy": "Never", "command": command}
    world.apply(flame_cluster(replicas=1, executorManager={"podTemplate": {"spec": {"initContainers": [waiting]}}}))
    told = world.wait("the status to name the executor", lambda: _unhealthy(world, "InitContainerWaiting"))
    assert told["message"].startswith('init container "prepare": ')
    assert told["name"] in world.status()["message"]

    world.kubectl("exec", told["name"], "--container=prepare", "--", "touch", "/tmp/prepared")
    assert world.wait_registered(executors=1) == {told["name"]}


def _probe(*test: str) -> dict[str, object]:
    return {"exec": {"command": ["test", *test]}, "periodSeconds": 1}


def _with_probe(container: str, **probe: object) -> dict[str, object]:
    return {"podTemplate": {"spec": {"containers": [{"name": container, **probe}]}}}


def _unhealthy(world: NodeNamespace, reason: str) -> dict[str, Any] | None:
    """Return what the status says of the first Pod that is unhealthy for a reason."""
    return next((each for each in world.status().get("unhealthyPods", []) if each["reason"] == reason), None)


def test_executors_find_no_place_on_a_cordoned_node_until_it_is_uncordoned(
    world: NodeNamespace, cordoned: Plane
) -> None:
    world.apply(flame_cluster(replicas=1))
    status = world.wait("the status to say that no node is to be had", lambda: _degraded(world, "Unschedulable"))
    assert "unschedulable" in condition(status, "Degraded")["message"]

    cordoned.kubectl("uncordon", "node")
    world.wait_registered(executors=1)


def test_silent_node_is_named_and_its_return_replaces_nothing(world: NodeNamespace, frozen: Plane) -> None:
    world.apply(flame_cluster(replicas=2))
    world.wait_registered(executors=2)
    before = uids(world.all("pod"))

    frozen.pause("kubelet")
    status = world.wait("the status to name the node", lambda: _degraded(world, "NodeNotReporting"))
    assert "node" in condition(status, "Degraded")["message"]
    # The node controller marks one Pod after the other.
    world.wait("the state to turn", lambda: world.status().get("state") == "Failed")
    frozen.resume("kubelet")

    world.wait_registered(executors=2)
    assert uids(world.all("pod")) == before


@pytest.fixture
def cordoned(operator: Plane) -> Iterator[Plane]:
    """The cluster whose only node takes no new Pods."""
    operator.kubectl("cordon", "node")
    yield operator
    operator.kubectl("uncordon", "node")


@pytest.fixture
def frozen(operator: Plane) -> Iterator[Plane]:
    """The cluster, whose kubelet a test freezes; it goes on in the end, and the node and all of its Pods are ready."""
    yield operator
    operator.resume("kubelet")

    def recovered() -> bool:
        node = json.loads(operator.kubectl("get", "node", "node", "-o", "json").stdout)
        pods = json.loads(operator.kubectl("get", "pods", "-n", "flamectl-system", "-o", "json").stdout)["items"]
        return is_ready(node) and all(is_ready(pod) for pod in pods) and not node["spec"].get("taints")

    wait_until(recovered, "the node to be ready again", interval=0.5)


def _degraded(world: NodeNamespace, reason: str) -> dict[str, object] | None:
    status = world.status()
    found = any(each["type"] == "Degraded" and each["reason"] == reason for each in status.get("conditions", []))
    return status if found else None
