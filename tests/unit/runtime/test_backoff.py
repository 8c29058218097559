from random import Random

import pytest

from flamectl_operator.runtime.backoff import ExponentialBackoff
from flamectl_operator.runtime.doubling import doubled


def backoff(*, jitter: float = 0) -> ExponentialBackoff:
    return ExponentialBackoff(base=0.5, limit=30, jitter=jitter, random=Random(1))


@pytest.mark.parametrize(("failures", "delay"), [(1, 0.5), (2, 1), (3, 2), (6, 16), (7, 30), (8, 30)])
def test_the_delay_doubles_up_to_the_limit(failures: int, delay: float) -> None:
    assert backoff().delay(failures) == delay


def test_any_number_of_failures_has_a_delay() -> None:
    assert backoff().delay(10**9) == doubled(0.5, 30, 10**9) == 30


def test_no_failure_waits_as_long_as_the_first() -> None:
    assert backoff().delay(0) == 0.5


def test_jitter_only_lengthens_a_delay() -> None:
    jittered = backoff(jitter=0.5)
    delays = {jittered.delay(2) for _ in range(100)}
    assert len(delays) == 100
    assert all(1 <= delay <= 1.5 for delay in delays)
