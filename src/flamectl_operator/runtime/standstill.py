"""Notices that the process stood still, as on a machine that was paused."""

from __future__ import annotations

from collections.abc import Callable

from flamectl_operator.runtime.clock import Clock

#: Seconds between two looks at the clock, and the seconds that one may be late until the process counts as having stood still.
LOOK_PERIOD = 10.0
STOOD_STILL = 10.0


async def notice_standstills(clock: Clock, report: Callable[[float], None]) -> None:
    """Call a function with the seconds of each standstill, until cancelled."""
    while True:
        before = clock.boottime()
        await clock.sleep(LOOK_PERIOD)
        late = clock.boottime() - before - LOOK_PERIOD
        if late > STOOD_STILL:
            report(late)
