"""`state` and `message`."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.runtime.outcome import Outcome, blocked, wait
from flamectl_operator.runtime.text import MAX_MESSAGE_LENGTH
from flamectl_operator.status.compute import StatusInput, compute_status
from flamectl_operator.status.health import ALL_HEALTHY, Health, ValidSpecHealth, present_state
from flamectl_operator.status.pod_problems import group_problems
from tests.unit.builders import (
    NOW,
    ago,
    cluster_plan,
    condition,
    effective,
    ended,
    executor_pod,
    later,
    merged,
    observed,
    pull_failed,
    replicas,
    service_views,
    session_manager,
    terminating,
    waiting,
)

SM = session_manager()
STARTING = session_manager("starting", since=ago(5))
NO_NODE = "0/20 nodes are available: Insufficient cpu."
TWO_READY = [executor_pod(0), executor_pod(1)]


def _assess(count: int, *pods: PodView, outcomes: list[Outcome] | None = None, **changes: Any) -> Health:
    wanted = effective(merged(replicas(count), changes))
    return _health(observed(*pods, wanted=wanted), wanted, outcomes=outcomes or [])


def _health(seen: ObservedCluster, wanted: EffectiveSpec, **options: Any) -> Health:
    health = ValidSpecHealth(cluster_plan(seen, wanted), group_problems(seen, (), NOW), **options).compute()
    assert present_state(seen, wanted.group) == health.state
    return health


# --- state -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "pods", "state"),
    [
        pytest.param(3, [], "Pending", id="nothing there"),
        pytest.param(3, [STARTING], "Pending", id="session manager not ready"),
        pytest.param(3, [STARTING, *TWO_READY], "Pending", id="session manager not ready, executors are"),
        pytest.param(3, [terminating(SM), *TWO_READY], "Pending", id="session manager terminating"),
        pytest.param(3, [session_manager(owner=None), *TWO_READY], "Pending", id="somebody else's session manager"),
        pytest.param(3, [SM], "Pending", id="no executor there"),
        pytest.param(3, [SM, executor_pod(0, "starting")], "Pending", id="no executor ready"),
        pytest.param(3, [SM, terminating(executor_pod(0))], "Pending", id="the only executor terminates"),
        pytest.param(3, [SM, executor_pod(0)], "Running", id="one executor ready"),
        pytest.param(3, [SM, executor_pod(0), executor_pod(1, "crashing")], "Running", id="one ready, one failed"),
        pytest.param(0, [SM], "Running", id="none wanted"),
        pytest.param(0, [SM, executor_pod(0, "crashing")], "Running", id="none wanted, one still there and failing"),
        pytest.param(0, [STARTING], "Pending", id="none wanted, session manager not ready"),
        pytest.param(3, [session_manager("crashing")], "Failed", id="session manager cannot pull"),
        pytest.param(3, [session_manager("failed"), *TWO_READY], "Failed", id="session manager evicted"),
        pytest.param(
            3, [session_manager(containers=[ended("session-manager", 0, "Completed")]), *TWO_READY], "Failed",
            id="session manager ended with 0",
        ),
        pytest.param(0, [session_manager("crashing")], "Failed", id="session manager failed, none wanted"),
        pytest.param(3, [terminating(session_manager("crashing"))], "Pending", id="failed, but on its way out"),
        pytest.param(2, [SM, executor_pod(0, "crashing"), executor_pod(1, "failed")], "Failed", id="all executors failed"),
        pytest.param(2, [SM, executor_pod(0, "failed"), executor_pod(1, "starting")], "Pending", id="a replacement starts"),
        pytest.param(2, [SM, executor_pod(0, "failed"), executor_pod(1, "unscheduled")], "Pending", id="a replacement waits"),
        pytest.param(1, [SM, terminating(executor_pod(0, "crashing"))], "Pending", id="failed executor on its way out"),
        pytest.param(2, [SM, executor_pod(0, "unschedulable")], "Pending", id="no node is no failure"),
        pytest.param(1, [STARTING, executor_pod(0, "crashing")], "Failed", id="all executors failed, session manager starts"),
        pytest.param(1, [SM, executor_pod(0, "crashing", owner=None)], "Pending", id="somebody else's executor failed"),
    ],
)  # fmt: skip
def test_state_follows_from_the_pods(count: int, pods: list[PodView], state: str) -> None:
    assert _assess(count, *pods).state == state


# --- message -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "pods", "message"),
    [
        pytest.param(2, [SM, *TWO_READY], ALL_HEALTHY, id="all is well"),
        pytest.param(0, [SM], ALL_HEALTHY, id="none wanted"),
        pytest.param(3, [SM, *TWO_READY, executor_pod(2, "crashing")],
            f"2 of 3 executors ready; my-flame-executor-manager-2: {pull_failed()}", id="example of the documentation"),
        pytest.param(0, [session_manager("unschedulable")], f"Session manager unschedulable: {NO_NODE}",
            id="second example of the documentation"),
        pytest.param(2, [], "Session manager Pod does not exist yet; 0 of 2 executors ready", id="nothing there"),
        pytest.param(0, [STARTING], "Session manager is starting", id="starting"),
        pytest.param(0, [terminating(SM)], "Session manager is terminating", id="terminating"),
        pytest.param(0, [session_manager("crashing")], f"Session manager failed: {pull_failed('session-manager')}",
            id="failed"),
        pytest.param(2, [SM, executor_pod(0, "unschedulable"), executor_pod(1)],
            f"1 of 2 executors ready; my-flame-executor-manager-0: Unschedulable: {NO_NODE}", id="no node"),
        pytest.param(2, [SM, *TWO_READY, executor_pod(2, "failed")], ALL_HEALTHY,
            id="one that failed is only kept for its logs"),
        pytest.param(1, [SM, *TWO_READY], "The operator removes executors", id="one too many"),
        pytest.param(1, [SM, executor_pod(0, revision="old")], "The operator replaces Pods that differ from the spec",
            id="stale"),
        pytest.param(2, [SM, executor_pod(0, "crashing"), executor_pod(1, "crashing")],
            f"0 of 2 executors ready; my-flame-executor-manager-0, -1: {pull_failed()}", id="two alike"),
    ],
)  # fmt: skip
def test_message_describes_the_pods(count: int, pods: list[PodView], message: str) -> None:
    assert _assess(count, *pods).message == message


@pytest.mark.parametrize(
    ("pods", "changes"),
    [
        pytest.param([SM, executor_pod(0, revision="old"), executor_pod(1)], {}, id="a stale executor"),
        pytest.param([session_manager(revision="old"), *TWO_READY], {}, id="a stale session manager"),
        pytest.param(
            [SM, executor_pod(0, incarnation="earlier-uid.0"), executor_pod(1)], {}, id="of an earlier session manager"
        ),
        pytest.param([SM, *TWO_READY, executor_pod(2)], {}, id="one too many"),
        pytest.param([SM, *TWO_READY, executor_pod(2, "crashing")], {}, id="one too many fails"),
    ],
)
def test_cluster_with_work_left_is_not_healthy(pods: list[PodView], changes: dict[str, Any]) -> None:
    health = _assess(2, *pods, **changes)

    assert not health.healthy
    assert health.message != ALL_HEALTHY


def test_cluster_without_services_or_config_map_is_not_healthy() -> None:
    wanted = effective(replicas(2))
    for changes in ({"services": service_views()[:1]}, {"config_map": None}):
        health = _health(observed(SM, *TWO_READY, wanted=wanted, **changes), wanted)
        assert not health.healthy
        assert health.state == "Running"


def test_cluster_with_a_terminating_pod_is_healthy() -> None:
    assert _assess(2, SM, *TWO_READY, terminating(executor_pod(2))).healthy


# --- What the steps reported -------------------------------------------------------------------------------------------


def test_degraded_cluster_is_not_healthy_and_gives_the_cause_first() -> None:
    issues = [wait("BackOff", "next attempt later"), blocked("QuotaExceeded", "exceeded quota: pods")]
    health = _assess(3, SM, *TWO_READY, executor_pod(2, "crashing"), outcomes=issues)

    assert not health.healthy
    assert health.message == (
        f"exceeded quota: pods; 2 of 3 executors ready; "
        f"my-flame-executor-manager-2: {pull_failed()}; next attempt later"
    )


def test_degraded_cluster_with_ready_pods_is_running_but_not_healthy() -> None:
    health = _assess(2, SM, *TWO_READY, outcomes=[blocked("NameConflict", "taken")])

    assert (health.state, health.healthy, health.message) == ("Running", False, "taken")


def test_equal_messages_appear_once() -> None:
    issues = [wait("A", "the same"), wait("B", "the same"), wait("C")]

    assert _assess(0, STARTING, outcomes=issues).message == "Session manager is starting; the same"


def test_wait_without_a_message_keeps_the_cluster_healthy() -> None:
    assert _assess(2, SM, *TWO_READY, outcomes=[wait("Stable")]).healthy


def test_long_message_is_cut() -> None:
    health = _assess(0, STARTING, outcomes=[wait("A", "word " * 1000)])

    assert len(health.message) <= MAX_MESSAGE_LENGTH
    assert health.message.endswith(" word...")


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([session_manager(containers=[ended("session-manager", 1, "Error", "panic!\nat main.rs:3\n")])],
            id="log"),
        pytest.param([SM, executor_pod(0, "crashing", containers=[waiting("executor-manager", "ErrImagePull", "a\nb")])],
            id="kubelet"),
        pytest.param(
            [
                session_manager(
                    "unscheduled", conditions=[condition("PodScheduled", "False", "Unschedulable", "a\r\nb")]
                )
            ],
            id="scheduler",
        ),
    ],
)  # fmt: skip
def test_message_with_line_breaks_is_one_line(pods: list[PodView]) -> None:
    health = _assess(1, *pods, outcomes=[blocked("Forbidden", 'admission webhook denied:\n\n  "no"')])

    assert len(health.message.splitlines()) == 1


# --- Precedence --------------------------------------------------------------------------------------------------------


def test_invalid_spec_comes_before_everything_else() -> None:
    problem = "spec.executorManager.replicas: must be 0 or more"
    given = StatusInput(FlameClusterStatus(), 4, observed(SM, *TWO_READY), None, next_id=9, problem=problem)
    status = compute_status(given, NOW)

    assert status.state == "Failed"
    assert status.message == f"Invalid spec: {problem}"
    assert {each.type: each.status for each in status.conditions}["Ready"] == "False"


@pytest.mark.parametrize(
    ("pods", "suspended", "state", "words"),
    [
        pytest.param([SM, executor_pod(0)], False, "Running", ALL_HEALTHY, id="healthy"),
        pytest.param([], False, "Pending", "Session manager Pod does not exist yet", id="nothing there"),
        pytest.param([session_manager("crashing")], False, "Failed", "Session manager failed", id="failed"),
        pytest.param([], True, "Pending", "Suspended", id="suspended"),
        pytest.param([SM], True, "Pending", "1 Pod left", id="suspending"),
    ],
)
def test_paused_cluster_reports_the_state_of_its_pods(
    pods: list[PodView], state: str, words: str, *, suspended: bool
) -> None:
    wanted = effective({"paused": True}, suspended=suspended)
    health = _health(observed(*pods, wanted=wanted), wanted)

    assert health.state == state
    assert health.message.startswith("Paused")
    assert words in health.message


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        ([], "Suspended: no Pods are wanted"),
        ([terminating(SM)], "Suspending: 1 Pod left"),
        ([session_manager("crashing"), executor_pod(0, "failed")], "Suspending: 2 Pods left"),
    ],
    ids=["done", "almost", "with failed Pods"],
)
def test_suspended_cluster_is_pending(pods: list[PodView], message: str) -> None:
    wanted = effective(suspended=True)
    health = _health(observed(*pods, wanted=wanted), wanted)

    assert (health.state, health.message, health.healthy) == ("Pending", message, False)


def _long(view_: PodView, grace: int, *, ends: datetime) -> PodView:
    metadata = msgspec.structs.replace(view_.metadata, deletion_timestamp=ends, deletion_grace_period_seconds=grace)
    return msgspec.structs.replace(view_, metadata=metadata)


def test_suspension_names_the_pods_with_long_grace_periods_and_the_time_of_their_end() -> None:
    wanted = effective(suspended=True)
    many = [_long(executor_pod(number), 600, ends=later(590 + number)) for number in range(4)]
    two = [_long(SM, 1800, ends=later(1790)), many[0], terminating(executor_pod(1))]

    assert _health(observed(*two, wanted=wanted), wanted).message == (
        "Suspending: 3 Pods left; the grace period of my-flame-session-manager, my-flame-executor-manager-0"
        " ends at 2025-06-01 12:29:50 UTC"
    )
    assert _health(observed(*many, wanted=wanted), wanted).message == (
        "Suspending: 4 Pods left; the grace period of my-flame-executor-manager-3, my-flame-executor-manager-2,"
        " my-flame-executor-manager-1 and 1 more ends at 2025-06-01 12:09:53 UTC"
    )


def test_delayed_suspension_gives_its_reason() -> None:
    wanted = effective(suspended=True)
    held = wait("Terminating", 'waiting for Pod "x" to terminate (held by finalizer example.com/slow)')
    health = _health(observed(terminating(SM), wanted=wanted), wanted, outcomes=[held])

    assert health.message == f"Suspending: 1 Pod left; {held.message}"
