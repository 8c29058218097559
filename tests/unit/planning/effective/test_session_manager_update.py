"""When a stale session manager is replaced."""

from datetime import datetime
from typing import Any

import pytest

from flamectl_operator.api.constants import SESSION_MANAGER, SHARED_ANNOTATION
from flamectl_operator.flame.answer import ExecutorState, FlameExecutor, Session, SessionManagerAnswer
from flamectl_operator.flame.knowledge import RECENT_ANSWER_SECONDS, Phase
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.effective.session_manager_update import pending_since
from flamectl_operator.runtime.clock_reading import ClockReading
from tests.unit.builders import (
    BOOTTIME,
    MOMENT,
    NOW,
    ago,
    answer,
    cluster_plan,
    condition,
    desired,
    effective,
    executor_pod,
    later,
    merged,
    observed,
    running,
    session_manager,
    told,
    waiting,
)

IDLE = SessionManagerAnswer({}, sessions=(Session("open"),))
BUSY = SessionManagerAnswer({}, sessions=(Session("s", running=1),))
BETWEEN_TASKS = SessionManagerAnswer(
    {}, executors=(FlameExecutor("x", ExecutorState.BOUND, "s"),), sessions=(Session("s", pending=9),)
)
NOT_SERVED = SessionManagerAnswer({}, sessions=(Session("s", pending=9),))


def _strategy(kind: str, **changes: Any) -> dict[str, Any]:
    return merged({"sessionManager": {"updateStrategy": {"type": kind, "maxWaitSeconds": 600}}}, changes)


def _plan(
    changes: dict[str, Any],
    said: SessionManagerAnswer | None = None,
    *,
    since: datetime | None = NOW,
    age: float = 0,
    manager: Any = None,
    now: ClockReading = MOMENT,
    executors: int = 0,
) -> ClusterPlan:
    wanted = effective(changes, update_pending_since=since if "WhenIdle" in str(changes) else None)
    pods = [executor_pod(number, revision="old") for number in range(executors)]
    seen = observed(manager or session_manager(revision="old"), *pods, wanted=wanted)
    phase = Phase.UNKNOWN if said is None else Phase.KNOWN
    flame = answer(said, BOOTTIME - age, phase=phase)
    accepted = frozenset({wanted.desired.session_manager.rendered, wanted.desired.group.template.rendered})
    return cluster_plan(told(seen, flame), wanted, now, accepted=accepted)


@pytest.mark.parametrize(
    ("kind", "said", "replaced"),
    [
        pytest.param("Recreate", BUSY, True, id="Recreate does not wait"),
        pytest.param("WhenIdle", IDLE, True, id="an open session without tasks is idle"),
        pytest.param("WhenIdle", NOT_SERVED, True, id="tasks that no executor works for are idle"),
        pytest.param("WhenIdle", BUSY, False, id="a task runs"),
        pytest.param("WhenIdle", BETWEEN_TASKS, False, id="a session is between two tasks"),
        pytest.param("WhenIdle", None, False, id="no answer"),
        pytest.param("OnDelete", IDLE, False, id="OnDelete"),
    ],
)
def test_stale_session_manager_is_replaced_as_its_strategy_says(
    kind: str, said: SessionManagerAnswer | None, *, replaced: bool
) -> None:
    rollout = _plan(_strategy(kind), said).rollout

    assert (rollout.session_manager is not None) == replaced
    assert rollout.overdue is False


def test_wait_tells_its_cause_and_its_end() -> None:
    [wait] = _plan(_strategy("WhenIdle"), BUSY, since=ago(100)).rollout.waits

    assert (wait.reason, wait.delay) == ("WhenIdle", 500)
    end = f"{later(500):%Y-%m-%d %H:%M:%S} UTC"
    expected = f"the session manager has running tasks, so its update (WhenIdle) waits, until {end} at most"
    assert wait.message == expected


def test_session_manager_that_does_not_answer_is_waited_for_with_another_word() -> None:
    [wait] = _plan(_strategy("WhenIdle"), None).rollout.waits
    assert "does not answer" in wait.message


def test_deletion_by_hand_is_asked_for_where_nothing_else_replaces_it() -> None:
    [wait] = _plan(_strategy("OnDelete"), IDLE).rollout.waits

    assert (wait.reason, wait.delay) == ("OnDelete", None)
    assert (
        wait.message
        == 'the session manager runs the earlier spec (OnDelete): delete Pod "my-flame-session-manager" to replace it'
    )


@pytest.mark.parametrize("said", [BUSY, None])
def test_wait_ends_with_its_time_and_the_event_says_so(said: SessionManagerAnswer | None) -> None:
    rollout = _plan(_strategy("WhenIdle"), said, since=ago(600)).rollout

    assert rollout.session_manager is not None
    assert rollout.why == "no longer as specified, and updateStrategy.maxWaitSeconds are over"


def test_old_answer_without_tasks_has_to_be_confirmed() -> None:
    plan = _plan(_strategy("WhenIdle"), IDLE, age=2 * RECENT_ANSWER_SECONDS)

    assert plan.rollout.session_manager is None
    assert [wait.reason for wait in plan.rollout.waits] == ["AskingSessionManager"]
    assert plan.answers_needed


@pytest.mark.parametrize("kind", ["WhenIdle", "OnDelete"])
def test_lock_is_not_kept_while_the_session_manager_waits(kind: str) -> None:
    assert not _plan(_strategy(kind), BUSY).disrupts_later
    assert _plan(_strategy("Recreate"), BUSY).disrupts_later


def test_jump_of_the_clock_does_not_end_the_wait() -> None:
    jumped = ClockReading(later(3600), BOOTTIME, steady_since=later(3590))

    assert _plan(_strategy("WhenIdle"), BUSY, now=jumped).rollout.session_manager is None


_RUNS_UNREADY = session_manager(
    revision="old", containers=[running(SESSION_MANAGER)], conditions=[condition("Ready", "False", since=ago(61))]
)
_ON_A_SILENT_NODE = session_manager(
    revision="old",
    containers=[running(SESSION_MANAGER)],
    conditions=[condition("Ready", "False", since=ago(61)), condition("ContainersReady", "True", since=ago(600))],
)
_UNREADY_FOR_A_MOMENT = session_manager(
    revision="old", containers=[running(SESSION_MANAGER)], conditions=[condition("Ready", "False", since=ago(59))]
)
_CRASHES = session_manager(
    revision="old",
    containers=[waiting(SESSION_MANAGER, "CrashLoopBackOff")],
    conditions=[condition("Ready", "False", since=ago(1))],
)


@pytest.mark.parametrize("kind", ["WhenIdle", "OnDelete"])
@pytest.mark.parametrize(
    ("manager", "replaced"),
    [
        pytest.param(_CRASHES, True, id="its container does not run"),
        pytest.param(_RUNS_UNREADY, True, id="it has been unready for long"),
        pytest.param(_UNREADY_FOR_A_MOMENT, False, id="it has been unready for a moment"),
        pytest.param(_ON_A_SILENT_NODE, False, id="its node does not report, and it may work on"),
    ],
)
def test_broken_session_manager_is_replaced_at_any_time(kind: str, manager: Any, *, replaced: bool) -> None:
    rollout = _plan(_strategy(kind), None, manager=manager).rollout

    assert (rollout.session_manager is not None) == replaced
    assert rollout.why == "no longer as specified"


def _made_from(changes: dict[str, Any]) -> Any:
    return session_manager(revision="old", annotations={SHARED_ANNOTATION: desired(changes).shared_revision})


@pytest.mark.parametrize("kind", ["WhenIdle", "OnDelete"])
@pytest.mark.parametrize(
    ("manager", "rolled"),
    [
        pytest.param(_made_from({}), True, id="they do not read the change"),
        pytest.param(_made_from({"configOverrides": {"cluster": {"name": "x"}}}), False, id="they read the change"),
        pytest.param(session_manager(revision="old"), False, id="an earlier operator made it"),
    ],
)
def test_executors_wait_with_the_session_manager_if_they_read_the_same_change(
    kind: str, manager: Any, *, rolled: bool
) -> None:
    changes = _strategy(kind, executorManager={"replicas": 4, "updateStrategy": {"type": "Recreate"}})
    rollout = _plan(changes, BUSY, manager=manager, executors=4).rollout

    assert rollout.session_manager is None
    assert bool(rollout.delete or rollout.drain) == rolled
    assert any(wait.reason in {"WhenIdle", "OnDelete"} for wait in rollout.waits)


@pytest.mark.parametrize(
    ("kind", "revision", "before", "expected"),
    [
        pytest.param("WhenIdle", "old", None, NOW, id="a change begins to wait"),
        pytest.param("WhenIdle", "old", ago(9), ago(9), id="a further change goes on with the wait"),
        pytest.param("WhenIdle", None, ago(9), None, id="the change was taken back"),
        pytest.param("Recreate", "old", ago(9), None, id="nothing waits"),
    ],
)
def test_status_remembers_since_when_a_change_has_waited(
    kind: str, revision: str | None, before: datetime | None, expected: datetime | None
) -> None:
    seen = observed(session_manager(revision=revision))

    assert pending_since(desired(_strategy(kind)), seen, before, NOW) == expected


def test_time_in_the_future_is_recorded_anew_so_that_the_wait_ends() -> None:
    """As after the API server's clock has gone back, or an edit of the status."""
    seen = observed(session_manager(revision="old"))
    recorded = pending_since(desired(_strategy("WhenIdle")), seen, later(700), NOW)

    assert recorded == NOW
    assert pending_since(desired(_strategy("WhenIdle")), seen, recorded, later(30)) == NOW
