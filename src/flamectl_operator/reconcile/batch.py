"""The time limit of a batch of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from flamectl_operator.runtime.clock import Clock

#: Seconds after which a batch of requests leaves the rest to the next pass, because the operator writes no status and repairs
#: nothing else while the batch runs.
BATCH_TIME_LIMIT = 10.0


def time_limit(clock: Clock) -> Callable[[], bool]:
    """Begin a batch and return a function that tells whether the batch may still send requests."""
    end = clock.monotonic() + BATCH_TIME_LIMIT
    return lambda: clock.monotonic() < end
