"""Putting a cluster to rest, and telling the operator to keep its hands off."""

from functools import partial

from tests.e2e.namespace import HOLD, E2ENamespace, Object, condition, flame_cluster, provoke_a_pass, revision_of, uids
from tools.installation import OperatorProcess

MANAGER = "my-flame-session-manager"


def suspended(world: E2ENamespace) -> Object | None:
    status = world.status()
    return status if condition(status, "Suspended").get("status") == "True" else None


def paused(world: E2ENamespace) -> Object | None:
    status = world.status()
    return status if condition(status, "Paused").get("status") == "True" else None


def is_suspending(found: Object) -> bool:
    said = condition(found.get("status", {}), "Suspended")
    return said.get("status") == "False" and said.get("reason") == "Suspending"


def test_suspension_is_recorded_before_the_first_deletion_and_lasts_through_other_edits(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    kept = {kind: uids(world.all(kind)) for kind in ("configmap", "service")}

    with world.record("pod") as pods, world.record("flamecluster") as clusters:
        world.change(suspend=True)
        status = world.wait("the cluster to be suspended", partial(suspended, world))
        announced = clusters.first(is_suspending)
        first_gone = pods.first(lambda pod: "deletionTimestamp" in pod["metadata"])

    assert revision_of(announced) < revision_of(first_gone)
    assert world.all("pod") == []
    assert {kind: uids(world.all(kind)) for kind in kept} == kept
    assert status["state"] == "Pending"
    assert status["message"] == "Suspended: no Pods are wanted"
    assert status["generations"]["reconciled"] == status["observedGeneration"]
    assert status["executorManager"]["current"] == 0

    world.change(executorManager={"replicas": 2}, sessionManager={"policy": "fifo"})
    world.wait("the operator to have seen it", lambda: world.status()["observedGeneration"] == 3)
    provoke_a_pass(world, operator)
    assert world.all("pod") == []
    assert world.status()["configGeneration"] == 2, "what it will read when it comes back is kept up to date"

    world.change(suspend=False)
    world.wait_running(executors=2)
    names = {f"my-flame-executor-manager-{number}" for number in (3, 4)}
    assert uids(world.executors()).keys() == names, "ids are never used again"
    assert condition(world.status(), "Suspended")["status"] == "False"


def test_revoked_suspension_is_finished_first(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    before = uids(world.all("pod"))
    world.annotate("pod", MANAGER, f"{HOLD}=true")
    world.change(suspend=True)
    world.wait("all but the held Pod to be gone", lambda: uids(world.all("pod")).keys() == {MANAGER})

    world.change(suspend=False)
    world.wait(
        "the operator to have seen it",
        lambda: world.status()["observedGeneration"] == 3 and is_suspending({"status": world.status()}),
    )
    provoke_a_pass(world, operator)
    assert uids(world.all("pod")) == {MANAGER: before[MANAGER]}

    world.annotate("pod", MANAGER, f"{HOLD}-")
    world.wait_running(executors=3)
    assert not set(before.values()) & set(uids(world.all("pod")).values())


def test_paused_cluster_is_not_repaired_until_resumed(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    world.change(paused=True)
    world.wait("the cluster to be paused", partial(paused, world))
    before = uids(world.all("pod"))

    world.delete_without_waiting("pod", "my-flame-executor-manager-1")
    world.kubectl("delete", "service/my-flame-object-cache")
    world.change(executorManager={"replicas": 5, "maxExecutors": 20})
    status = world.wait(
        "the status to count what is left",
        lambda: (
            found
            if (found := world.status())["observedGeneration"] == 3 and found["executorManager"]["ready"] == 2
            else None
        ),
    )
    world.wait("the deleted one to be gone", lambda: world.has_executors(2))
    assert status["message"].startswith("Paused, the operator changes nothing; 2 of 5 executors ready")
    assert status["state"] == "Running"
    assert condition(status, "Progressing")["status"] == "False"
    assert uids(world.all("pod")).items() < before.items()
    assert world.get("service", "my-flame-object-cache") is None

    world.change(paused=False)
    world.wait_running(executors=5)
    assert world.get("service", "my-flame-object-cache") is not None
    assert not set(before.values()) & set(uids(world.live_executors()).values())


def test_pause_holds_a_suspension_that_has_begun(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=2))
    world.wait_running(executors=2)
    world.annotate("pod", MANAGER, f"{HOLD}=true")
    world.change(suspend=True)
    world.wait("all but the held Pod to be gone", lambda: uids(world.all("pod")).keys() == {MANAGER})

    world.change(paused=True, suspend=False)
    world.wait("the cluster to be paused", partial(paused, world))
    world.annotate("pod", MANAGER, f"{HOLD}-")
    world.wait("the held Pod to be gone", lambda: world.all("pod") == [])
    world.wait("the status to say so", lambda: world.status()["sessionManager"]["ready"] == 0)
    provoke_a_pass(world, operator)
    assert world.all("pod") == []

    world.change(paused=False)
    world.wait_running(executors=2)
