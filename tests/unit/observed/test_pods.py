"""The state of a Pod, read from its status."""

from datetime import datetime
from typing import Any

import pytest

from flamectl_operator.observed import pods
from flamectl_operator.observed.pod_problem import PodProblem
from tests.unit.builders import UNSCHEDULABLE, ago, condition, ended, later, pod, running, waiting

READY = condition("Ready", "True", since=ago(100))
MAIN = "executor-manager"


def _last_state(name: str) -> Any:
    """A container that runs again after it failed."""
    return running(name, restarts=3)


HEALTHY: list[Any] = [
    pytest.param({"conditions": [READY], "containers": [running(MAIN)]}, id="running and ready"),
    pytest.param({"containers": [running(MAIN)]}, id="running and not ready"),
    pytest.param({"phase": "Pending", "node": ""}, id="not scheduled"),
    pytest.param({"phase": "Pending", "conditions": [UNSCHEDULABLE], "node": ""}, id="unschedulable"),
    pytest.param({"phase": "Pending", "containers": [waiting(MAIN, "ContainerCreating")]}, id="being created"),
    pytest.param({"phase": "Pending", "containers": [waiting(MAIN, "PodInitializing")]}, id="initializing"),
    pytest.param({"phase": "Pending", "containers": [waiting(MAIN, "")]}, id="no reason given"),
    pytest.param(
        {"phase": "Pending", "init": [running("wait")], "containers": [waiting(MAIN)]}, id="init container runs"
    ),
    pytest.param({"init": [ended("wait", 0, "Completed")], "containers": [running(MAIN)]}, id="init container is done"),
    pytest.param({"containers": [_last_state(MAIN)]}, id="failed before and runs again"),
    pytest.param({"phase": "Unknown"}, id="its node is silent"),
    pytest.param({"phase": ""}, id="no phase yet"),
]
FAILED: list[Any] = [
    *(
        pytest.param(
            {"phase": "Pending", "containers": [waiting(MAIN, reason, "why")]},
            PodProblem(reason, "why", f'container "{MAIN}"'),
            id=reason,
        )
        for reason in (
            "CreateContainerConfigError",
            "CreateContainerError",
            "RunContainerError",
            "PreCreateHookError",
            "PreStartHookError",
            "PostStartHookError",
        )
    ),
    pytest.param({"containers": [waiting(MAIN, "CrashLoopBackOff", "back-off 10s")]},
        PodProblem("CrashLoopBackOff", "", f'container "{MAIN}"'), id="CrashLoopBackOff"),
    *(
        pytest.param(
            {"phase": "Pending", "containers": [waiting(MAIN, reason, "why")]},
            PodProblem("ImagePullFailed", cause, f'image of container "{MAIN}"'),
            id=reason,
        )
        for reason, cause in (
            ("ImagePullBackOff", "why"),
            ("ErrImagePull", "why"),
            ("InvalidImageName", "the image name is not valid"),
            ("ErrImageNeverPull", "it is not on the node, or not for this Pod, and imagePullPolicy is Never"),
        )
    ),
    pytest.param({"containers": [ended(MAIN, 1, "Error")]}, PodProblem("Error", f'container "{MAIN}" ended with exit code 1'),
        id="ended with an error"),
    pytest.param({"containers": [ended(MAIN, 0, "Completed")]},
        PodProblem("Completed", f'container "{MAIN}" ended with exit code 0'),
        id="ended with 0, as Flame does over fatal errors"),
    pytest.param({"containers": [ended(MAIN, 137, "OOMKilled", "too much")]},
        PodProblem("OOMKilled", "it was killed at its memory limit", f'container "{MAIN}"'), id="killed"),
    pytest.param({"containers": [ended(MAIN, 3, "")]}, PodProblem("Terminated", f'container "{MAIN}" ended with exit code 3'),
        id="no reason"),
    pytest.param({"conditions": [READY], "containers": [running(MAIN), ended("sidecar", 0, "Completed")]},
        PodProblem("Completed", 'container "sidecar" ended with exit code 0'), id="a sidecar ended"),
    pytest.param(
        {"conditions": [READY], "containers": [running(MAIN), waiting("sidecar", "CrashLoopBackOff", "back-off 10s")]},
        PodProblem("CrashLoopBackOff", "", 'container "sidecar"'),
        id="a sidecar crashes",
    ),
    pytest.param({"phase": "Pending", "init": [waiting("wait", "ImagePullBackOff", "no")], "containers": [waiting(MAIN)]},
        PodProblem("ImagePullFailed", "no", 'image of container "wait"'), id="init container cannot pull"),
    pytest.param({"phase": "Pending", "init": [ended("wait", 2)], "containers": [waiting(MAIN)]},
        PodProblem("Error", 'container "wait" ended with exit code 2'), id="init container failed"),
    pytest.param({"phase": "Failed", "reason": "Evicted", "message": "low on disk"}, PodProblem("Evicted", "low on disk"),
        id="evicted"),
    pytest.param({"phase": "Failed"}, PodProblem("Failed"), id="failed without a word"),
    pytest.param({"phase": "Failed", "init": [ended("wait", 137, "OOMKilled")], "containers": [waiting(MAIN)]},
        PodProblem("OOMKilled", "it was killed at its memory limit", 'container "wait"'),
        id="phase Failed, for an init container was not to be started again"),
    pytest.param({"phase": "Failed", "init": [ended("proxy", 143)], "containers": [ended(MAIN, 1, "Error", "boom")]},
        PodProblem("Error", "boom"), id="phase Failed, and a sidecar was ended after that"),
    pytest.param({"phase": "Failed", "conditions": [READY], "containers": [running(MAIN)]}, PodProblem("Failed"),
        id="phase Failed, though everything else looks well"),
    pytest.param({"phase": "Failed", "containers": [ended(MAIN, 1, "Error", "boom")]}, PodProblem("Error", "boom"),
        id="phase Failed"),
    *(
        pytest.param(
            {**status, "containers": [ended("agent", 0, "Completed"), ended(MAIN, 137, "OOMKilled")]},
            PodProblem("OOMKilled", "it was killed at its memory limit", f'container "{MAIN}"'),
            id=f"a sidecar whose name comes first ended after the main container, {name}",
        )
        for name, status in (("phase Failed", {"phase": "Failed"}), ("another one runs", {}))
    ),
    pytest.param(
        {"init": [waiting("proxy", "CrashLoopBackOff")], "containers": [ended(MAIN, 1, "Error", "boom")]},
        PodProblem("Error", "boom"), id="a native sidecar crashes after the end of the main container"),
    pytest.param({"phase": "Succeeded", "containers": [ended(MAIN, 0, "Completed")]},
        PodProblem("Completed", f'container "{MAIN}" ended with exit code 0'), id="phase Succeeded"),
]  # fmt: skip


@pytest.mark.parametrize("status", HEALTHY)
def test_starting_pod_has_not_failed(status: dict[str, Any]) -> None:
    assert pods.failure(pod(**status)) is None


@pytest.mark.parametrize(("status", "problem"), FAILED)
def test_failed_pod_has_a_problem_with_a_reason(status: dict[str, Any], problem: PodProblem) -> None:
    assert pods.failure(pod(**status)) == problem


@pytest.mark.parametrize(("status", "problem"), FAILED)
def test_failed_pod_is_not_ready_despite_its_condition(status: dict[str, Any], problem: PodProblem) -> None:
    assert not pods.is_ready(pod(**{**status, "conditions": [READY]}))


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        pytest.param({"conditions": [READY]}, True, id="ready"),
        pytest.param({"conditions": [condition("Ready", "False")]}, False, id="not ready"),
        pytest.param({"conditions": [condition("Ready", "Unknown")]}, False, id="node silent"),
        pytest.param({"conditions": [condition("ContainersReady", "True")]}, False, id="containers ready, Pod not"),
        pytest.param({"conditions": []}, False, id="says nothing"),
        pytest.param({"conditions": [READY], "terminating_since": ago(1)}, False, id="terminating"),
        pytest.param({"conditions": [READY], "phase": "Failed"}, False, id="phase Failed"),
        pytest.param({"conditions": [READY], "phase": "Succeeded"}, False, id="phase Succeeded"),
    ],
)
def test_pod_is_ready_by_its_condition_unless_it_has_failed_or_terminates(
    status: dict[str, Any], *, ready: bool
) -> None:
    view = pod(**status)

    assert pods.is_ready(view) == ready
    assert pods.ready_since(view) == (ago(100) if ready else None)


def test_ready_since_is_unknown_when_the_condition_does_not_say() -> None:
    assert pods.ready_since(pod(conditions=[condition("Ready", "True")])) is None


@pytest.mark.parametrize(
    ("status", "main", "terminal"),
    [
        pytest.param({"phase": "Failed"}, MAIN, True, id="failed"),
        pytest.param({"phase": "Succeeded"}, MAIN, True, id="succeeded"),
        pytest.param({"containers": [running(MAIN)]}, MAIN, False, id="running"),
        pytest.param({"containers": [waiting(MAIN, "ImagePullBackOff")]}, MAIN, False, id="the kubelet retries"),
        pytest.param({"containers": [ended(MAIN, 0), running("sidecar")]}, MAIN, True, id="a sidecar lives on"),
        pytest.param({"containers": [running(MAIN), ended("sidecar", 1)]}, MAIN, False, id="only a sidecar ended"),
        pytest.param({"containers": [ended("session-manager", 1)]}, "", False, id="restarted in place"),
        pytest.param({"phase": "Failed", "containers": [ended("session-manager", 1)]}, "", True, id="evicted"),
        pytest.param({"init": [ended(MAIN, 1)], "containers": []}, MAIN, False, id="init containers do not count"),
        pytest.param({"phase": "Pending"}, MAIN, False, id="pending"),
    ],
)
def test_pod_is_terminal_when_its_main_container_has_ended_for_good(
    status: dict[str, Any], main: str, *, terminal: bool
) -> None:
    assert pods.is_terminal(pod(**status), main) == terminal


@pytest.mark.parametrize(
    ("status", "started"),
    [
        pytest.param({}, False, id="nothing known"),
        pytest.param({"containers": [waiting(MAIN)]}, False, id="waiting"),
        pytest.param({"containers": [waiting(MAIN, "ImagePullBackOff")]}, False, id="cannot pull"),
        pytest.param({"containers": [waiting(MAIN, "CrashLoopBackOff", restarts=1)]}, True, id="ran before"),
        pytest.param({"containers": [running(MAIN)]}, True, id="running"),
        pytest.param({"containers": [ended(MAIN)]}, True, id="ended"),
        pytest.param({"init": [running("wait")], "containers": [waiting(MAIN)]}, False, id="init container runs"),
        pytest.param({"containers": [running("sidecar"), waiting(MAIN)]}, False, id="only a sidecar runs"),
    ],
)
def test_pod_has_started_when_its_main_container_has_run(status: dict[str, Any], *, started: bool) -> None:
    assert pods.has_started(pod(**status), MAIN) == started


@pytest.mark.parametrize(
    ("containers", "time"),
    [
        pytest.param([], None, id="none"),
        pytest.param([running(MAIN)], None, id="still running"),
        pytest.param([ended(MAIN)], None, id="no time given"),
        pytest.param(
            [ended(MAIN, finished_at=ago(9)), ended("sidecar", finished_at=ago(3))], ago(3), id="the last one"
        ),
        pytest.param([ended(MAIN, finished_at=later(9)), running("sidecar")], later(9), id="the sidecar lives on"),
    ],
)
def test_pod_finished_when_its_last_container_ended(containers: list[Any], time: datetime | None) -> None:
    assert pods.finished_at(pod(containers=containers)) == time


@pytest.mark.parametrize(
    ("problem", "text"),
    [(PodProblem("Evicted"), "Evicted"), (PodProblem("Evicted", "low on disk"), "Evicted: low on disk")],
)
def test_problem_has_its_reason_subject_and_cause_as_text(problem: PodProblem, text: str) -> None:
    assert str(problem) == text
