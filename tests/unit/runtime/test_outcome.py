"""Outcomes, and the one outcome of a step that did several things."""

from datetime import UTC, datetime, timedelta

from flamectl_operator.runtime.outcome import DONE, Kind, Result, blocked, combine, stop, wait, wait_until
from flamectl_operator.runtime.text import shortened

NOW = datetime(2025, 6, 1, tzinfo=UTC)


def test_step_without_waits_is_done() -> None:
    assert combine([DONE, DONE]) is DONE


def test_a_step_with_several_waits_has_all_messages_and_the_shortest_delay() -> None:
    assert combine([wait("A", "a", 30), DONE, wait("B", "b", 5)]) == wait("A", "a; b", 5)


def test_an_outcome_that_needs_attention_gives_the_reason() -> None:
    assert combine([wait("A", "a"), blocked("B", "b")]) == blocked("B", "b; a")


def test_first_message_keeps_its_end_when_a_second_one_has_no_room() -> None:
    """The end is the command to type. It must not give way to the advice of the second message."""
    first = f"the claim is being deleted{' and so on' * 20}; then confirm: kubectl annotate flc my-flame a=b"
    second = (
        "the claim does not belong to this FlameCluster (to use its data, name it in existingClaim; else delete it)"
    )

    found = combine([blocked("B", first), blocked("B", second)])

    assert shortened(found.message).startswith(first)
    assert "existingClaim" not in shortened(found.message)


def test_a_stop_makes_the_step_stop() -> None:
    assert combine([wait("A", "a"), stop("B", "")]).kind is Kind.STOP


def test_a_wait_for_a_time_that_has_passed_has_no_delay() -> None:
    assert wait_until("A", NOW - timedelta(seconds=3), NOW).delay == 0
    assert wait_until("A", NOW + timedelta(seconds=3), NOW).delay == 3


def test_a_wait_for_an_event_asks_for_no_delay_but_is_reported() -> None:
    waiting = wait("PodsStarting", "1 of 2 Pods ready")
    assert Result(outcomes=(waiting,)).delay is None
