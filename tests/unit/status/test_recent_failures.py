"""Failures of the last ten minutes are told until they are over."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec
import pytest

from flamectl_operator.api.constants import EXECUTOR_MANAGER, OBJECT_CACHE, SESSION_MANAGER
from flamectl_operator.api.model import INT32_MAX
from flamectl_operator.api.status import FlameClusterStatus, Generations, find
from flamectl_operator.kube.pod_views import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    InitContainer,
    PodContainer,
    PodView,
    ResizePolicy,
)
from flamectl_operator.reconcile.stores.transform import bounded_pod
from tests.unit.builders import (
    NOW,
    ago,
    cached,
    desired,
    effective,
    ended,
    executor_pod,
    later,
    object_cache_pod,
    observed,
    replicas,
    running,
    session_manager,
    status_of,
    terminating,
    text,
)

SM = session_manager()
RAISE = "it was killed at its memory limit (raise spec.executorManager.resources.limits.memory)"
KILLED = f'OOMKilled: container "executor-manager": {RAISE}'


def _status(
    *pods: PodView,
    before: FlameClusterStatus | None = None,
    now: datetime = NOW,
    changes: dict[str, Any] | None = None,
    **effects: Any,
) -> FlameClusterStatus:
    spec = {**replicas(1), **(changes or {})}
    wanted = effective(spec, **effects)
    before = before or FlameClusterStatus(reason="Healthy", generations=Generations(reconciled=1))
    seen = (
        observed(SM, *pods, wanted=wanted)
        if SM.name not in {pod.name for pod in pods}
        else observed(*pods, wanted=wanted)
    )
    return status_of(seen, wanted, before, now)


def _killed(number: int, at: datetime = NOW, reason: str = "OOMKilled") -> PodView:
    containers = [ended(EXECUTOR_MANAGER, 137 if reason == "OOMKilled" else 101, reason, finished_at=at)]
    return executor_pod(number, "failed", containers=containers)


def _restarted(container: str, at: datetime, restarts: int = 1, reason: str = "OOMKilled") -> ContainerStatus:
    last = ContainerState(
        terminated=ContainerStateTerminated(137 if reason == "OOMKilled" else 101, reason, finished=text(at))
    )
    return msgspec.structs.replace(running(container, restarts=restarts), last_state=last)


def _degraded(status: FlameClusterStatus) -> tuple[str, str]:
    condition = find(status, "Degraded")
    assert condition is not None
    return condition.status, condition.reason


def test_killed_executor_is_told_after_its_replacement_is_ready_and_its_pod_is_gone() -> None:
    at = _status(_killed(0), executor_pod(1))
    gone = _status(executor_pod(1), before=at, now=later(300))

    for status in (at, gone):
        assert (status.state, status.reason) == ("Running", "OOMKilled")
        assert status.message == f"my-flame-executor-manager-0 failed at 12:00:00 UTC: {KILLED}"
        assert _degraded(status) == ("True", "OOMKilled")
        ready = find(status, "Ready")
        assert ready is not None
        assert (ready.status, ready.reason, ready.message) == ("True", "OOMKilled", "All wanted Pods are ready")


def test_session_manager_that_has_ended_and_cannot_be_deleted_is_not_said_to_start() -> None:
    status = _status(session_manager("failed", since=NOW), executor_pod(0))

    assert str(status.message).startswith("Session manager has ended; Session manager failed at ")


@pytest.mark.parametrize(
    ("restarts", "reason", "generation", "policy", "failed"),
    [
        (1, "Error", 2, "RestartContainer", False),
        (2, "Completed", 3, "RestartContainer", False),
        (2, "Error", 2, "RestartContainer", True),
        (1, "OOMKilled", 2, "RestartContainer", True),
        (1, "Error", 2, "NotRequired", True),
        (1, "Error", 1, "RestartContainer", True),
    ],
    ids=["resize", "two resizes", "restart after a resize", "killed", "no restart is asked for", "no resize"],
)
@pytest.mark.parametrize("container", [SESSION_MANAGER, "sidecar"])
def test_restart_that_a_resize_asks_for_is_no_failure(
    container: str, restarts: int, reason: str, generation: int, policy: str, *, failed: bool
) -> None:
    pod, policies = session_manager(containers=[_restarted(container, NOW, restarts, reason)]), (ResizePolicy(policy),)
    main = PodContainer(name=SESSION_MANAGER, resize_policy=policies if container == SESSION_MANAGER else ())
    sidecar = InitContainer(name="sidecar", resize_policy=policies if container != SESSION_MANAGER else ())
    spec = msgspec.structs.replace(pod.spec, containers=(main,), init_containers=(sidecar,))
    metadata = msgspec.structs.replace(pod.metadata, generation=generation)
    pod = bounded_pod(msgspec.structs.replace(pod, spec=spec, metadata=metadata))

    assert bool(_status(pod, executor_pod(0)).recent_failures) == failed


def test_failures_are_over_after_ten_minutes_and_the_cluster_is_healthy() -> None:
    at = _status(_killed(0), executor_pod(1))

    assert _status(executor_pod(1), before=at, now=later(599)).reason == "OOMKilled"
    over = _status(executor_pod(1), before=at, now=later(600))
    assert (over.reason, over.message, over.recent_failures) == ("Healthy", "All components healthy", ())
    assert _degraded(over) == ("False", "AsExpected")


def test_several_failures_tell_how_many_since_when_and_the_last_cause() -> None:
    first = _status(_killed(0, ago(120)), executor_pod(1), now=ago(120))
    status = _status(_killed(1, reason="Error"), _killed(2, ago(30)), executor_pod(3), before=first)

    assert status.message == (
        "Executors failed 3 times since 11:58:00 UTC, last my-flame-executor-manager-1: "
        'Error: container "executor-manager" ended with exit code 101 (see kubectl logs my-flame-executor-manager-1)'
    )
    assert status.reason == "PodsFailing"


def test_log_of_a_session_manager_that_was_replaced_is_not_advised() -> None:
    failed = session_manager(containers=[_restarted(SESSION_MANAGER, NOW, 1, "Error")])
    first = _status(failed, executor_pod(0))
    assert "(see kubectl logs my-flame-session-manager --previous)" in str(first.message)

    status = _status(SM, executor_pod(0), before=first, now=later(31))

    assert "it ended with exit code 101 (its log is gone with the Pod)" in str(status.message)


def test_session_manager_whose_node_restarted_is_told_as_such() -> None:
    last = ContainerState(terminated=ContainerStateTerminated(255, "Unknown", finished=text(NOW)))
    restarted = msgspec.structs.replace(running(SESSION_MANAGER, restarts=1), last_state=last)

    status = _status(session_manager(containers=[restarted]), executor_pod(0))

    assert status.message == (
        'Session manager failed at 12:00:00 UTC: ContainerStatusUnknown: container "session-manager": its node lost it, as by a '
        "restart of the node (see kubectl describe node node-1)"
    )


def test_failure_that_is_seen_again_is_counted_once_and_changes_nothing() -> None:
    pods = (_killed(0), executor_pod(1))
    first = _status(*pods)

    assert _status(*pods, before=first, now=later(20)) == first


def test_count_says_at_least_when_more_pods_failed_than_the_status_keeps() -> None:
    many = [_killed(number, ago(number)) for number in range(12)]
    first = _status(*many, executor_pod(12))

    assert len(first.recent_failures) == 10
    assert str(first.message).startswith(
        "Executors failed 10 or more times since 11:59:51 UTC, last my-flame-executor-manager-0: "
    )
    assert _status(*many, executor_pod(12), before=first, now=later(5)) == first


@pytest.mark.parametrize(
    ("container", "who", "field"),
    [
        (SESSION_MANAGER, "Session manager failed at 11:59:50 UTC: ", "spec.sessionManager"),
        (OBJECT_CACHE, "my-flame-object-cache-0 failed at 11:59:50 UTC: ", "spec.objectCache"),
    ],
)
def test_container_that_was_restarted_in_place_is_told(container: str, who: str, field: str) -> None:
    restarted = [_restarted(container, ago(10))]
    changes = cached()
    wanted = desired({**replicas(1), **changes})
    if container == SESSION_MANAGER:
        pods = [session_manager(wanted=wanted, containers=restarted), object_cache_pod(wanted=wanted)]
    else:
        pods = [session_manager(wanted=wanted), object_cache_pod(wanted=wanted, containers=restarted)]
    status = _status(*pods, executor_pod(0, wanted=wanted), changes=changes)

    cause = (
        f'OOMKilled: container "{container}": it was killed at its memory limit (raise {field}.resources.limits.memory)'
    )
    assert (status.reason, status.message) == ("OOMKilled", f"{who}{cause}")


@pytest.mark.parametrize(
    ("own", "field"),
    [({}, "podTemplate.spec.resources.limits.memory"), ({"limits": {"memory": "1Gi"}}, "resources.limits.memory")],
    ids=["only the whole Pod has a limit", "the container has one as well"],
)
@pytest.mark.parametrize("kind", ["sessionManager", "executorManager", "objectCache"])
def test_remedy_names_the_limit_at_which_the_container_was_killed(kind: str, own: dict[str, Any], field: str) -> None:
    limited = {"resources": own, "podTemplate": {"spec": {"resources": {"limits": {"memory": "2Gi"}}}}}
    changes = {"objectCache": {**cached()["objectCache"]}}
    changes[kind] = {**changes.get(kind, replicas(1).get(kind, {})), **limited}
    wanted = desired({**replicas(1), **changes})
    name = {"sessionManager": SESSION_MANAGER, "executorManager": EXECUTOR_MANAGER, "objectCache": OBJECT_CACHE}[kind]

    def containers(component: str) -> list[ContainerStatus]:
        if component != name:
            return [running(component)]
        return [ended(name, 137, "OOMKilled") if component == EXECUTOR_MANAGER else _restarted(name, ago(10))]

    status = _status(
        session_manager(wanted=wanted, containers=containers(SESSION_MANAGER)),
        object_cache_pod(wanted=wanted, containers=containers(OBJECT_CACHE)),
        executor_pod(0, wanted=wanted, containers=containers(EXECUTOR_MANAGER)),
        changes=changes,
    )

    assert f"(raise spec.{kind}.{field})" in str(status.message)


def test_each_restart_in_place_counts() -> None:
    first = _status(session_manager(containers=[_restarted(SESSION_MANAGER, ago(60))]), executor_pod(0), now=ago(59))
    second = session_manager(containers=[_restarted(SESSION_MANAGER, NOW, 2, "Error")])
    status = _status(second, executor_pod(0), before=first)

    assert status.message == (
        'Session manager failed 2 times since 11:59:00 UTC: Error: container "session-manager": it ended with exit code 101 '
        "(see kubectl logs my-flame-session-manager --previous)"
    )


def test_session_manager_that_fails_now_says_how_often() -> None:
    crashing = msgspec.structs.replace(_restarted(SESSION_MANAGER, NOW, 2, "Error"), state=_waiting())
    status = _status(session_manager(containers=[crashing]), executor_pod(0))

    assert status.message == (
        'Session manager failed at 12:00:00 UTC: CrashLoopBackOff: container "session-manager": it ended with exit code 101 '
        "(see kubectl logs my-flame-session-manager --previous)"
    )


def _waiting() -> ContainerState:
    return ContainerState(waiting=msgspec.convert({"reason": "CrashLoopBackOff"}, type(_reason())))


def _reason() -> Any:
    from flamectl_operator.kube.pod_views import ContainerStateWaiting  # noqa: PLC0415

    return ContainerStateWaiting()


@pytest.mark.parametrize(
    ("pods", "effects", "changes"),
    [
        pytest.param([executor_pod(1, revision="new")], {}, {"executorManager": {"image": "x:2"}}, id="a new revision"),
        pytest.param([], {"suspended": True}, {}, id="suspended"),
        pytest.param([], {}, replicas(0), id="none wanted"),
    ],
)
def test_failures_end_with_their_revision_and_without_wanted_pods(
    pods: Iterable[PodView], effects: dict[str, Any], changes: dict[str, Any]
) -> None:
    at = _status(_killed(0), executor_pod(1))

    assert _status(*pods, before=at, now=later(5), changes=changes, **effects).recent_failures == ()


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(terminating(_killed(0)), id="it is being deleted"),
        pytest.param(_killed(0, ago(600)), id="ten minutes ago"),
        pytest.param(_killed(0, later(600)), id="a clock that is ten minutes ahead"),
    ],
)
def test_end_of_an_executor_that_says_nothing_is_not_told(pod: PodView) -> None:
    assert _status(pod, executor_pod(1)).recent_failures == ()


def _exited(number: int) -> PodView:
    return executor_pod(number, "failed", containers=[ended(EXECUTOR_MANAGER, 1, "Error", finished_at=ago(5))])


def test_log_of_a_pod_that_is_gone_is_not_advised() -> None:
    first = _status(_exited(0))
    assert "(see kubectl logs my-flame-executor-manager-0)" in (first.recent_failures[0].message or "")

    later_on = _status(executor_pod(1), before=first)

    assert "kubectl logs" not in (later_on.message or "")
    assert (later_on.recent_failures[0].message or "").endswith(" (its log is gone with the Pod)")


def test_row_of_an_unhealthy_pod_names_its_own_log() -> None:
    status = _status(_exited(0), _exited(1), changes=replicas(2))

    rows = {each.name: each.message or "" for each in status.unhealthy_pods}
    assert len(rows) == 2
    assert all(message.endswith(f"(see kubectl logs {name})") for name, message in rows.items()), rows
    assert _status(_exited(0), _exited(1), before=status, changes=replicas(2)).unhealthy_pods == status.unhealthy_pods


def test_number_of_failures_stays_within_the_range_of_the_status() -> None:
    at = _status(_killed(0, ago(60)))
    [failure] = at.recent_failures
    most = at.model_copy(update={"recent_failures": (failure.model_copy(update={"count": INT32_MAX}),)})

    [after] = _status(_killed(0), before=most).recent_failures

    assert (after.count, after.last) == (INT32_MAX, NOW)
