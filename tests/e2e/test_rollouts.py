"""Rollouts: the Pods that a change of the spec replaces, their order, and the executors that serve meanwhile."""

from functools import partial

from tests.e2e.namespace import (
    NEVER_READY,
    E2ENamespace,
    Object,
    annotated,
    condition,
    container_status,
    count_ready,
    flame_cluster,
    is_ready,
    provoke_a_pass,
    revision_of,
    uids,
)
from tools.installation import OperatorProcess

REVISION = "flame.xflops.io/revision"
EXECUTOR_IMAGE = "xflops/flame-executor-manager:v0.6.0"


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


def test_rollout_whose_image_cannot_be_pulled_stops_and_can_be_rolled_back(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=6))
    world.wait_running(executors=6)
    before = uids(world.executors())

    with world.record("pod") as recording:
        world.change(executorManager={"image": "no/such:image", "podTemplate": annotated(never_ready="true")})

        def broken_executor() -> str | None:
            new = [pod for pod in world.live_executors() if pod["metadata"]["name"] not in before]
            return str(new[0]["metadata"]["name"]) if new else None

        broken = world.wait("the first executor of the new revision", broken_executor)
        waiting = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "no/such:image"'}}
        world.patch_status(broken, containerStatuses=[container_status("executor-manager", ready=False, state=waiting)])
        status = world.wait("the status to name the cause", lambda: _telling(world, "ImagePullFailed: image"))
        for _ in range(3):
            provoke_a_pass(world, operator)

        assert status["state"] == "Running"
        assert status["executorManager"]["ready"] == 5
        assert condition(status, "Ready")["status"] == "False"
        assert condition(status, "Progressing")["status"] == "True"
        assert condition(status, "Degraded")["reason"] == "ImagePullFailed"
        assert set(uids(world.live_executors())) - {broken} < before.keys()
        assert world.status()["executorManager"]["updated"] == 1

        world.change(executorManager={"image": EXECUTOR_IMAGE, "podTemplate": None})
        world.wait_running(executors=6)
        ready = [count_ready(state) for state in recording.states()]
        made = dict(recording.created())

    assert min(ready) == 5
    assert len([name for name in made if "-executor-manager-" in name]) == 8, "six, the broken one, one in its place"
    kept = {name: uid for name, uid in uids(world.live_executors()).items() if name in before}
    assert len(kept) == 5
    assert kept.items() <= before.items()


def _telling(world: E2ENamespace, text: str) -> Object | None:
    status = world.status()
    return status if text in status.get("message", "") else None


def test_recreate_never_runs_two_revisions_side_by_side(world: E2ENamespace, operator: OperatorProcess) -> None:
    replicas = 7
    world.apply(flame_cluster(replicas=4, executorManager={"updateStrategy": {"type": "Recreate"}}))
    world.wait_running(executors=4)
    before = uids(world.executors())

    with world.record("pod") as recording:
        world.change(executorManager={"replicas": replicas, "image": "xflops/flame-executor-manager:v0.6.1"})
        world.wait_running(executors=replicas)
        together = [revisions(executors_of(state)) for state in recording.states()]

    assert all_replaced(before, world.live_executors())
    assert max(len(found) for found in together) == 1


def test_on_delete_replaces_only_deleted_executors(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=3, executorManager={"updateStrategy": {"type": "OnDelete"}}))
    world.wait_running(executors=3)
    before = uids(world.executors())
    world.change(executorManager={"maxExecutors": 20})
    world.wait(
        "the status to say what is waited for",
        partial(
            _telling, world, "3 stale executors run the earlier spec (OnDelete): delete their Pods to replace them"
        ),
    )
    provoke_a_pass(world, operator)
    assert uids(world.executors()) == before

    world.delete_without_waiting("pod", "my-flame-executor-manager-1")
    status = world.wait("the other two to be left", lambda: _telling(world, "2 stale executors run the earlier spec"))
    world.wait("the deleted one to be gone", lambda: world.has_executors(3))

    assert status["executorManager"]["updated"] == 1
    after = uids(world.executors())
    assert after.keys() == {f"my-flame-executor-manager-{number}" for number in (0, 2, 3)}
    assert {name: uid for name, uid in after.items() if name in before}.items() <= before.items()


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
    world.wait(
        "the ConfigMap to be missed",
        lambda: _degraded(world, 'ConfigMap "mine" of spec.sessionManager ', "does not exist"),
    )
    mine: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"other": "a"}}
    world.apply(mine)
    provoke_a_pass(world, operator)
    world.wait(
        "the key to be missed",
        lambda: _degraded(world, 'ConfigMap "mine" of spec.sessionManager ', 'has no key "level"'),
    )
    assert uids(world.all("pod")) == before

    world.apply(mine | {"data": {"level": "debug"}})
    provoke_a_pass(world, operator)
    world.wait("another session manager", lambda: all_replaced(before, world.all("pod")))


def _degraded(world: E2ENamespace, *texts: str) -> bool:
    found = condition(world.status(), "Degraded")
    return found.get("reason") == "ConfigMapNotFound" and all(text in found["message"] for text in texts)


def test_unready_session_manager_holds_back_the_executors(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    before = uids(world.executors())
    manager = world.session_manager()["metadata"]["uid"]

    world.change(sessionManager={"podTemplate": annotated(never_ready="true")}, flameVersion="0.5")
    world.wait(
        "the new session manager",
        lambda: (pod := world.get("pod", "my-flame-session-manager")) is not None and pod["metadata"]["uid"] != manager,
    )
    world.wait("the status to say so", lambda: _telling(world, "Session manager is starting"))
    provoke_a_pass(world, operator)
    assert uids(world.executors()) == before

    world.annotate("pod", "my-flame-session-manager", f"{NEVER_READY}-")
    world.wait_running(executors=3)
    assert all_replaced(before, world.live_executors())
