"""Pods of deleted Nodes are created again at once."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.namespace import E2ENamespace, Object, Recording, flame_cluster, is_ready, operator_with, uids
from tools.controlplane import ControlPlane, Plane
from tools.controlplane.waiting import PATIENCE
from tools.installation import install

MANAGER = "my-flame-session-manager"
#: Puts each executor on a Node of its own.
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "flame-executor-manager"}},
}
#: Seconds. Pods of a Node that is gone are collected after about a minute.
LONG = 2 * PATIENCE


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with ControlPlane(nodes=8) as plane:
        install(plane)
        yield plane


@pytest.fixture
def world(plane: Plane) -> E2ENamespace:
    """A namespace of the test's own; it goes with the control plane."""
    namespace = f"lost-{uuid.uuid4().hex[:10]}"
    plane.create_namespace(namespace)
    return E2ENamespace(plane, namespace)


def lose(world: E2ENamespace, node: str) -> set[str]:
    """Delete a Node, and wait until its Pods are collected; returns their uids."""
    lost = {pod["metadata"]["uid"] for pod in world.all("pod") if pod["spec"]["nodeName"] == node}
    world.plane.kubectl("delete", "node", node)
    world.wait("its Pods to be gone", lambda: not lost & set(uids(world.all("pod")).values()), LONG)
    return lost


def failures(clusters: Recording) -> list[Object]:
    """The states of FlameClusters in which a failure was counted."""
    return [
        change.object
        for change in clusters.changes()
        for component in ("sessionManager", "executorManager")
        if change.object.get("status", {}).get(component, {}).get("failures")
    ]


def followers(world: E2ENamespace) -> list[str]:
    """Return the incarnations of the session manager that ready executors belong to."""
    return [
        pod["metadata"]["annotations"]["flame.xflops.io/session-manager"]
        for pod in world.live_executors()
        if is_ready(pod)
    ]


@pytest.mark.long
def test_pods_of_lost_nodes_are_recreated_at_once(world: E2ENamespace, tmp_path: Path) -> None:
    with operator_with(world, tmp_path), world.record("flamecluster") as clusters:
        spread = {"podTemplate": {"spec": {"topologySpreadConstraints": [SPREAD]}}}
        world.apply(flame_cluster(replicas=3, executorManager=spread))
        world.wait_running(executors=3)
        before, manager = uids(world.all("pod")), world.session_manager()
        nodes = {pod["spec"]["nodeName"] for pod in world.executors()} - {manager["spec"]["nodeName"]}

        lost = lose(world, min(nodes))
        world.wait("the others to be as many as before", lambda: len(followers(world)) == 3)
        assert set(before.values()) - set(uids(world.all("pod")).values()) == lost, "the others were left alone"

        lose(world, manager["spec"]["nodeName"])
        world.wait("another session manager", lambda: world.get("pod", MANAGER))
        incarnation = f"{world.session_manager()['metadata']['uid']}.0"
        world.wait("executors that follow it", lambda: followers(world) == [incarnation] * 3)
        world.wait_running(executors=3)
        assert failures(clusters) == []
