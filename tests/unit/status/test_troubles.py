"""Pods that are not well, in groups, and how often that is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from flamectl_operator.api.constants import EXECUTOR_MANAGER, WAIT_CONTAINER
from flamectl_operator.api.status import FlameClusterStatus, Generations, find
from flamectl_operator.kube.views import ContainerState, ContainerStateRunning
from flamectl_operator.observed.pods import READY_PATIENCE
from flamectl_operator.status.compute import StatusInput, compute_status
from flamectl_operator.status.troubles import patience_ends
from tests.unit.builders import (
    NOW,
    ago,
    condition,
    effective,
    ended,
    executor_pod,
    later,
    observed,
    replicas,
    running,
    session_manager,
    text,
    waiting,
)

if TYPE_CHECKING:
    from datetime import datetime

    from flamectl_operator.kube.views import ContainerStatus, PodView

SM = session_manager()
IMAGE = "example.com/executor:v1"
NOT_FOUND = f'ImagePullFailed: image "{IMAGE}": not found (correct spec.executorManager.image)'


def _status(
    *pods: PodView, count: int = 5, before: FlameClusterStatus | None = None, now: datetime = NOW
) -> FlameClusterStatus:
    wanted = effective(replicas(count))
    before = before or FlameClusterStatus(reason="Healthy", generations=Generations(reconciled=1))
    return compute_status(StatusInput(before, 1, observed(*pods, wanted=wanted), wanted, next_id=9, outcomes=()), now)


def _pulling(number: int, reason: str = "ErrImagePull", message: str = f"{IMAGE}: not found") -> PodView:
    status = msgspec.structs.replace(waiting(EXECUTOR_MANAGER, reason, message), image=IMAGE)
    return executor_pod(number, "crashing", containers=[status])


def _degraded(status: FlameClusterStatus) -> str:
    found = find(status, "Degraded")
    assert found is not None
    return found.message if found.status == "True" else ""


# --- Groups ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "who"),
    [
        (1, "my-flame-executor-manager-0"),
        (3, "my-flame-executor-manager-0, my-flame-executor-manager-1, my-flame-executor-manager-2"),
        (5, "5 executors"),
    ],
)
def test_executors_with_equal_trouble_share_a_message(count: int, who: str) -> None:
    status = _status(SM, *map(_pulling, range(count)))

    assert (status.reason, status.message) == ("ImagePullFailed", f"0 of 5 executors ready; {who}: {NOT_FOUND}")
    assert _degraded(status) == f"{who}: {NOT_FOUND}"


def test_most_important_group_comes_first() -> None:
    status = _status(SM, executor_pod(0, "unschedulable"), executor_pod(1, "half"), _pulling(2))

    assert status.reason == "ImagePullFailed"
    said = _degraded(status)
    assert said.index("ImagePullFailed") < said.index("Error:") < said.index("Unschedulable")


def test_executor_out_of_memory_is_reported_as_such() -> None:
    killed = executor_pod(0, phase="Failed", containers=[ended(EXECUTOR_MANAGER, 137, "OOMKilled")])

    assert _status(SM, killed).reason == "OOMKilled"


# --- Wording -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(
            [_pulling(0), _pulling(1)],
            [_pulling(0, "ImagePullBackOff", f'Back-off pulling image "{IMAGE}"'), _pulling(1)],
            id="one waits",
        ),
        pytest.param(
            [_pulling(0), _pulling(1)],
            [_pulling(each, "ImagePullBackOff", f'Back-off pulling image "{IMAGE}"') for each in (0, 1)],
            id="both wait",
        ),
        pytest.param(
            [_pulling(0, message="odd thing at port 39482")],
            [_pulling(0, message="odd thing at port 40113")],
            id="another port",
        ),
        pytest.param(
            [_pulling(0), _pulling(1, message="dial tcp: i/o timeout")],
            [_pulling(0, message="dial tcp: i/o timeout"), _pulling(1)],
            id="another one of the known causes",
        ),
        pytest.param(
            [
                executor_pod(
                    0, containers=[waiting(EXECUTOR_MANAGER, "CreateContainerError", 'reserved for "9b4c2f70a1"')]
                )
            ],
            [
                executor_pod(
                    0, containers=[waiting(EXECUTOR_MANAGER, "CreateContainerError", 'reserved for "0f6d8837bc"')]
                )
            ],
            id="another id",
        ),
    ],
)
def test_changed_wording_of_a_trouble_keeps_the_status(first: list[PodView], then: list[PodView]) -> None:
    before = _status(SM, *first)
    after = _status(SM, *then, before=before)

    assert _status(SM, *then, before=after).to_wire() == after.to_wire() == before.to_wire()


def test_changed_cause_of_a_trouble_changes_the_status() -> None:
    before = _status(SM, _pulling(0))

    assert "did not answer in time" in str(_status(SM, _pulling(0, message="i/o timeout"), before=before).message)


def test_group_of_failed_executors_stays_degraded_while_they_restart() -> None:
    before = _status(SM, *map(_pulling, range(5)))
    after = _status(SM, *(executor_pod(each, "pending") for each in range(5)), before=before)

    assert (after.reason, _degraded(after)) == ("ImagePullFailed", _degraded(before))


# --- A node that does not report ---------------------------------------------------------------------------------------

SILENT = [condition("Ready", "False", since=ago(70)), condition("ContainersReady", "True", since=ago(900))]
SINCE = "it has not reported since 2025-06-01 11:58:50 UTC"


@pytest.mark.parametrize(
    ("pods", "state", "message"),
    [
        pytest.param(
            [session_manager(conditions=SILENT), executor_pod(0)], "Failed",
            f'Session manager is on a node that does not report: NodeNotReporting: node "node-1": {SINCE}', id="session manager",
        ),
        pytest.param(
            [SM, executor_pod(0, conditions=SILENT)], "Failed",
            f'0 of 1 executors ready; my-flame-executor-manager-0: NodeNotReporting: node "node-1": {SINCE}', id="all executors",
        ),
    ],
)  # fmt: skip
def test_node_that_stops_reporting_is_named_with_the_time(pods: list[PodView], state: str, message: str) -> None:
    status = _status(*pods, count=1)

    assert (status.state, status.reason, status.message) == (state, "NodeNotReporting", message)
    assert status.unhealthy_pods[0].reason == "NodeNotReporting"


def test_cluster_with_one_executor_on_a_silent_node_is_running() -> None:
    status = _status(SM, executor_pod(0), executor_pod(1, conditions=SILENT), count=2)

    assert (status.state, status.reason) == ("Running", "NodeNotReporting")


@pytest.mark.parametrize(
    "conditions",
    [
        [condition("Ready", "False", "ReadinessGatesNotReady", since=ago(70)), SILENT[1]],
        [condition("Ready", "False", "ContainersNotReady", since=ago(70)), condition("ContainersReady", "False")],
        [condition("Ready", "False", since=ago(70))],
    ],
    ids=["a readiness gate", "containers are not ready", "not known"],
)
def test_unready_pod_on_a_reporting_node_names_no_node(conditions: list[Any]) -> None:
    assert _status(SM, executor_pod(0, conditions=conditions), count=1).reason != "NodeNotReporting"


# --- Pods that take long -----------------------------------------------------------------------------------------------


def _init(name: str, seconds: float) -> ContainerStatus:
    state = ContainerState(running=ContainerStateRunning(text(ago(seconds))))
    return msgspec.structs.replace(running(name), state=state)


def _in_init(number: int, name: str, seconds: float) -> PodView:
    return executor_pod(number, "waiting", init=[running("sidecar"), _init(name, seconds)])


def test_slow_init_container_is_named_after_the_patience() -> None:
    pods = [_in_init(each, "fetch-model", 20) for each in range(5)]
    seen = observed(SM, *pods)
    before, after = _status(SM, *pods), _status(SM, *pods, now=later(10))

    assert before.reason == "Recovering"
    assert patience_ends(seen, NOW) == later(10)
    assert patience_ends(seen, later(10)) is None
    assert after.reason == "InitContainerWaiting"
    said = '5 executors: InitContainerWaiting: init container "fetch-model": it has run since 2025-06-01 11:59:40 UTC'
    assert after.message == f"0 of 5 executors ready; {said}"
    assert _degraded(after) == ""


def test_waiting_init_container_is_named_only_while_the_session_manager_is_ready() -> None:
    pod = _in_init(0, WAIT_CONTAINER, READY_PATIENCE)

    assert "no answer from port 8081 of the session manager, which is ready" in str(_status(SM, pod).message)
    starting = session_manager("starting", since=ago(5))
    assert "InitContainer" not in str(_status(starting, pod).message)
    assert patience_ends(observed(starting, pod), ago(10)) is not None, "the session manager's own"


def test_pod_without_containers_is_reported() -> None:
    conditions = [condition("PodScheduled", "True", since=ago(40))]
    status = _status(SM, executor_pod(0, "pending", conditions=conditions), count=1)

    said = 'ContainerCreating: node "node-1": it has prepared images and volumes since 2025-06-01 11:59:20 UTC'
    assert status.message == f"0 of 1 executors ready; my-flame-executor-manager-0: {said}"


def test_running_pod_that_stays_unready_is_reported() -> None:
    status = _status(session_manager("starting", since=ago(40)), count=0)

    assert status.reason == "PodNotReady"
    assert status.message == (
        "Session manager is starting: PodNotReady: its containers run, but it has not been ready since 2025-06-01 11:59:20 UTC"
    )


def test_slow_pods_are_listed_after_failing_pods() -> None:
    status = _status(SM, _in_init(0, "fetch", 99), *(_pulling(number) for number in range(1, 13)))

    assert {each.reason for each in status.unhealthy_pods} == {"ImagePullFailed"}
