"""The operator in its own container: killed, rolled, measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.e2e.world import executor_id, flame_cluster, uids
from tests.node import operator as installed
from tests.node.world import container_state, kill_container
from tools.installation import NAMESPACE

if TYPE_CHECKING:
    from tests.e2e.world import Object
    from tests.node.world import NodeWorld
    from tools.controlplane import Plane

_MIB = 1024 * 1024
#: Of the container, in config/manager.
_LIMIT = 512 * _MIB


def test_both_replicas_are_ready_under_the_restricted_level(operator: Plane) -> None:
    namespace = json.loads(operator.kubectl("get", "namespace", NAMESPACE, "-o", "json").stdout)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pods = installed.pods(operator)
    assert [container_state(pod)["ready"] for pod in pods] == [True, True]
    log = operator.kubectl("logs", "-n", NAMESPACE, installed.leader(operator)).stdout
    assert all(json.loads(line)["level"] for line in log.splitlines())


def test_killed_leader_restarts_and_flame_notices_nothing(world: NodeWorld) -> None:
    world.apply(flame_cluster(replicas=2))
    world.wait_registered(executors=2)
    before = uids(world.all("pod"))
    leader = _pod(world.plane, installed.leader(world.plane))

    kill_container(leader)
    world.kubectl("scale", "flamecluster/my-flame", "--replicas=3")

    world.wait_registered(executors=3)
    assert before.items() <= uids(world.all("pod")).items()
    restarts = container_state(leader)["restartCount"] + 1
    world.wait(
        "the killed container to run again",
        lambda: container_state(_pod(world.plane, leader["metadata"]["name"])).get("restartCount") == restarts,
    )
    installed.rolled_out(world.plane)


def test_rollout_of_the_operator_during_a_scale_up_makes_no_executor_too_many(world: NodeWorld) -> None:
    world.apply(flame_cluster(replicas=1))
    world.wait_registered(executors=1)

    world.plane.kubectl("rollout", "restart", f"deployment/{installed.DEPLOYMENT}", "-n", NAMESPACE)
    world.kubectl("scale", "flamecluster/my-flame", "--replicas=6")
    installed.rolled_out(world.plane)

    world.wait_registered(executors=6)
    assert sorted(executor_id(pod) for pod in world.executors()) == list(range(6))


def test_memory_of_both_replicas_stays_far_below_their_limit(world: NodeWorld) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait_registered(executors=3)

    used = _memory(world.plane)

    assert len(used) == 2
    assert max(used.values()) < _LIMIT / 2, used


def _pod(plane: Plane, name: str) -> Object:
    found = plane.kubectl("get", "pod", name, "-n", NAMESPACE, "-o", "json").stdout
    return dict(json.loads(found))


def _memory(plane: Plane) -> dict[str, int]:
    """Return the working set of each of the operator's Pods in bytes, as the kubelet measures it."""
    summary = json.loads(plane.kubectl("get", "--raw", "/api/v1/nodes/node/proxy/stats/summary").stdout)
    return {
        pod["podRef"]["name"]: pod["containers"][0]["memory"]["workingSetBytes"]
        for pod in summary["pods"]
        if pod["podRef"]["namespace"] == NAMESPACE and pod.get("containers")
    }
