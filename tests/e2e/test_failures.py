"""Failures: Pods that end, hang or never start, and the cluster meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from tests.e2e.namespace import (
    HOLD,
    E2ENamespace,
    Object,
    executor_id,
    flame_cluster,
    is_ready,
    operator_with,
    uids,
)
from tests.e2e.test_told_fully import told
from tools.installation import OperatorProcess

MANAGER = "my-flame-session-manager"
#: A wait between replacements that no test lives to see the end of, in seconds.
FOREVER = 300


def counting(world: E2ENamespace, failures: int) -> Object | None:
    """The status once it counts so many failures of executors."""
    status = world.status()
    return status if status.get("executorManager", {}).get("failures", 0) == failures else None


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
