"""When a cluster without open sessions suspends itself, and until when."""

from datetime import datetime
from typing import Any

import pytest

from flamectl_operator.api.component_status import IdleStatus
from flamectl_operator.flame.answer import Session, SessionManagerAnswer
from flamectl_operator.flame.knowledge import RECENT_ANSWER_SECONDS, Phase
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.effective.idle import Idleness, resolve_idleness
from flamectl_operator.runtime.clock_reading import ClockReading
from tests.unit.builders import BOOTTIME, MOMENT, NOW, ago, answer, later, observed, session_manager, spec, told

GENERATION = 7
EMPTY = SessionManagerAnswer({})


def _seen(
    content: SessionManagerAnswer | None, *, phase: Phase = Phase.KNOWN, age: float = 0, state: Any = "ready"
) -> ObservedCluster:
    flame = answer(content, BOOTTIME - age, phase=phase)
    found = observed(session_manager(state))
    return told(found, flame)


def _idle(
    seen: ObservedCluster,
    before: IdleStatus = IdleStatus(),  # noqa: B008
    moment: ClockReading = MOMENT,
    **changes: Any,
) -> Idleness:
    wanted = spec({"idle": {"timeoutSeconds": 600}, **changes})
    return resolve_idleness(wanted, seen, before, GENERATION, moment)


def test_time_begins_with_the_first_answer_that_shows_no_open_session() -> None:
    assert _idle(_seen(EMPTY)) == Idleness(IdleStatus(since=NOW), due=later(600))


def test_cluster_suspends_itself_when_the_time_is_over() -> None:
    assert not _idle(_seen(EMPTY), IdleStatus(since=ago(599))).suspended

    found = _idle(_seen(EMPTY), IdleStatus(since=ago(600)))

    assert found.suspended
    assert found.remembered == IdleStatus(since=ago(600), suspended_generation=GENERATION)


@pytest.mark.parametrize("session", [Session("s"), Session("s", is_open=False, suspended=True)])
def test_session_that_is_open_or_will_go_on_ends_the_time(session: Session) -> None:
    assert _idle(_seen(SessionManagerAnswer({}, sessions=(session,))), IdleStatus(since=ago(9999))) == Idleness()


def _ended(at: datetime) -> SessionManagerAnswer:
    return SessionManagerAnswer({}, sessions=(Session("s", is_open=False),), used_at=at.timestamp())


def test_session_that_began_and_ended_between_two_answers_counts() -> None:
    found = _idle(_seen(_ended(ago(10))), IdleStatus(since=ago(9999)))
    assert found == Idleness(IdleStatus(since=ago(10)), due=later(590))


def test_session_that_ended_before_the_time_began_changes_nothing() -> None:
    assert _idle(_seen(_ended(ago(900))), IdleStatus(since=ago(599))) == Idleness(
        IdleStatus(since=ago(599)), due=later(1)
    )
    assert _idle(_seen(_ended(ago(900))), IdleStatus(since=ago(600))).suspended


@pytest.mark.parametrize("seconds", [3600, 2**63 - 1])
def test_session_that_ended_in_the_future_by_another_clock_is_in_use_and_no_time_is_remembered(seconds: int) -> None:
    ended = SessionManagerAnswer({}, sessions=(Session("s", is_open=False),), used_at=NOW.timestamp() + seconds)
    for before in (IdleStatus(since=ago(9999)), IdleStatus()):
        assert _idle(_seen(ended), before) == Idleness(due=later(600))


def test_paused_session_that_no_executor_works_for_does_not_keep_the_cluster_up() -> None:
    found = _idle(
        _seen(SessionManagerAnswer({}, sessions=(Session("s", pending=1, paused="it failed"),))),
        IdleStatus(since=ago(600)),
    )
    assert found.suspended
    assert found.message.startswith("no session has been in use since ")


def test_old_answer_has_to_be_confirmed_first() -> None:
    found = _idle(_seen(EMPTY, age=2 * RECENT_ANSWER_SECONDS), IdleStatus(since=ago(600)))
    assert (found.suspended, found.undecided) == (False, True)


@pytest.mark.parametrize(
    ("seen", "kept"),
    [
        pytest.param(_seen(None, phase=Phase.ASKING), True, id="the operator has just started"),
        pytest.param(_seen(None, phase=Phase.OFF), True, id="the operator has not asked yet"),
        pytest.param(_seen(None, phase=Phase.UNKNOWN), False, id="no answer"),
        pytest.param(_seen(None, phase=Phase.OFF, state="starting"), False, id="the session manager is not ready"),
    ],
)
def test_time_without_answers_does_not_count(seen: ObservedCluster, *, kept: bool) -> None:
    found = _idle(seen, IdleStatus(since=ago(9999)))
    assert found == Idleness(IdleStatus(since=ago(9999) if kept else None))


def test_suspension_lasts_whatever_is_seen_until_the_spec_changes() -> None:
    before = IdleStatus(since=ago(9999), suspended_generation=GENERATION)
    for seen in (_seen(EMPTY), _seen(None, phase=Phase.OFF), observed()):
        assert _idle(seen, before) == Idleness(before, suspended=True)


def test_change_of_the_spec_wakes_the_cluster_and_the_time_begins_anew() -> None:
    before = IdleStatus(since=ago(9999), suspended_generation=GENERATION - 1)
    assert _idle(_seen(EMPTY), before) == Idleness(IdleStatus(since=NOW), due=later(600))
    assert _idle(_seen(None, phase=Phase.OFF, state="starting"), before) == Idleness()


@pytest.mark.parametrize("changes", [{"idle": None}, {"suspend": True}])
def test_nothing_is_remembered_where_nobody_asks_for_it(changes: dict[str, Any]) -> None:
    assert _idle(_seen(EMPTY), IdleStatus(since=ago(9999)), **changes) == Idleness()


def test_paused_cluster_does_not_suspend_itself() -> None:
    found = _idle(_seen(EMPTY), IdleStatus(since=ago(9999)), paused=True)
    assert found == Idleness(IdleStatus(since=ago(9999)))


def test_time_counts_anew_when_the_clock_has_jumped_ahead() -> None:
    jumped = ClockReading(later(3600), BOOTTIME, steady_since=later(3590))
    found = _idle(_seen(EMPTY), IdleStatus(since=NOW), jumped)
    assert found == Idleness(IdleStatus(since=later(3590)), due=later(3590 + 600))


def test_time_that_was_lived_through_after_a_jump_suspends_the_cluster() -> None:
    jumped = ClockReading(later(4200), BOOTTIME, steady_since=later(3600))
    assert _idle(_seen(EMPTY), IdleStatus(since=NOW), jumped).suspended


def test_time_that_begins_in_the_future_counts_from_now() -> None:
    assert _idle(_seen(EMPTY), IdleStatus(since=later(3600))) == Idleness(IdleStatus(since=NOW), due=later(600))
