"""The conditions of a FlameCluster, and which of their changes are told as events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flamectl_operator.api.status import Condition, ConditionType, FlameClusterStatus, Generations
from flamectl_operator.decisions.announcements import Announcement, announcements, first_ready
from flamectl_operator.decisions.attempts import Attempts
from flamectl_operator.decisions.conditions import Verdict, carried_over, conditions, find, judge, suspension_begun
from flamectl_operator.decisions.health import Issue, assess
from flamectl_operator.decisions.needs import Needs, needs
from tests.unit.builders import (
    NOW,
    PULLING,
    ago,
    executor_pod,
    intent,
    later,
    observed,
    replicas,
    session_manager,
    terminating,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from flamectl_operator.kube.views import PodView

WELL = (session_manager(), executor_pod(0))
NOTHING_SAID = FlameClusterStatus()


def _judge(
    *pods: PodView,
    suspended: bool = False,
    paused: bool = False,
    issues: tuple[Issue, ...] = (),
    before: FlameClusterStatus = NOTHING_SAID,
    failures: tuple[int, int] = (0, 0),
    spec: Mapping[str, Any] | None = None,
    **found: Any,
) -> dict[str, Verdict]:
    manager, executors = (Attempts("current", count, later(10) if count > 1 else None) for count in failures)
    wanted = intent(spec, suspended=suspended, session_manager_attempts=manager, executor_attempts=executors)
    seen = observed(*pods, wanted=wanted, **found)
    outstanding = needs(seen, wanted)
    health = assess(seen, wanted, outstanding, paused=paused, issues=issues)
    verdicts = judge(seen, wanted, outstanding, health, before=before, paused=paused, issues=issues)
    return {str(each.kind): each for each in verdicts}


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


# --- Verdicts ----------------------------------------------------------------------------------------------------------


def test_a_healthy_cluster() -> None:
    assert {kind: (each.status, each.reason) for kind, each in _judge(*WELL).items()} == {
        "Ready": (True, "AllComponentsHealthy"),
        "Progressing": (False, "Complete"),
        "ConfigValid": (True, "Valid"),
        "Degraded": (False, "AsExpected"),
        "Suspended": (False, "NotSuspended"),
        "Paused": (False, "NotPaused"),
    }


def test_an_invalid_spec_is_said_and_nothing_is_claimed_about_the_rest() -> None:
    health = assess(observed(), None, Needs(), problem="spec.x: wrong")
    judged = judge(observed(), None, Needs(), health, before=NOTHING_SAID, paused=False, issues=())
    verdicts = {str(each.kind): each for each in judged}

    assert verdicts.keys() == {"Ready", "Progressing", "ConfigValid"}
    assert not any(each.status for each in verdicts.values())
    assert verdicts["ConfigValid"].message == "Invalid spec: spec.x: wrong"


@pytest.mark.parametrize(
    ("pods", "found", "reason"),
    [
        pytest.param(WELL, {"config_map": None}, "UpdatingConfigMap", id="ConfigMap"),
        pytest.param(WELL, {"services": ()}, "UpdatingServices", id="Services"),
        pytest.param((), {}, "ReplacingSessionManager", id="session manager"),
        pytest.param((session_manager(),), {}, "CreatingExecutors", id="too few"),
        pytest.param((*WELL, executor_pod(1)), {}, "RemovingExecutors", id="too many"),
        pytest.param((session_manager(), executor_pod(0, revision="old")), {}, "ReplacingStalePods", id="stale"),
    ],
)
def test_what_is_being_done(pods: tuple[PodView, ...], found: dict[str, Any], reason: str) -> None:
    progressing = _judge(*pods, **found)["Progressing"]

    assert (progressing.status, progressing.reason) == (True, reason)


def test_a_paused_cluster_makes_no_progress() -> None:
    verdicts = _judge(paused=True)

    assert (verdicts["Progressing"].status, verdicts["Progressing"].reason) == (False, "Paused")
    assert verdicts["Paused"].status


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
def test_what_is_waited_for(pods: tuple[PodView, ...], reason: str, *, suspended: bool, status: bool) -> None:
    progressing = _judge(*pods, suspended=suspended)["Progressing"]

    assert (progressing.status, progressing.reason) == (status, reason)


@pytest.mark.parametrize(
    ("pods", "issues", "reason", "message"),
    [
        pytest.param(
            (session_manager(), executor_pod(0, "crashing")), (), "PodsFailing",
            f"my-flame-executor-manager-0: ImagePullBackOff: {PULLING}", id="a failing Pod",
        ),
        pytest.param(
            (session_manager(), executor_pod(0, "unschedulable")), (), "Unschedulable",
            "my-flame-executor-manager-0: Unschedulable: 0/20 nodes are available: Insufficient cpu.", id="no node",
        ),
        pytest.param(
            (session_manager("crashing"), executor_pod(0, "unschedulable")), (), "PodsFailing",
            f"my-flame-session-manager: ImagePullBackOff: {PULLING}", id="failing comes before no node",
        ),
        pytest.param(
            (session_manager(), executor_pod(0, "crashing")), (Issue("QuotaExceeded", "no", degraded=True),), "QuotaExceeded",
            "no", id="what was refused comes first",
        ),
        pytest.param(
            WELL, (Issue("BackOff", "later"), Issue("A", "one", degraded=True), Issue("B", "two", degraded=True)), "A",
            "one; two", id="all that was refused",
        ),
    ],
)  # fmt: skip
def test_degraded(pods: tuple[PodView, ...], issues: tuple[Issue, ...], reason: str, message: str) -> None:
    degraded = _judge(*pods, issues=issues)["Degraded"]

    assert (degraded.status, degraded.reason, degraded.message) == (True, reason, message)


def test_a_terminal_executor_that_is_only_kept_for_its_logs_does_not_degrade() -> None:
    assert not _judge(*WELL, executor_pod(1, "failed"))["Degraded"].status


def test_a_wait_is_not_degraded() -> None:
    assert not _judge(*WELL, issues=(Issue("BackOff", "later"),))["Degraded"].status


MANAGER_FAILED, EXECUTORS_FAILED = "replacements of the session manager failed", "replacements of executors failed"
MANAGER_ENDED = "my-flame-session-manager: Error: exit code 1"
EXECUTOR_ENDED = "my-flame-executor-manager-0: Error: exit code 1"


@pytest.mark.parametrize(
    ("pods", "failures", "said", "message"),
    [
        pytest.param((), (2, 0), MANAGER_ENDED, MANAGER_ENDED, id="no session manager"),
        pytest.param((session_manager("starting"),), (2, 0), MANAGER_ENDED, MANAGER_ENDED, id="one that starts"),
        pytest.param((session_manager(),), (0, 2), EXECUTOR_ENDED, EXECUTOR_ENDED, id="no executor"),
        pytest.param((), (2, 0), EXECUTOR_ENDED, MANAGER_FAILED, id="an executor was what was told"),
        pytest.param((), (2, 0), EXECUTORS_FAILED, MANAGER_FAILED, id="executors were what was told"),
        pytest.param((session_manager(),), (0, 2), MANAGER_ENDED, EXECUTORS_FAILED, id="the manager was what was told"),
        pytest.param(WELL, (0, 2), EXECUTOR_ENDED, EXECUTORS_FAILED, id="another one is missing"),
        pytest.param((session_manager(),), (0, 2), EXECUTORS_FAILED, EXECUTORS_FAILED, id="it is not known"),
    ],
)  # fmt: skip
def test_what_fails_again_and_again_stays_degraded_between_its_attempts(
    pods: tuple[PodView, ...], failures: tuple[int, int], said: str, message: str
) -> None:
    before = _status(_condition("Degraded", "True", "PodsFailing", said))
    degraded = _judge(*pods, failures=failures, before=before, spec=replicas(2))["Degraded"]

    assert (degraded.status, degraded.reason, degraded.message) == (True, "PodsFailing", message)


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        pytest.param((session_manager("starting"), executor_pod(0)), MANAGER_ENDED, id="session manager"),
        pytest.param((session_manager(), executor_pod(0, "waiting")), EXECUTOR_ENDED, id="executor"),
    ],
)
def test_what_the_kubelet_starts_once_more_stays_degraded_until_it_is_ready(
    pods: tuple[PodView, ...], said: str
) -> None:
    before = _status(_condition("Degraded", "True", "PodsFailing", said))
    degraded = _judge(*pods, before=before)["Degraded"]
    assert (degraded.status, degraded.message) == (True, said)

    assert not _judge(*WELL, before=before)["Degraded"].status
    assert not _judge(*pods, before=_status(_condition("Degraded", "False", "AsExpected")))["Degraded"].status


@pytest.mark.parametrize("reason", ["Unschedulable", "QuotaExceeded"])
def test_what_else_was_wrong_meanwhile_does_not_end_it(reason: str) -> None:
    before = _status(_condition("Degraded", "True", reason, MANAGER_ENDED, since=ago(60)))
    degraded = _judge(failures=(2, 0), before=before)["Degraded"]

    assert (degraded.status, degraded.reason, degraded.message) == (True, "PodsFailing", MANAGER_FAILED)


def test_a_replacement_without_a_node_is_what_is_told_of_those_that_failed() -> None:
    pods = (session_manager(), executor_pod(0, "unschedulable"))

    before = _status(_condition("Degraded", "True", "PodsFailing", EXECUTOR_ENDED))
    assert _judge(*pods, failures=(0, 2), before=before)["Degraded"].reason == "Unschedulable"


FAILING = _condition("Degraded", "True", "PodsFailing", MANAGER_ENDED)


@pytest.mark.parametrize(
    ("pods", "failures", "suspended", "said"),
    [
        pytest.param((), (1, 1), False, FAILING, id="the first replacement"),
        pytest.param(WELL, (2, 2), False, FAILING, id="all are ready again"),
        pytest.param((), (2, 2), True, FAILING, id="none is wanted"),
        pytest.param((), (2, 2), False, _condition("Degraded", "False", "AsExpected"), id="it was over"),
        pytest.param(
            (), (2, 2), False, _condition("Degraded", "True", "Forbidden", since=later(11)), id="something newer"
        ),
        pytest.param((), (2, 2), False, _condition("Ready", "True", "PodsFailing"), id="nothing was said"),
    ],
)
def test_failures_that_are_nobodys_concern(
    pods: tuple[PodView, ...], failures: tuple[int, int], said: Condition, *, suspended: bool
) -> None:
    degraded = _judge(*pods, failures=failures, suspended=suspended, before=_status(said))["Degraded"]

    assert not degraded.status


@pytest.mark.parametrize(
    ("pods", "status", "reason"),
    [
        pytest.param((), True, "Suspended", id="done"),
        pytest.param(WELL, False, "Suspending", id="begun"),
        pytest.param((terminating(session_manager()),), False, "Suspending", id="almost"),
    ],
)
def test_suspended(pods: tuple[PodView, ...], reason: str, *, status: bool) -> None:
    suspended = _judge(*pods, suspended=True)["Suspended"]

    assert (suspended.status, suspended.reason) == (status, reason)


@pytest.mark.parametrize(("count", "words"), [(1, "1 Pod left"), (2, "2 Pods left")])
def test_how_many_pods_are_left_is_said(count: int, words: str) -> None:
    pods = [executor_pod(number) for number in range(count)]

    assert _judge(*pods, suspended=True)["Suspended"].message == words


@pytest.mark.parametrize(
    ("given", "begun"),
    [
        pytest.param([], False, id="never"),
        pytest.param([_condition("Suspended", "False", "Suspending")], True, id="begun"),
        pytest.param([_condition("Suspended", "True", "Suspended")], False, id="finished"),
        pytest.param([_condition("Suspended", "False", "NotSuspended")], False, id="not wanted"),
    ],
)
def test_whether_a_suspension_has_begun(given: list[Condition], *, begun: bool) -> None:
    assert suspension_begun(_status(*given)) == begun


# --- Times -------------------------------------------------------------------------------------------------------------


def _after(verdict: Verdict, *before: Condition, generation: int = 2) -> Condition:
    status = _status(*conditions([verdict], before, generation, later(60.5)))
    found = find(status, verdict.kind)
    assert found is not None
    return found


def test_a_new_condition_has_the_time() -> None:
    after = _after(Verdict(ConditionType.READY, status=True, reason="X", message="m"))

    assert after == _condition("Ready", "True", "X", "m", generation=2, since=later(60))


@pytest.mark.parametrize(
    ("before", "moved"),
    [
        pytest.param(_condition("Ready", "False", since=ago(9)), True, id="from False"),
        pytest.param(_condition("Ready", "Unknown", since=ago(9)), True, id="from Unknown"),
        pytest.param(_condition("Ready", "True", "Other", "other", since=ago(9)), False, id="only reason and message"),
        pytest.param(_condition("Ready", "True", "X", since=ago(9)), False, id="only the generation"),
    ],
)
def test_the_time_moves_with_the_status_alone(before: Condition, *, moved: bool) -> None:
    after = _after(Verdict(ConditionType.READY, status=True, reason="X"), before)

    assert after.last_transition_time == (later(60) if moved else ago(9))
    assert (after.reason, after.observed_generation) == ("X", 2)


def test_conditions_of_others_stay_and_the_order_is_kept() -> None:
    before = (_condition("Theirs", "Unknown", since=ago(99)), _condition("Ready", "False"))
    verdicts = [
        Verdict(ConditionType.DEGRADED, status=False, reason="X"),
        Verdict(ConditionType.READY, status=True, reason="X"),
    ]
    after = conditions(verdicts, before, 2, NOW)

    assert [each.type for each in after] == ["Theirs", "Ready", "Degraded"]
    assert after[0] == before[0]
    assert conditions(verdicts, after, 2, later(999)) == after


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
    ],
)
def test_what_was_refused_is_said_until_the_pass_knows_better(before: list[Condition], *, kept: bool) -> None:
    carried = carried_over(_status(*before), 1)

    assert [(each.reason, each.message) for each in carried] == ([(before[0].reason, "no")] if kept else [])


# --- Events ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "told"),
    [
        pytest.param(
            _condition("Degraded", "True", "QuotaExceeded", "no"),
            Announcement("Warning", "QuotaExceeded", "no"),
            id="degraded",
        ),
        pytest.param(_condition("Degraded", "False", "AsExpected"), None, id="not degraded"),
        pytest.param(
            _condition("ConfigValid", "False", "InvalidSpec", "x"),
            Announcement("Warning", "InvalidSpec", "x"),
            id="invalid",
        ),
        pytest.param(_condition("ConfigValid", "True", "Valid"), None, id="valid"),
        pytest.param(_condition("Ready", "True", "Fine", "well"), Announcement("Normal", "Ready", "well"), id="ready"),
        pytest.param(_condition("Ready", "False", "NotReady", "no"), None, id="not ready"),
        pytest.param(
            _condition("Suspended", "True", "Suspended"),
            Announcement("Normal", "Suspended", "Suspended"),
            id="suspended",
        ),
        pytest.param(_condition("Suspended", "False", "Suspending", "5 Pods"), None, id="suspending"),
        pytest.param(_condition("Paused", "True", "Paused"), Announcement("Normal", "Paused", "Paused"), id="paused"),
        pytest.param(_condition("Progressing", "True", "CreatingExecutors"), None, id="progressing"),
        pytest.param(_condition("Theirs", "True", "X", "y"), None, id="somebody else's"),
    ],
)
def test_which_conditions_are_told(after: Condition, told: Announcement | None) -> None:
    assert list(announcements(_status(), _status(after))) == ([told] if told is not None else [])


def test_what_did_not_change_is_not_told_again() -> None:
    before = _status(_condition("Degraded", "True", "QuotaExceeded", "no", since=ago(99)))
    after = _status(_condition("Degraded", "True", "QuotaExceeded", "no", generation=7))

    assert list(announcements(before, after)) == []


def test_another_reason_to_be_degraded_is_told() -> None:
    before = _status(_condition("Degraded", "True", "QuotaExceeded", "no"))
    after = _status(_condition("Degraded", "True", "NameConflict", "taken"))

    assert list(announcements(before, after)) == [Announcement("Warning", "NameConflict", "taken")]


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
def test_when_a_cluster_is_ready_for_the_first_time(
    before: tuple[Condition, ...], reconciled: int, after: tuple[Condition, ...], *, first: bool
) -> None:
    status = _status(*before).model_copy(update={"generations": Generations(reconciled=reconciled)})
    assert first_ready(status, _status(*after)) is first
