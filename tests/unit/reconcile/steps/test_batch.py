"""When a batch of requests leaves the rest to the next pass."""

from flamectl_operator.reconcile.steps.batch import BATCH_LONGEST_PAUSE, BATCH_TIME_LIMIT, time_limit
from tests.unit.builders import NOW
from tests.unit.subreconcilers.fake_api import ManualClock


def test_batch_goes_on_until_its_time_is_over() -> None:
    clock = ManualClock(NOW)
    go_on = time_limit(clock)

    went_on = 0.0
    while go_on():
        went_on = clock.elapsed
        clock.elapsed += 1.0

    assert went_on == BATCH_TIME_LIMIT - 1.0


def test_batch_stays_ended_after_the_process_stood_still() -> None:
    clock = ManualClock(NOW)
    go_on = time_limit(clock)
    assert go_on()

    clock.elapsed += BATCH_LONGEST_PAUSE

    assert not go_on()
    assert not go_on()
