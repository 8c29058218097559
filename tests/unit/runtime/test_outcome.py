from __future__ import annotations

from flamectl_operator.runtime.outcome import DONE, join, stop, wait


def test_a_pass_of_done_steps_asks_for_nothing() -> None:
    result = join([DONE, DONE])
    assert (result.errors, result.delay, result.waits) == ((), None, ())


def test_the_shortest_delay_wins() -> None:
    assert join([wait("A", "a", 30), DONE, stop("B", "b", 5)]).delay == 5


def test_a_wait_for_an_event_asks_for_no_delay_but_is_reported() -> None:
    waiting = wait("PodsStarting", "1 of 2 Pods ready")
    result = join([waiting])
    assert result.delay is None
    assert result.waits == (waiting,)


def test_waits_and_stops_keep_the_order_of_the_steps() -> None:
    assert [outcome.reason for outcome in join([wait("B", ""), DONE, stop("A", "")]).waits] == ["B", "A"]


def test_all_errors_are_kept() -> None:
    errors = [ValueError("one"), KeyError("two")]
    assert join([wait("A", "a", 1)], errors).errors == tuple(errors)
