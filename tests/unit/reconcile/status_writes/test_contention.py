"""How often a status is repeated that another writer overwrote."""

from typing import Any

from flamectl_operator.reconcile.status_writes.contention import (
    FIRST_REPEAT,
    LAST_REPEAT,
    MAX_REMEMBERED,
    StatusContention,
    status_fingerprint,
)

OURS: dict[str, Any] = {"message": "ours", "conditions": [{"type": "Ready", "lastTransitionTime": "1"}]}
THEIRS: dict[str, Any] = {"message": "theirs"}
NEWS: dict[str, Any] = {"message": "news"}


def _written() -> StatusContention:
    return StatusContention().wrote(OURS, {}, OURS, 0.0)


def test_status_that_was_not_overwritten_does_not_wait() -> None:
    assert StatusContention().delay(OURS, {}, 0.0) == 0
    assert StatusContention().delay(OURS, THEIRS, 0.0) == 0
    assert _written().delay(THEIRS, OURS, 0.0) == 0


def test_new_status_does_not_wait_after_an_overwrite() -> None:
    assert _written().delay(NEWS, THEIRS, 0.1) == 0


def test_overwritten_status_does_not_wait_when_the_last_write_is_long_ago() -> None:
    assert _written().delay(OURS, THEIRS, 100.0) == 0


def test_wait_before_a_repeated_status_doubles_up_to_its_limit() -> None:
    contention, now, waits = _written(), 0.0, []
    for _ in range(12):
        waits.append(contention.delay(OURS, THEIRS, now))
        now += waits[-1]
        contention = contention.wrote(OURS, THEIRS, OURS, now)

    assert waits[:3] == [FIRST_REPEAT, 2 * FIRST_REPEAT, 4 * FIRST_REPEAT]
    assert waits[-1] == LAST_REPEAT
    assert waits == sorted(waits)


def test_wait_doubles_when_the_other_status_always_differs() -> None:
    contention, now = _written(), 0.0
    for number in range(20):
        theirs = {"message": f"number {number}"}
        now += contention.delay(OURS, theirs, now)
        contention = contention.wrote(OURS, theirs, OURS, now)

    assert contention.delay(OURS, THEIRS, now) == LAST_REPEAT


def test_status_that_alternates_between_a_few_forms_waits() -> None:
    contention = _written().wrote(NEWS, THEIRS, NEWS, 1.0)
    assert contention.delay(OURS, THEIRS, 1.0) == FIRST_REPEAT


def test_fingerprint_ignores_transition_times() -> None:
    again = {**OURS, "conditions": [{"type": "Ready", "lastTransitionTime": "2"}]}
    assert status_fingerprint(again) == status_fingerprint(OURS)
    assert _written().delay(again, THEIRS, 0.0) == FIRST_REPEAT


def test_status_that_both_writers_agreed_on_does_not_count_as_overwritten() -> None:
    assert _written().agreed(THEIRS).delay(OURS, THEIRS, 0.0) == 0


def test_new_status_makes_the_wait_short_again() -> None:
    contention = _written()
    for now in (10.0, 30.0, 70.0):
        contention = contention.wrote(OURS, THEIRS, OURS, now)
    assert contention.delay(OURS, THEIRS, 70.0) == 8 * FIRST_REPEAT
    contention = contention.wrote(NEWS, THEIRS, NEWS, 80.0)
    assert contention.delay(OURS, THEIRS, 80.0) == FIRST_REPEAT


def test_number_of_remembered_statuses_is_limited() -> None:
    contention = StatusContention()
    for number in range(100):
        status = {"message": str(number)}
        contention = contention.wrote(status, {"message": f"not {number}"}, status, 0.0)
    assert len(contention.ours) == MAX_REMEMBERED
