"""Waits for a condition, on machines of any speed."""

import time
from collections.abc import Callable
from typing import TypeVar

from tools.controlplane.errors import ControlPlaneError, WaitTimeoutError

T = TypeVar("T")

#: Seconds that something may take on a loaded machine, where it takes a second or two on an idle one.
PATIENCE = 120.0
#: Seconds between two questions at the most, unless the first interval is longer.
LONGEST = 0.4


def wait_until(condition: Callable[[], T], what: str, *, timeout: float = PATIENCE, interval: float = 0.05) -> T:
    """Ask until the answer is truthy, and return it.

    The intervals grow, because many waits at a time would take a part of the machine that they wait for.

    Args:
        condition: Asked at once and then after every interval. An exception that it raises ends the wait, unless the error is
            transient: an API server that has too much to do is asked again.
        what: Completes "timed out after 30 s waiting for ...".
        interval: Seconds until the second question; later intervals grow up to `LONGEST`.

    Raises:
        WaitTimeoutError: The answer was not truthy within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        trouble: ControlPlaneError | None = None
        try:
            if answer := condition():
                return answer
        except ControlPlaneError as error:
            if not error.transient:
                raise
            trouble = error
        if time.monotonic() >= deadline:
            reason = f"; the last time: {trouble}" if trouble else ""
            raise WaitTimeoutError(f"timed out after {timeout:.0f} s waiting for {what}{reason}") from trouble
        time.sleep(interval)
        interval = max(interval, min(1.25 * interval, LONGEST))
