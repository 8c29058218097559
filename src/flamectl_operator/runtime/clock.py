"""Where the operator gets the time from, so that a test or a simulation can be the one who gives it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall clock, monotonic clocks and sleep, which belong together: virtual time must move all of them."""

    def now(self) -> datetime:
        """The wall clock, aware and in UTC. For what people read, never for measuring how long something took."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment, never going back: the event loop's own clock."""
        ...

    def boottime(self) -> float:
        """Seconds since some fixed moment that also pass while the machine sleeps: what a lease is measured with."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass; zero or less lets others run once."""
        ...


_BOOTTIME: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The real time."""

    def now(self) -> datetime:
        """The system's wall clock in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """The running event loop's clock, in seconds.

        Raises:
            RuntimeError: When no event loop runs.
        """
        return asyncio.get_running_loop().time()

    def boottime(self) -> float:
        """`CLOCK_BOOTTIME`, in seconds; where there is none (macOS), the monotonic clock, which there goes on in sleep."""
        return time.clock_gettime(_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass on the event loop's clock."""
        await asyncio.sleep(max(0.0, seconds))
