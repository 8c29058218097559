"""The operator's source of time, which a test or a simulation can replace, and the notice that the process stood still."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from flamectl_operator.runtime.clock_reading import ClockReading


class Clock(Protocol):
    """Wall clock, monotonic clocks and sleep in one protocol, because virtual time must move all of them."""

    def now(self) -> datetime:
        """Return the wall clock, aware and in UTC: for people, and for times that outlive the process."""

    def monotonic(self) -> float:
        """Return the event loop's clock: seconds since a fixed moment, which never go back."""

    def boottime(self) -> float:
        """Return seconds since a fixed moment that also pass while the machine sleeps; leases are measured with it."""

    def reading(self) -> ClockReading:
        """Return both clocks at this moment, for a decision."""

    async def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`; zero or less yields to other tasks once."""


_BOOTTIME: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The real time."""

    def now(self) -> datetime:
        """Return the system's wall clock in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the clock of asyncio's event loops, in seconds."""
        return time.monotonic()

    def boottime(self) -> float:
        """Return `CLOCK_BOOTTIME` in seconds; without one (macOS), the monotonic clock, which also runs in sleep there."""
        return time.clock_gettime(_BOOTTIME)

    def reading(self) -> ClockReading:
        """Return the time and the boottime of this moment."""
        return ClockReading(self.now(), self.boottime())

    async def sleep(self, seconds: float) -> None:
        """Sleep for `seconds` on the event loop's clock."""
        await asyncio.sleep(max(0.0, seconds))


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
