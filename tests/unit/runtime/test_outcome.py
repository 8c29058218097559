"""Outcomes, and the one outcome of a step that did several things."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flamectl_operator.runtime.outcome import DONE, Kind, Result, blocked, combine, stop, wait, wait_until

NOW = datetime(2025, 6, 1, tzinfo=UTC)


def test_step_without_waits_is_done() -> None:
    assert combine([DONE, DONE]) is DONE


def test_a_step_with_several_waits_has_all_messages_and_the_shortest_delay() -> None:
    assert combine([wait("A", "a", 30), DONE, wait("B", "b", 5)]) == wait("A", "a; b", 5)


def test_an_outcome_that_needs_attention_gives_the_reason() -> None:
    assert combine([wait("A", "a"), blocked("B", "b")]) == blocked("B", "b; a")


def test_a_stop_makes_the_step_stop() -> None:
    assert combine([wait("A", "a"), stop("B", "")]).kind is Kind.STOP


def test_a_wait_for_a_time_that_has_passed_has_no_delay() -> None:
    assert wait_until("A", NOW - timedelta(seconds=3), NOW).delay == 0
    assert wait_until("A", NOW + timedelta(seconds=3), NOW).delay == 3


def test_a_wait_for_an_event_asks_for_no_delay_but_is_reported() -> None:
    waiting = wait("PodsStarting", "1 of 2 Pods ready")
    assert Result(outcomes=(waiting,)).delay is None
