"""Backoff of replacements."""

from datetime import timedelta

import pytest

from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff
from tests.unit.builders import NOW, SETTINGS, later


def test_waits_double_from_ten_seconds_to_five_minutes() -> None:
    backoff, waits = ReplacementBackoff(), []
    for _ in range(9):
        backoff = backoff.after_failure(NOW, SETTINGS)
        waits.append((backoff.next_attempt - NOW).total_seconds() if backoff.next_attempt else 0)

    assert waits == [0, 10, 20, 40, 80, 160, 300, 300, 300]
    assert backoff.failures == 9


def test_failure_count_is_capped_at_the_status_limit() -> None:
    most = 2**31 - 1

    assert ReplacementBackoff(failures=most).after_failure(NOW, SETTINGS).failures == most


def test_the_next_attempt_is_a_time_that_the_status_can_hold() -> None:
    after = ReplacementBackoff(failures=1).after_failure(NOW + timedelta(microseconds=1), SETTINGS)

    assert after.next_attempt == later(11)


@pytest.mark.parametrize("far", [301, 86_400], ids=["a second", "a day"])
def test_recorded_wait_is_capped_at_the_limit(far: int) -> None:
    """A clock was ahead, or a user edited the status."""
    before = ReplacementBackoff("same", failures=3, next_attempt=later(far))
    capped = before.for_revision("same", NOW, SETTINGS)

    assert capped.next_attempt == later(300)
    assert capped.for_revision("same", later(100), SETTINGS).next_attempt == later(300)
