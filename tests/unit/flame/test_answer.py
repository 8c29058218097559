"""The demand that an answer shows."""

import pytest

from flamectl_operator.flame.answer import (
    ExecutorState,
    FlameExecutor,
    Resources,
    Session,
    SessionCounts,
    SessionManagerAnswer,
)

LARGE = Resources(4, 8 << 30)


@pytest.mark.parametrize(
    ("session", "instances"),
    [
        (Session("s"), 0),
        (Session("s", pending=3, running=2), 5),
        (Session("s", pending=3, running=2, max_instances=4), 4),
        (Session("s", pending=1, min_instances=3), 3),
        (Session("s", pending=9, min_instances=3, max_instances=3), 3),
        (Session("s", pending=-7, running=1), 1),
        (Session("s", pending=5, batch_size=4), 8),
        (Session("s", pending=5, batch_size=4, max_instances=4), 4),
        (Session("s", batch_size=4), 0),
    ],
)
def test_session_can_use_an_executor_for_each_task_within_its_limits(session: Session, instances: int) -> None:
    assert session.instances == instances


def test_demand_counts_open_sessions_by_what_their_executors_take() -> None:
    sessions = (
        Session("a", pending=3),
        Session("b", running=2),
        Session("c", pending=5, resources=LARGE),
        Session("closed", is_open=False, pending=9, min_instances=9),
        Session("suspended", is_open=False, suspended=True, pending=9),
    )
    assert SessionManagerAnswer({}, sessions=sessions).demand == {None: 5, LARGE: 5}


def test_counts_are_those_of_open_sessions() -> None:
    sessions = (Session("a", pending=3, running=1), Session("b", running=2), Session("c", is_open=False, pending=9))
    assert SessionManagerAnswer({}, sessions=sessions).counts == SessionCounts(sessions=2, pending=3, running=3)


@pytest.mark.parametrize(
    ("session", "in_use"),
    [(Session("s"), True), (Session("s", is_open=False, suspended=True), True), (Session("s", is_open=False), False)],
)
def test_cluster_is_in_use_while_a_session_is_open_or_will_go_on(session: Session, *, in_use: bool) -> None:
    assert SessionManagerAnswer({}, sessions=(session,)).in_use is in_use


def test_decisions_are_made_anew_when_an_executor_has_left_its_session() -> None:
    leaving = SessionManagerAnswer({}, (FlameExecutor("node", ExecutorState.UNBINDING, "s"),))
    assert not leaving.same_for_decisions(SessionManagerAnswer({}, (FlameExecutor("node", ExecutorState.UNBINDING),)))


_BOUND = tuple(FlameExecutor(f"n{number}", ExecutorState.BOUND, "s") for number in range(2))


@pytest.mark.parametrize(
    ("executors", "instances"), [pytest.param(_BOUND, 2, id="two are bound"), pytest.param((), 0, id="none is bound")]
)
def test_paused_session_counts_for_the_executors_that_it_has(
    executors: tuple[FlameExecutor, ...], instances: int
) -> None:
    session = Session("s", pending=9, running=1, min_instances=4, paused="paused after 5/5")
    answer = SessionManagerAnswer({}, executors=executors, sessions=(session,))

    assert answer.demand == ({None: instances} if instances else {})
    assert answer.in_use == bool(instances)
    assert answer.counts.paused == 1


def test_closed_session_is_not_paused() -> None:
    assert SessionManagerAnswer({}, sessions=(Session("s", is_open=False, paused="x"),)).paused == ()
