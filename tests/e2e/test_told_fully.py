"""Breakages as a person sees them by `kubectl get flc` and `kubectl describe flc`: what broke, where, and what to do."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.alerts import raised
from tests.e2e.namespace import (
    E2ENamespace,
    condition,
    container_status,
    flame_cluster,
    operator_with,
)
from tools.installation import OperatorProcess

MANAGER = "my-flame-session-manager"


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def glance(world: E2ENamespace, name: str = "my-flame") -> dict[str, str]:
    """The row of `kubectl get flc -o wide`, by the names of its columns."""
    head, row = world.kubectl("get", "flc", name, "-o", "wide").splitlines()
    starts = [head.index(name) for name in head.split()]
    ends = [*starts[1:], None]
    return {head[start:end].strip(): row[start:end].strip() for start, end in zip(starts, ends, strict=True)}


def told(world: E2ENamespace, reason: str, *words: str, name: str = "my-flame") -> bool:
    """Whether `kubectl get flc` shows this reason, and `kubectl describe flc` these words."""
    # A wait asks often, and kubectl costs many times what a request costs.
    if world.status(name).get("reason") != reason or glance(world, name)["REASON"] != reason:
        return False
    described = " ".join(world.kubectl("describe", "flc", name).split())
    return all(word in described for word in words)


def ended(reason: str, code: int, message: str = "") -> dict[str, Any]:
    end = {"exitCode": code, "reason": reason, "message": message, "startedAt": now(), "finishedAt": now()}
    return {"terminated": end}


def kill(world: E2ENamespace, pod: str, container: str, reason: str = "OOMKilled", code: int = 137) -> None:
    """End a Pod as a kubelet does whose Pod is never restarted."""
    status = container_status(container, ready=False, state=ended(reason, code))
    world.patch_status(pod, phase="Failed", containerStatuses=[status])


def restart(world: E2ENamespace, pod: str, container: str, reason: str = "OOMKilled") -> None:
    """Show a container that a kubelet has restarted in place, which runs again and is ready."""
    status = container_status(container, restartCount=1, lastState=ended(reason, 137))
    world.patch_status(pod, containerStatuses=[status])


def whole(world: E2ENamespace, executors: int) -> bool:
    """Whether all Pods are there and ready, whatever is told about them."""
    status = world.status()
    return condition(status, "Ready").get("status") == "True" and status["executorManager"]["ready"] == executors


def test_cluster_that_no_operator_has_seen_says_so_and_raises_alerts(world: E2ENamespace, tmp_path: Path) -> None:
    world.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(flame_cluster(replicas=1)))
    row = glance(world)
    assert (row["STATE"], row["REASON"]) == ("Pending", "NotObserved")
    assert (row["GENERATION"], row["OBSERVED"]) == ("1", "0")
    assert row["MESSAGE"].startswith("No operator has looked at this FlameCluster yet")
    assert told(world, "NotObserved", "none works or none serves the namespace", "the log of flamectl-operator")
    assert raised(world) == ["FlamectlOperatorDown", "FlameClusterNotObserved"]

    with operator_with(world, tmp_path, serving=True) as operator:
        world.wait_running(executors=1)
        assert raised(world, operator) == []
    assert told(world, "Healthy")


def test_change_that_no_operator_has_seen_shows_in_the_generations_and_raises_alerts(
    world: E2ENamespace, tmp_path: Path
) -> None:
    with operator_with(world, tmp_path):
        world.apply(flame_cluster(replicas=1))
        world.wait_running(executors=1)
    world.change(executorManager={"replicas": 2})
    row = glance(world)
    assert (row["GENERATION"], row["OBSERVED"]) == ("2", "1")
    assert raised(world) == ["FlamectlOperatorDown", "FlameClusterNotObserved"]


def test_executor_out_of_memory_is_told_until_ten_minutes_without_a_failure_are_over(
    world: E2ENamespace, tmp_path: Path
) -> None:
    field = "raise spec.executorManager.resources.limits.memory"
    with operator_with(world, tmp_path, stableAfterSeconds=30, terminalPodRetentionSeconds=1) as operator:
        world.apply(flame_cluster(replicas=3))
        world.wait_running(executors=3)

        kill(world, "my-flame-executor-manager-1", "executor-manager")
        world.wait("the first one to be told", partial(told, world, "OOMKilled", "failed at", field))
        world.wait("it to be replaced", partial(whole, world, 3))
        assert told(world, "OOMKilled", "my-flame-executor-manager-1 failed at", field)
        kill(world, "my-flame-executor-manager-2", "executor-manager")
        words = ("Executors failed 2 times since", "last my-flame-executor-manager-2", field)
        world.wait("both to be told", partial(told, world, "OOMKilled", *words))
        world.wait("it to be replaced", partial(whole, world, 3))
        world.wait("the failed ones to be gone", lambda: world.has_executors(3))

        operator.kill()
        operator.start()
        assert told(world, "OOMKilled", *words)
        described = world.kubectl("describe", "flc", "my-flame").partition("\nEvents:")[0]
        assert "healthy" not in described
        assert "No action is needed" not in described
        assert "Next Attempt" not in described
        status = world.status()
        assert (status["state"], condition(status, "Degraded")["status"]) == ("Running", "True")
        world.wait("the failures to be over", partial(told, world, "Healthy", "All components healthy"))
        assert world.status().get("recentFailures") is None


def test_restarted_session_manager_and_object_cache_out_of_memory_are_told(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=1, objectCache={"image": "xflops/flame-object-cache:v0.6.0"}))
    world.wait_running(executors=1)
    restart(world, "my-flame-object-cache-0", "object-cache")
    field = "raise spec.objectCache.resources.limits.memory"
    world.wait("the cache to be told", partial(told, world, "OOMKilled", "my-flame-object-cache-0 failed at", field))
    restart(world, MANAGER, "session-manager")
    field = "raise spec.sessionManager.resources.limits.memory"
    world.wait("the manager to be told", partial(told, world, "OOMKilled", "Session manager failed at", field))


def test_executor_whose_process_ends_at_once_tells_its_exit_code_and_its_log(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=1))
    world.wait_running(executors=1)
    for number in (0, 1):
        name = f"my-flame-executor-manager-{number}"
        world.wait("the executor", partial(world.get, "pod", name))
        kill(world, name, "executor-manager", "Error", 101)
        words = (name, "ended with exit code 101", f"see kubectl logs {name}")
        world.wait(f"{name} to be told", partial(told, world, "PodsFailing", *words))


def test_session_manager_in_a_crash_loop_tells_its_previous_log(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=1))
    world.wait_running(executors=1)
    status = container_status(
        "session-manager",
        ready=False,
        restartCount=3,
        state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}},
        lastState=ended("Error", 0, "invalid configuration: unknown policy"),
    )
    world.patch_status(MANAGER, containerStatuses=[status])
    words = ("it ended with exit code 0", "unknown policy", f"see kubectl logs {MANAGER} --previous")
    world.wait("the crash loop to be told", partial(told, world, "PodsFailing", *words))
