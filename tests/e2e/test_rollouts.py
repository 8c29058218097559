"""Rollouts: the Pods that a change of the spec replaces, their order, and the executors that serve meanwhile."""

from __future__ import annotations

from tests.e2e.namespace import (
    E2ENamespace,
    Object,
    condition,
    count_ready,
    flame_cluster,
    is_ready,
    provoke_a_pass,
    revision_of,
    uids,
)
from tools.installation import OperatorProcess

REVISION = "flame.xflops.io/revision"


def executors_of(state: list[Object]) -> list[Object]:
    return [pod for pod in state if "-executor-manager-" in pod["metadata"]["name"]]


def revisions(pods: list[Object]) -> set[str]:
    return {pod["metadata"]["annotations"][REVISION] for pod in pods}


def all_replaced(before: dict[str, str], pods: list[Object]) -> bool:
    return not set(before.values()) & set(uids(pods).values())


def test_rolling_update_with_surge_keeps_all_executors_ready(world: E2ENamespace, operator: OperatorProcess) -> None:
    strategy = {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}
    world.apply(flame_cluster(replicas=20, executorManager={"updateStrategy": strategy}))
    world.wait_running(executors=20)
    before = uids(world.executors())

    with world.record("pod") as recording:
        world.change(executorManager={"maxExecutors": 20})
        world.wait_running(executors=20)
        states = list(recording.states())

    assert all_replaced(before, world.live_executors())
    assert min(count_ready(state) for state in states) >= 20
    live = [sum("deletionTimestamp" not in pod["metadata"] for pod in executors_of(state)) for state in states]
    assert max(live) == 25


def test_change_of_the_session_manager_replaces_it_before_its_executors(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    before = uids(world.all("pod"))
    revision = revisions(world.executors())

    with world.record("pod") as recording:
        world.change(sessionManager={"policy": "fifo"})
        world.wait_running(executors=3)
        serving = recording.first(
            lambda pod: (
                pod["metadata"]["name"] == "my-flame-session-manager"
                and pod["metadata"]["uid"] not in before.values()
                and is_ready(pod)
            )
        )
        first_gone = recording.first(
            lambda pod: pod["metadata"]["name"] != "my-flame-session-manager" and "deletionTimestamp" in pod["metadata"]
        )

    assert all_replaced(before, world.live_executors())
    assert revision_of(serving) < revision_of(first_gone), "executors go only when there is something to connect to"
    assert revisions(world.live_executors()) == revision, "nothing that they read has changed"


def test_session_manager_stays_while_a_config_map_of_its_successor_lacks_a_key(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=1))
    world.wait_running(executors=1)
    before = uids(world.all("pod"))
    reference = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "mine", "key": "level"}}}

    world.change(sessionManager={"env": [reference]})
    world.wait("the ConfigMap to be missed", lambda: _degraded(world, 'ConfigMap "mine", ', "does not exist"))
    mine: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"other": "a"}}
    world.apply(mine)
    provoke_a_pass(world, operator)
    world.wait("the key to be missed", lambda: _degraded(world, 'ConfigMap "mine", ', 'has no key "level"'))
    assert uids(world.all("pod")) == before

    world.apply(mine | {"data": {"level": "debug"}})
    provoke_a_pass(world, operator)
    world.wait("another session manager", lambda: all_replaced(before, world.all("pod")))


def _degraded(world: E2ENamespace, *texts: str) -> bool:
    found = condition(world.status(), "Degraded")
    return found.get("reason") == "ConfigMapNotFound" and all(text in found["message"] for text in texts)
