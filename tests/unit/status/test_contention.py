"""How often a status is said again that somebody else has written over."""

from __future__ import annotations

from typing import Any

from flamectl_operator.status.contention import (
    FIRST_REPEAT,
    LAST_REPEAT,
    REMEMBERED,
    Contention,
    fingerprint,
)

OURS: dict[str, Any] = {"message": "ours", "conditions": [{"type": "Ready", "lastTransitionTime": "1"}]}
THEIRS: dict[str, Any] = {"message": "theirs"}


def _spoken(at: float = 0.0) -> Contention:
    return Contention().wrote(OURS, {}, OURS, at)


def test_what_nobody_wrote_over_is_said_at_once() -> None:
    assert Contention().delay(OURS, {}, 0.0) == 0
    assert Contention().delay(OURS, THEIRS, 0.0) == 0
    assert _spoken().delay(THEIRS, OURS, 0.0) == 0


def test_what_is_new_is_said_at_once_whoever_wrote_last() -> None:
    assert _spoken().delay({"message": "news"}, THEIRS, 0.1) == 0


def test_what_was_said_a_while_ago_is_said_again_at_once() -> None:
    """Somebody edits a status by hand: it is put right."""
    assert _spoken().delay(OURS, THEIRS, 100.0) == 0


def test_the_same_is_said_again_after_longer_and_longer_waits() -> None:
    contention, now, waits = _spoken(), 0.0, []
    for _ in range(12):
        now += 0.01
        waits.append(round(contention.delay(OURS, THEIRS, now) + 0.01, 6))
        now += waits[-1]
        contention = contention.wrote(OURS, THEIRS, OURS, now - 0.01)
        now -= 0.01

    assert waits[:3] == [FIRST_REPEAT, 2 * FIRST_REPEAT, 4 * FIRST_REPEAT]
    assert waits[-1] == LAST_REPEAT
    assert waits == sorted(waits)


def test_wavering_between_a_few_statuses_is_no_news() -> None:
    other = {**OURS, "message": "ours as well"}
    contention = _spoken().wrote(other, THEIRS, other, 1.0)
    assert contention.delay(OURS, THEIRS, 1.0) == FIRST_REPEAT


def test_when_conditions_changed_says_nothing() -> None:
    again = {**OURS, "conditions": [{"type": "Ready", "lastTransitionTime": "2"}]}
    assert fingerprint(again) == fingerprint(OURS)
    assert _spoken().delay(again, THEIRS, 0.0) == FIRST_REPEAT


def test_agreeing_with_another_is_no_contradiction() -> None:
    """It said the same before we did; then it changes back to what we said earlier."""
    contention = _spoken().agreed(THEIRS)
    assert contention.delay(OURS, THEIRS, 0.0) == 0


def test_news_make_the_waits_short_again() -> None:
    contention = _spoken()
    for now in (10.0, 30.0, 70.0):
        contention = contention.wrote(OURS, THEIRS, OURS, now)
    assert contention.delay(OURS, THEIRS, 70.0) == 8 * FIRST_REPEAT
    contention = contention.wrote({"message": "news"}, THEIRS, {"message": "news"}, 80.0)
    assert contention.delay(OURS, THEIRS, 80.0) == FIRST_REPEAT


def test_what_was_not_heard_before_is_no_part_of_the_quarrel() -> None:
    """Two operators have long contradicted each other when somebody edits the status by hand."""
    contention = _spoken()
    for now in (10.0, 30.0, 70.0):
        contention = contention.wrote(OURS, THEIRS, OURS, now)

    assert contention.delay(OURS, {"message": "edited by hand"}, 70.5) == FIRST_REPEAT - 0.5
    assert contention.delay(OURS, {"message": "edited by hand"}, 71.0) == 0
    contention = contention.wrote(OURS, {"message": "edited by hand"}, OURS, 71.0)
    assert contention.delay(OURS, {"message": "edited by hand"}, 71.0) == 16 * FIRST_REPEAT


def test_who_never_says_the_same_twice_is_not_answered_for_ever() -> None:
    contention, now, waits = _spoken(), 0.0, []
    for number in range(20):
        theirs = {"message": f"it is {number} o'clock"}
        waits.append(contention.delay(OURS, theirs, now))
        now += waits[-1]
        contention = contention.wrote(OURS, theirs, OURS, now)

    assert waits[:REMEMBERED] == [FIRST_REPEAT] * REMEMBERED
    assert waits[-1] == LAST_REPEAT


def test_what_is_remembered_is_bounded() -> None:
    contention = Contention()
    for number in range(100):
        status = {"message": str(number)}
        contention = contention.wrote(status, {"message": f"not {number}"}, status, 0.0)
    assert (len(contention.ours), len(contention.theirs)) == (REMEMBERED, REMEMBERED)


def test_who_was_written_over_knows_it() -> None:
    assert _spoken().overwritten(THEIRS)
    assert not _spoken().overwritten(OURS)
    assert not Contention().overwritten(THEIRS)
