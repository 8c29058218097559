"""The conditions of a FlameCluster, and the events about their changes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import pytest

from flamectl_operator.api.constants import SESSION_MANAGER
from flamectl_operator.api.status import (
    Condition,
    ConditionType,
    FlameClusterStatus,
    Generations,
    UnhealthyPod,
    suspension_begun,
)
from flamectl_operator.kube.pod_views import ContainerStatus, PodView
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff
from flamectl_operator.runtime.outcome import Outcome, blocked, wait
from flamectl_operator.status.conditions import (
    ConditionWriter,
    ValidSpecConditions,
    carried_over,
    invalid_spec_conditions,
)
from flamectl_operator.status.events import condition_events, first_ready
from flamectl_operator.status.health import ValidSpecHealth
from flamectl_operator.status.pod_problems import group_problems
from tests.unit.builders import (
    NOW,
    ago,
    cluster_plan,
    effective,
    executor_pod,
    later,
    merged,
    observed,
    pull_failed,
    running,
    session_manager,
    terminating,
    waiting,
)

WELL = (session_manager(), executor_pod(0))
NOTHING_SAID = FlameClusterStatus()
WRITER = ConditionWriter((), 1, NOW)


class Said(NamedTuple):
    """A condition without its times."""

    status: bool
    reason: str
    message: str


def _judge(
    *pods: PodView,
    suspended: bool = False,
    paused: bool = False,
    issues: tuple[Outcome, ...] = (),
    before: FlameClusterStatus = NOTHING_SAID,
    failures: tuple[int, int] = (0, 0),
    spec: Mapping[str, Any] | None = None,
    **found: Any,
) -> dict[str, Said]:
    manager, executors = (ReplacementBackoff("current", count, later(10) if count > 1 else None) for count in failures)
    wanted = effective(
        merged(spec or {}, {"paused": paused}),
        suspended=suspended,
        session_manager_backoff=manager,
        executor_backoff=executors,
    )
    seen = observed(*pods, wanted=wanted, **found)
    plan = cluster_plan(seen, wanted)
    health = ValidSpecHealth(plan, group_problems(seen, (), NOW), outcomes=issues).compute()
    facts = ValidSpecConditions(WRITER, plan, health, before, issues, wanted.desired.warnings)
    conditions = facts.compute()
    return {each.type: Said(each.status == "True", each.reason, each.message) for each in conditions}


def _condition(
    kind: str = "Ready",
    status: Any = "True",
    reason: str = "Reason",
    message: str = "",
    *,
    generation: int = 1,
    since: datetime = NOW,
) -> Condition:
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation,
        last_transition_time=since,
    )


def _status(*given: Condition) -> FlameClusterStatus:
    return FlameClusterStatus(conditions=given)


def _failed(reason: str, said: str) -> FlameClusterStatus:
    """Return the status after a Pod failed: its name, the reason and the message, as `said`."""
    name, why, message = said.split(": ", 2)
    failed = UnhealthyPod(name=name, reason=why, message=message)
    return FlameClusterStatus(conditions=(_condition("Degraded", "True", reason, said),), unhealthy_pods=(failed,))


# --- Verdicts ----------------------------------------------------------------------------------------------------------


def test_healthy_cluster_has_all_conditions() -> None:
    assert {kind: (each.status, each.reason) for kind, each in _judge(*WELL).items()} == {
        "Ready": (True, "Healthy"),
        "Progressing": (False, "Complete"),
        "ConfigValid": (True, "ValidWithWarnings"),
        "Degraded": (False, "AsExpected"),
        "Suspended": (False, "NotSuspended"),
        "Paused": (False, "NotPaused"),
    }


def test_spec_without_warnings_is_valid() -> None:
    limits = {"executorManager": {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}}
    found = _judge(*WELL, spec=limits)["ConfigValid"]

    assert (found.status, found.reason, found.message) == (True, "Valid", "The spec is valid")


def test_warnings_are_in_the_message_of_a_valid_spec() -> None:
    found = _judge(*WELL)["ConfigValid"]

    assert found.status
    assert "spec.executorManager.resources.limits.memory: is not set" in found.message


def test_invalid_spec_is_the_reason_of_every_condition() -> None:
    found = invalid_spec_conditions(WRITER, "Invalid spec: spec.x: wrong")
    verdicts = {each.type: each for each in found}

    assert {kind: each.status for kind, each in verdicts.items()} == {
        "Ready": "False",
        "Progressing": "False",
        "ConfigValid": "False",
        "Degraded": "True",
    }
    assert {each.reason for each in verdicts.values()} == {"InvalidSpec"}
    assert {each.message for each in verdicts.values()} == {"Invalid spec: spec.x: wrong"}


@pytest.mark.parametrize("suspended", [False, True])
@pytest.mark.parametrize("pods", [(), WELL, (session_manager("crashing"),)], ids=["none", "well", "crashing"])
def test_condition_always_has_a_message(pods: tuple[PodView, ...], *, suspended: bool) -> None:
    for paused in (False, True):
        assert all(said.message for said in _judge(*pods, suspended=suspended, paused=paused).values())


@pytest.mark.parametrize(
    ("pods", "found", "reason"),
    [
        pytest.param(WELL, {"config_map": None}, "UpdatingConfigMap", id="ConfigMap"),
        pytest.param(WELL, {"services": ()}, "UpdatingServices", id="Services"),
        pytest.param((), {}, "CreatingSessionManager", id="no session manager"),
        pytest.param((terminating(session_manager()),), {}, "ReplacingSessionManager", id="session manager terminates"),
        pytest.param((session_manager("failed"),), {}, "ReplacingSessionManager", id="session manager failed"),
        pytest.param((session_manager(),), {}, "CreatingExecutors", id="too few"),
        pytest.param((*WELL, executor_pod(1)), {}, "RemovingExecutors", id="too many"),
        pytest.param((session_manager(), executor_pod(0, revision="old")), {}, "ReplacingStalePods", id="stale"),
    ],
)
def test_unfinished_work_is_the_reason_of_progressing(
    pods: tuple[PodView, ...], found: dict[str, Any], reason: str
) -> None:
    progressing = _judge(*pods, **found)["Progressing"]

    assert (progressing.status, progressing.reason) == (True, reason)


@pytest.mark.parametrize(
    ("pods", "suspended", "status", "reason"),
    [
        pytest.param(
            (session_manager("starting"), executor_pod(0, "waiting")), False, True, "WaitingForPods", id="starting"
        ),
        pytest.param((session_manager(), executor_pod(0, "crashing")), False, True, "WaitingForPods", id="crashing"),
        pytest.param((*WELL, executor_pod(1, "failed")), False, False, "Complete", id="kept for its logs"),
        pytest.param((), True, False, "Suspended", id="suspended"),
        pytest.param(WELL, True, True, "Suspending", id="suspending"),
    ],
)
def test_waiting_for_pods_is_progressing_unless_they_are_terminal(
    pods: tuple[PodView, ...], reason: str, *, suspended: bool, status: bool
) -> None:
    progressing = _judge(*pods, suspended=suspended)["Progressing"]

    assert (progressing.status, progressing.reason) == (status, reason)


NO_NODE = "my-flame-executor-manager-0: Unschedulable: 0/20 nodes are available: Insufficient cpu."


@pytest.mark.parametrize(
    ("pods", "issues", "reason", "message"),
    [
        pytest.param((session_manager(), executor_pod(0, "crashing")), (), "ImagePullFailed",
            f"my-flame-executor-manager-0: {pull_failed()}", id="a failing Pod"),
        pytest.param((session_manager(), executor_pod(0, "unschedulable")), (), "Unschedulable", NO_NODE, id="no node"),
        pytest.param((session_manager("crashing"), executor_pod(0, "unschedulable")), (), "ImagePullFailed",
            f"my-flame-session-manager: {pull_failed('session-manager')}; {NO_NODE}",
            id="failing comes before no node"),
        pytest.param((session_manager(), executor_pod(0, "crashing")), (blocked("QuotaExceeded", "no"),),
            "QuotaExceeded", "no", id="what was refused comes first"),
        pytest.param(WELL, (wait("BackOff", "later"), blocked("NameConflict", "one"), blocked("QuotaExceeded", "two")),
            "QuotaExceeded", "two; one", id="all that was refused, the most important first"),
    ],
)  # fmt: skip
def test_failure_or_refusal_makes_a_cluster_degraded(
    pods: tuple[PodView, ...], issues: tuple[Outcome, ...], reason: str, message: str
) -> None:
    degraded = _judge(*pods, issues=issues)["Degraded"]

    assert (degraded.status, degraded.reason, degraded.message) == (True, reason, message)


def test_wait_does_not_degrade() -> None:
    assert not _judge(*WELL, issues=(wait("BackOff", "later"),))["Degraded"].status


MANAGER_ENDED = "my-flame-session-manager: Error: exit code 1"
EXECUTOR_ENDED = "my-flame-executor-manager-0: Error: exit code 1"


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        pytest.param((session_manager("starting"), executor_pod(0)), MANAGER_ENDED, id="session manager"),
        pytest.param((session_manager(), executor_pod(0, "waiting")), EXECUTOR_ENDED, id="executor"),
    ],
)
def test_restarted_container_stays_degraded_until_it_is_ready(pods: tuple[PodView, ...], said: str) -> None:
    before = _failed("PodsFailing", said)
    degraded = _judge(*pods, before=before)["Degraded"]
    assert (degraded.status, degraded.message) == (True, said)

    assert not _judge(*WELL, before=before)["Degraded"].status
    assert not _judge(*pods, before=_status(_condition("Degraded", "False", "AsExpected")))["Degraded"].status


IMAGE = "example.com/flame:2"
NO_IMAGE = f'my-flame-session-manager: ImagePullFailed: image "{IMAGE}": not found (correct spec.sessionManager.image)'
NO_SECRET = 'my-flame-session-manager: CreateContainerConfigError: container "session-manager": secret "x" not found'


def _of(image: str, status: ContainerStatus) -> ContainerStatus:
    return msgspec.structs.replace(status, image=image, ready=False)


@pytest.mark.parametrize(
    ("said", "found", "kept"),
    [
        pytest.param(NO_IMAGE, {"containers": [_of(IMAGE, running(SESSION_MANAGER))]}, False, id="its image is there"),
        pytest.param(NO_IMAGE, {"containers": [_of(f"mirror.{IMAGE}", running(SESSION_MANAGER))]}, False,
            id="under a longer name"),
        pytest.param(NO_IMAGE, {"containers": [_of(IMAGE, waiting(SESSION_MANAGER))]}, True, id="its image is pulled again"),
        pytest.param(NO_SECRET, {"containers": [running(SESSION_MANAGER)]}, False, id="its Secret is there"),
        pytest.param(NO_SECRET, {"containers": [waiting(SESSION_MANAGER)]}, True, id="it is tried again"),
        pytest.param(NO_SECRET, {"containers": [running(SESSION_MANAGER, restarts=1)]}, True, id="it has ended before"),
        pytest.param(NO_SECRET, {}, True, id="nothing is known"),
        pytest.param(NO_IMAGE,
            {"init": [_of(IMAGE, running("fetch"))], "containers": [_of("other", waiting(SESSION_MANAGER))]}, False,
            id="the image of an init container is there"),
    ],
)  # fmt: skip
def test_failed_start_is_over_when_the_container_runs(said: str, found: dict[str, Any], *, kept: bool) -> None:
    before = _failed("ImagePullFailed" if said == NO_IMAGE else "PodsFailing", said)
    manager = session_manager("starting", **{"containers": (), **found})
    degraded = _judge(manager, executor_pod(0, "waiting"), before=before)["Degraded"]

    assert degraded.status is kept


def test_unschedulable_replacement_is_reported_before_earlier_failures() -> None:
    pods = (session_manager(), executor_pod(0, "unschedulable"))

    before = _failed("PodsFailing", EXECUTOR_ENDED)
    assert _judge(*pods, failures=(0, 2), before=before)["Degraded"].reason == "Unschedulable"


FAILING = _condition("Degraded", "True", "PodsFailing", MANAGER_ENDED)


@pytest.mark.parametrize(
    ("pods", "failures", "suspended", "said"),
    [
        pytest.param((), (1, 1), False, FAILING, id="the first replacement"),
        pytest.param(WELL, (2, 2), False, FAILING, id="all are ready again"),
        pytest.param((), (2, 2), True, FAILING, id="none is wanted"),
        pytest.param((), (2, 2), False, _condition("Degraded", "False", "AsExpected"), id="no failure was reported"),
        pytest.param(
            (), (2, 2), False, _condition("Degraded", "True", "Forbidden", since=later(11)), id="something newer"
        ),
        pytest.param((), (2, 2), False, _condition("Ready", "True", "PodsFailing"), id="nothing was said"),
    ],
)
def test_past_failures_do_not_degrade_a_recovered_cluster(
    pods: tuple[PodView, ...], failures: tuple[int, int], said: Condition, *, suspended: bool
) -> None:
    before = _failed("PodsFailing", MANAGER_ENDED).model_copy(update={"conditions": (said,)})
    degraded = _judge(*pods, failures=failures, suspended=suspended, before=before)["Degraded"]

    assert not degraded.status


@pytest.mark.parametrize(
    ("pods", "status", "reason"),
    [
        pytest.param((), True, "Suspended", id="no Pods left"),
        pytest.param(WELL, False, "Suspending", id="all Pods still live"),
        pytest.param((terminating(session_manager()),), False, "Suspending", id="the last Pod terminates"),
    ],
)
def test_suspended_is_true_when_all_pods_are_gone(pods: tuple[PodView, ...], reason: str, *, status: bool) -> None:
    suspended = _judge(*pods, suspended=True)["Suspended"]

    assert (suspended.status, suspended.reason) == (status, reason)


@pytest.mark.parametrize(
    ("given", "begun"),
    [
        pytest.param([], False, id="never"),
        pytest.param([_condition("Suspended", "False", "Suspending")], True, id="begun"),
        pytest.param([_condition("Suspended", "True", "Suspended")], False, id="finished"),
        pytest.param([_condition("Suspended", "False", "NotSuspended")], False, id="not wanted"),
    ],
)
def test_suspension_has_begun_when_the_condition_says_suspending(given: list[Condition], *, begun: bool) -> None:
    assert suspension_begun(_status(*given)) == begun


# --- Times -------------------------------------------------------------------------------------------------------------


def _after(*before: Condition, message: str = "") -> Condition:
    return ConditionWriter(before, 2, later(60.5)).make(ConditionType.READY, "X", message, status=True)


def test_new_condition_has_the_current_time() -> None:
    assert _after(message="m") == _condition("Ready", "True", "X", "m", generation=2, since=later(60))


@pytest.mark.parametrize(
    ("before", "moved"),
    [
        pytest.param(_condition("Ready", "False", since=ago(9)), True, id="from False"),
        pytest.param(_condition("Ready", "Unknown", since=ago(9)), True, id="from Unknown"),
        pytest.param(_condition("Ready", "True", "Other", "other", since=ago(9)), False, id="only reason and message"),
        pytest.param(_condition("Ready", "True", "X", since=ago(9)), False, id="only the generation"),
    ],
)
def test_transition_time_changes_only_with_the_status(before: Condition, *, moved: bool) -> None:
    after = _after(before)

    assert after.last_transition_time == (later(60) if moved else ago(9))
    assert (after.reason, after.observed_generation) == ("X", 2)


def test_foreign_conditions_stay_and_the_order_is_kept() -> None:
    before = (_condition("Theirs", "Unknown", since=ago(99)), _condition("Ready", "False"))

    def write(given: tuple[Condition, ...], now: datetime) -> tuple[Condition, ...]:
        writer = ConditionWriter(given, 2, now)
        return writer.merge(
            [
                writer.make(ConditionType.DEGRADED, "X", "m", status=False),
                writer.make(ConditionType.READY, "X", "m", status=True),
            ]
        )

    after = write(before, NOW)
    assert [each.type for each in after] == ["Theirs", "Ready", "Degraded"]
    assert after[0] == before[0]
    assert write(after, later(999)) == after


# --- Carry-over --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        pytest.param([], False, id="nothing"),
        pytest.param([_condition("Degraded", "True", "QuotaExceeded", "no")], True, id="refused"),
        pytest.param([_condition("Degraded", "True", "NameConflict", "no")], True, id="taken"),
        pytest.param([_condition("Degraded", "False", "AsExpected")], False, id="all was well"),
        pytest.param(
            [_condition("Degraded", "True", "QuotaExceeded", "no", generation=0)], False, id="of another generation"
        ),
        pytest.param([_condition("Degraded", "True", "PodsFailing", "no")], False, id="seen in the Pods"),
        pytest.param([_condition("Degraded", "True", "Unschedulable", "no")], False, id="seen in the Pods, too"),
        pytest.param([_condition("Degraded", "True", "InvalidSpec", "no")], False, id="seen in the spec"),
    ],
)
def test_stored_refusal_stays_until_the_pass_has_a_result(before: list[Condition], *, kept: bool) -> None:
    carried = carried_over(_status(*before), 1)

    assert [(each.reason, each.message) for each in carried] == ([(before[0].reason, "no")] if kept else [])


# --- Events ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "told"),
    [
        pytest.param(_condition("Degraded", "True", "QuotaExceeded", "no"), ("Warning", "QuotaExceeded", "no"),
            id="degraded"),
        pytest.param(_condition("Degraded", "False", "AsExpected"), None, id="not degraded"),
        pytest.param(_condition("ConfigValid", "False", "InvalidSpec", "x"), ("Warning", "InvalidSpec", "x"), id="invalid"),
        pytest.param(_condition("ConfigValid", "True", "Valid"), None, id="valid"),
        pytest.param(_condition("Ready", "True", "Fine", "well"), ("Normal", "Ready", "well"), id="ready"),
        pytest.param(_condition("Ready", "False", "NotReady", "no"), None, id="not ready"),
        pytest.param(_condition("Suspended", "True", "Suspended"), ("Normal", "Suspended", "Suspended"), id="suspended"),
        pytest.param(_condition("Suspended", "False", "Suspending", "5 Pods"), None, id="suspending"),
        pytest.param(_condition("Paused", "True", "Paused"), ("Normal", "Paused", "Paused"), id="paused"),
        pytest.param(_condition("Progressing", "True", "CreatingExecutors"), None, id="progressing"),
        pytest.param(_condition("Theirs", "True", "X", "y"), None, id="somebody else's"),
    ],
)  # fmt: skip
def test_condition_that_changes_is_an_event(after: Condition, told: tuple[str, str, str] | None) -> None:
    assert list(condition_events(_status(), _status(after))) == ([told] if told is not None else [])


def test_invalid_spec_is_one_event() -> None:
    after = _status(
        _condition("ConfigValid", "False", "InvalidSpec", "x"), _condition("Degraded", "True", "InvalidSpec", "x")
    )

    assert list(condition_events(_status(), after)) == [("Warning", "InvalidSpec", "x")]


def test_changed_reason_of_degraded_is_an_event() -> None:
    before = _status(_condition("Degraded", "True", "QuotaExceeded", "no"))
    after = _status(_condition("Degraded", "True", "NameConflict", "taken"))

    assert list(condition_events(before, after)) == [("Warning", "NameConflict", "taken")]


READY = _condition("Ready", "True", "Fine")
NOT_READY = _condition("Ready", "False", "NotReady")


@pytest.mark.parametrize(
    ("before", "reconciled", "after", "first"),
    [
        ((), 0, (READY,), True),
        ((NOT_READY,), 0, (READY,), True),
        ((), 0, (NOT_READY,), False),
        ((), 0, (), False),
        ((READY,), 0, (READY,), False),
        ((NOT_READY,), 1, (READY,), False),
    ],
    ids=["at once", "after a while", "not ready", "nothing said", "was ready", "was ready earlier, or suspended"],
)
def test_first_ready_status_is_an_event(
    before: tuple[Condition, ...], reconciled: int, after: tuple[Condition, ...], *, first: bool
) -> None:
    status = _status(*before).model_copy(update={"generations": Generations(reconciled=reconciled)})
    assert first_ready(status, _status(*after)) is first
