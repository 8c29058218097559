"""Failures: Pods that end, hang or never start, and the cluster meanwhile."""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from tests.e2e.namespace import (
    HOLD,
    NEVER_READY,
    E2ENamespace,
    Object,
    assert_idle,
    container_status,
    executor_id,
    flame_cluster,
    is_ready,
    operator_with,
    provoke_a_pass,
    revision_of,
    uids,
)
from tests.e2e.test_told_fully import told
from tools.installation import OperatorProcess

MANAGER = "my-flame-session-manager"
BOUND_TO = "flame.xflops.io/session-manager"
ENDED = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2025-01-01T00:01:00Z"}}

SECOND = timedelta(seconds=1)

#: A wait between replacements that no test lives to see the end of, in seconds.
FOREVER = 300


def counting(world: E2ENamespace, failures: int) -> Object | None:
    """The status once it counts so many failures of executors."""
    status = world.status()
    return status if status.get("executorManager", {}).get("failures", 0) == failures else None


def telling(world: E2ENamespace, *texts: str) -> Object | None:
    """The status once its message holds these texts."""
    status = world.status()
    return status if all(text in status.get("message", "") for text in texts) else None


def newest(world: E2ENamespace) -> str:
    return str(world.executors()[-1]["metadata"]["name"])


def beyond(world: E2ENamespace, number: int) -> Object | None:
    """The executor made after the one with this id, once it is ready."""
    found = [pod for pod in world.executors() if executor_id(pod) > number and is_ready(pod)]
    return found[0] if found else None


def remade(world: E2ENamespace, uid: str) -> Object | None:
    """The session manager once it is another one than that, and ready."""
    pod = world.get("pod", MANAGER)
    return pod if pod is not None and pod["metadata"]["uid"] != uid and is_ready(pod) else None


def has_counted(failures: int, cluster: Object) -> bool:
    return bool(cluster["status"]["executorManager"].get("failures", 0) == failures)


def fail_twice(world: E2ENamespace) -> None:
    """An executor fails, and then what was made in its place: from then on replacements wait."""
    for failures in (1, 2):
        last = newest(world)
        world.patch_status(last, phase="Failed")
        world.wait(f"{failures} failures to be counted", partial(counting, world, failures))
        if failures == 1:
            world.wait("the replacement", partial(beyond, world, int(last.rsplit("-", 1)[1])))


def fail_at_birth(world: E2ENamespace, name: str) -> None:
    """An executor turns out to have failed when it was made: what had worked for a while would not count as a failure."""
    pod = world.get("pod", name)
    assert pod is not None
    state = {"terminated": ENDED["terminated"] | {"finishedAt": pod["metadata"]["creationTimestamp"]}}
    world.patch_status(
        name, phase="Failed", containerStatuses=[container_status("executor-manager", ready=False, state=state)]
    )


def test_evicted_executor_is_replaced_at_once_and_kept_for_its_logs(world: E2ENamespace, tmp_path: Path) -> None:
    over = "my-flame-executor-manager-1"
    with operator_with(world, tmp_path, terminalPodRetentionSeconds=FOREVER):
        world.apply(flame_cluster(replicas=3))
        world.wait_running(executors=3)
        before = uids(world.executors())

        with world.record("pod") as pods, world.record("flamecluster") as clusters:
            why = "The node was low on resource: memory."
            world.patch_status(over, phase="Failed", reason="Evicted", message=why)
            world.wait("a replacement", partial(beyond, world, 2))
            world.wait_running(executors=3)
            told = clusters.first(lambda cluster: "unhealthyPods" in cluster.get("status", {}))["status"]
            assert not pods.deleted()

        assert told["unhealthyPods"][0]["name"] == over
        assert told["unhealthyPods"][0]["reason"] == "Evicted"
        assert told["message"].startswith(f"2 of 3 executors ready; {over} failed at ")
        assert f"Evicted: {why}" in told["message"]

    with world.record("pod") as pods, operator_with(world, tmp_path, terminalPodRetentionSeconds=1):
        world.wait("the old one to be removed", lambda: over not in uids(world.executors()))
        world.wait_running(executors=3)
        assert pods.deleted() == {before[over]}
        after = uids(world.live_executors())
        assert after.keys() == {f"my-flame-executor-manager-{number}" for number in (0, 2, 3)}
        assert after["my-flame-executor-manager-0"] == before["my-flame-executor-manager-0"]


def test_backoff_of_failing_replacements_grows_and_survives_a_crash(world: E2ENamespace, tmp_path: Path) -> None:
    with operator_with(world, tmp_path, backoffBaseSeconds=6, terminalPodRetentionSeconds=2) as operator:
        world.apply(flame_cluster(replicas=3))
        world.wait_running(executors=3)
        with world.record("flamecluster") as clusters:
            fail_twice(world)
            words = "executors failed 2 times in a row; next attempt at"
            told = clusters.wait_for("the status to say when", lambda cluster: words in cluster["status"]["message"])
            due = told["status"]["executorManager"]["nextAttempt"]

            operator.kill()
            operator.start()
            assert world.status()["executorManager"]["failures"] == 2
            third = world.wait("the third attempt", partial(beyond, world, 3))
            # Answers name the API server's time in whole seconds, so the operator knows it to a second.
            assert moment(third["metadata"]["creationTimestamp"]) >= moment(due) - timedelta(seconds=1)

            failed = datetime.now(UTC)
            world.patch_status(newest(world), phase="Failed")
            status = clusters.wait_for("the third failure to be counted", partial(has_counted, 3))["status"]
        wait = moment(status["executorManager"]["nextAttempt"]) - failed
        assert wait.total_seconds() >= 12, "twice as long as the one before"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_failures_reset_after_a_while_and_the_failed_pod_that_outlives_the_reset_is_not_counted_again(
    world: E2ENamespace, tmp_path: Path
) -> None:
    with operator_with(world, tmp_path, stableAfterSeconds=3, terminalPodRetentionSeconds=FOREVER) as operator:
        world.apply(flame_cluster(replicas=2))
        world.wait_running(executors=2)
        with world.record("flamecluster") as clusters:
            fail_at_birth(world, "my-flame-executor-manager-0")
            clusters.wait_for("the failure to be counted", partial(has_counted, 1))
        world.wait("the failure to be forgotten", partial(counting, world, 0))
        world.wait_running(executors=2)
        with world.record("flamecluster") as recording:
            for _ in range(3):
                provoke_a_pass(world, operator)
            counts = [cluster["status"]["executorManager"]["failures"] for (cluster,) in recording.states()]
        assert set(counts) == {0}
        assert_idle(operator)


def test_terminal_session_manager_is_replaced_at_once_and_its_executors_follow(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    before = uids(world.all("pod"))

    with world.record("pod") as recording:
        world.patch_status(MANAGER, phase="Failed")
        serving = world.wait("a new session manager", partial(remade, world, before[MANAGER]))
        world.wait_running(executors=3)
        ready = recording.first(lambda pod: pod["metadata"]["uid"] == serving["metadata"]["uid"] and is_ready(pod))
        first_gone = recording.first(
            lambda pod: pod["metadata"]["name"] != MANAGER and "deletionTimestamp" in pod["metadata"]
        )

    assert revision_of(ready) < revision_of(first_gone)
    assert not set(before.values()) & set(uids(world.live_executors()).values())
    bound = {pod["metadata"]["annotations"][BOUND_TO] for pod in world.live_executors()}
    assert bound == {f"{serving['metadata']['uid']}.0"}


def test_executors_are_replaced_when_a_restarted_session_manager_is_ready(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    before, manager = uids(world.executors()), world.session_manager()
    conditions = manager["status"]["conditions"]
    unready = [each | {"status": "False"} if each["type"].endswith("Ready") else each for each in conditions]

    restarted = container_status("session-manager", restartCount=1)
    world.patch_status(MANAGER, containerStatuses=[restarted | {"ready": False}], conditions=unready)
    world.wait("the status to say so", partial(telling, world, "Session manager is starting"))
    provoke_a_pass(world, operator)
    assert uids(world.executors()) == before

    world.patch_status(MANAGER, containerStatuses=[restarted], conditions=conditions)
    world.wait(
        "all executors to be others", lambda: not set(before.values()) & set(uids(world.live_executors()).values())
    )
    world.wait_running(executors=3)
    assert world.session_manager()["metadata"]["uid"] == manager["metadata"]["uid"]


def test_executors_still_in_their_init_container_stay_when_the_session_manager_is_replaced(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    template = {"metadata": {"annotations": {NEVER_READY: "true"}}}
    world.apply(flame_cluster(replicas=3, executorManager={"podTemplate": template}))
    world.wait("three executors", lambda: len(world.live_executors()) == 3)
    old = world.wait("the session manager to be ready", partial(remade, world, ""))
    started, *waiting = (pod["metadata"]["name"] for pod in world.executors())
    world.annotate("pod", started, f"{NEVER_READY}-")
    world.wait("one of them to have started", lambda: is_ready(world.executors()[0]))
    initializing = {"waiting": {"reason": "PodInitializing"}}
    for name in waiting:
        world.patch_status(
            name, containerStatuses=[container_status("executor-manager", ready=False, state=initializing)]
        )
    before = uids(world.executors())

    world.delete_without_waiting("pod", MANAGER)
    new = world.wait("a new session manager", partial(remade, world, old["metadata"]["uid"]))
    world.wait("the executors to belong to it", lambda: _bound(world) == {f"{new['metadata']['uid']}.0"})
    world.wait("the one that had started to be gone", lambda: started not in uids(world.executors()))
    world.wait("another one in its place", lambda: world.has_executors(3))

    after = uids(world.executors())
    assert {name: after.get(name) for name in waiting} == {name: before[name] for name in waiting}
    # Kubernetes' times have no fractions, so a start in the same second would count as earlier than the session manager's.
    world.wait("a later second than the session manager's start", lambda: datetime.now(UTC) >= _start(new) + SECOND)
    for pod in world.executors():
        world.annotate("pod", pod["metadata"]["name"], f"{NEVER_READY}-")
    world.wait_running(executors=3)
    assert uids(world.executors()) == after


def _start(pod: Object) -> datetime:
    return moment(pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"])


def _bound(world: E2ENamespace) -> set[str]:
    return {pod["metadata"]["annotations"][BOUND_TO] for pod in world.live_executors()}


def test_executor_stuck_terminating_is_replaced_at_once_without_a_failure(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    stuck = "my-flame-executor-manager-1"
    world.annotate("pod", stuck, f"{HOLD}=true")

    world.delete_without_waiting("pod", stuck)
    words = (
        f'Pod "{stuck}" is being deleted. This operator did not delete it. Cause: somebody deleted it',
        "The operator replaces what is still wanted",
    )
    world.wait("the loss to be told", partial(told, world, "Healthy", *words))
    world.wait("a replacement", partial(beyond, world, 2))
    world.wait("the status to show its removal", lambda: world.status()["generations"].get("hasPendingRemoval"))
    status = world.wait_running(executors=3)
    assert not status["executorManager"].get("failures")
    assert world.has_executors(4)
    world.kubectl("scale", "flamecluster/my-flame", "--replicas=2")
    world.wait_running(executors=2)
    world.wait("the surplus one to be gone", lambda: world.has_executors(3))
    assert stuck in uids(world.executors())

    world.annotate("pod", stuck, f"{HOLD}-")
    world.wait("it to be gone in the end", lambda: world.has_executors(2))


def test_session_manager_stuck_terminating_is_force_deleted_and_recreated(world: E2ENamespace, tmp_path: Path) -> None:
    with operator_with(world, tmp_path, forceDeleteAfterSeconds=3, terminationGracePeriodSeconds=1):
        world.apply(flame_cluster(replicas=2))
        world.wait_running(executors=2)
        before = uids(world.all("pod"))
        world.annotate("pod", MANAGER, f"{HOLD}=true")

        with world.record("pod") as pods, world.record("flamecluster") as clusters:
            world.delete_without_waiting("pod", MANAGER)
            dying = pods.wait_for("it to be terminating", lambda pod: "deletionTimestamp" in pod["metadata"])
            due = moment(dying["metadata"]["deletionTimestamp"])
            words = "Session manager is terminating"
            clusters.wait_for("the status to say so", lambda cluster: words in cluster["status"]["message"])
        world.wait("a new session manager", partial(remade, world, before[MANAGER]))
        world.wait_running(executors=2)

        assert not set(before.values()) & set(uids(world.live_executors()).values())
        (event,) = world.wait("an event", partial(forced, world))
        assert (moment(event["firstTimestamp"]) - due).total_seconds() >= 3


def forced(world: E2ENamespace) -> list[Object]:
    return [each for each in world.events("SessionManagerDeleted") if "Force-deleted" in each["message"]]


def test_terminating_executor_does_not_exceed_the_budget_of_a_rollout(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=4))
    world.wait_running(executors=4)
    stuck = "my-flame-executor-manager-3"
    world.annotate("pod", stuck, f"{HOLD}=true")

    with world.record("pod") as recording:
        world.change(executorManager={"maxExecutors": 20})
        world.wait_running(executors=4)
        ready = [
            sum(is_ready(pod) for pod in state if pod["metadata"]["name"] != MANAGER) for state in recording.states()
        ]

    assert min(ready) == 3
    assert stuck in uids(world.executors())
    world.annotate("pod", stuck, f"{HOLD}-")
    world.wait("it to be gone in the end", lambda: world.has_executors(4))


def test_container_retried_by_the_kubelet_is_reported_and_not_replaced(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=2))
    world.wait_running(executors=2)
    before = uids(world.all("pod"))
    message = 'configmap "my-flame-config" not found'
    waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": message}}
    broken = container_status("executor-manager", ready=False, state=waiting)

    world.patch_status("my-flame-executor-manager-0", containerStatuses=[broken])
    status = world.wait(
        "the status to say so",
        partial(
            telling,
            world,
            "1 of 2 executors ready; my-flame-executor-manager-0: CreateContainerConfigError: "
            f'container "executor-manager": {message}',
        ),
    )
    assert status["state"] == "Running"
    world.patch_status("my-flame-executor-manager-1", containerStatuses=[broken])
    world.wait("the state to be Failed", lambda: world.status()["state"] == "Failed")
    provoke_a_pass(world, operator)
    assert uids(world.all("pod")) == before

    for name in ("my-flame-executor-manager-0", "my-flame-executor-manager-1"):
        world.patch_status(name, containerStatuses=[container_status("executor-manager")])
    world.wait_running(executors=2)
    assert uids(world.all("pod")) == before
