"""A reading of both clocks that decisions use."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

#: The earliest time, for a clock that has only shown that it is steady.
ALWAYS = datetime.min.replace(tzinfo=UTC)
#: Recorded times and the clock may differ by so much without a meaning, because clocks are no more accurate.
CLOCKS_DIFFER = timedelta(seconds=5)


@dataclass(frozen=True)
class ClockReading:
    """A reading of both clocks at the same moment.

    Args:
        wall: The wall clock, aware and in UTC: for times that are compared with times in a status.
        boottime: The clock's `boottime`, in seconds: for durations.
        steady_since: Since when this process has seen the wall clock run without a jump ahead, by that clock; `ALWAYS` if nothing
            speaks against an earlier time.
    """

    wall: datetime
    boottime: float
    steady_since: datetime = ALWAYS

    def counted_from(self, time: datetime) -> datetime:
        """Return from when a wait counts that began at a recorded time and must not end early, because it protects work.

        It is that time while nothing is known against the clocks. After a jump ahead, and in a process that finds clocks that
        differ, the wait counts anew: the process lives through its whole length once. A time in the future counts as now.
        """
        return min(max(time, self.steady_since), self.wall)
