"""The clock of a server, by which all its clients agree about the times that outlive a process.

Each answer of the server names its time, and `CLOCK_BOOTTIME` carries that time on until the next answer. So it makes no
difference how wrong the wall clock of this machine is, when it jumps or how fast it runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog

from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.clock_reading import ALWAYS, ClockReading

#: Seconds that two clocks may be apart until they count as different. Synchronized clocks differ by less than one.
TOLERANCE = 5.0
#: Seconds for which all answers must agree about another time until it is believed, and the fewest answers that must. One of
#: several servers behind one address may have a wrong clock, and a proxy may answer now and then.
CONFIRM_AFTER = 10.0
CONFIRM_BY = 3
#: Seconds that a time in whole seconds leaves open.
_RESOLUTION = 1.0


@dataclass(frozen=True)
class _Candidate:
    """Another time than expected, given for `boottime` 0, on which answers agree since a `boottime`."""

    origin: float
    since: float
    answers: int


class ServerClock:
    """The server's time as the wall clock, and the clocks of this machine for the rest.

    Until the first answer the wall clock is that of this machine.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # The clocks of this machine as they are, because each step of a pass reads them and every further call costs time.
        self.monotonic, self.boottime, self.sleep = clock.monotonic, clock.boottime, clock.sleep
        #: The server's time, and that of this machine, at `boottime` 0, in seconds since 1970.
        self._origin: float | None = None
        self._own: float | None = None
        self._candidate: _Candidate | None = None
        self._steady_since = ALWAYS
        self._subscribers: list[Callable[[], None]] = []
        self._log = structlog.get_logger(component="clock")

    def subscribe(self, subscriber: Callable[[], None]) -> None:
        """Call a function after each jump, because a wait until a time of this clock has another length then."""
        self._subscribers.append(subscriber)

    def now(self) -> datetime:
        """Return the server's time in UTC."""
        return self._clock.now() if self._origin is None else _moment(self._origin + self.boottime())

    def reading(self) -> ClockReading:
        """Return the server's time and the boottime of this moment."""
        return ClockReading(self.now(), self.boottime(), self._steady_since)

    def heard(self, time: datetime, sent: float) -> None:
        """Take in the time that an answer names, in whole seconds, to a question that was sent at `sent` by `boottime`.

        The server wrote it after the question was sent and before the answer arrived. Between these limits the clock stays where
        it is, so that answers that are late or cut off to seconds do not move it.
        """
        now, second = self.boottime(), time.timestamp()
        least, most = second - now, second + _RESOLUTION - sent
        self._compare_own(now)
        if self._origin is None:
            self._begin((least + most) / 2, now)
            return
        fitted = min(max(self._origin, least), most)
        if abs(fitted - self._origin) <= TOLERANCE:
            self._origin, self._candidate = fitted, None
            return
        candidate = self._candidate
        if candidate is None or not least - TOLERANCE <= candidate.origin <= most + TOLERANCE:
            self._candidate = _Candidate(fitted, now, 1)
            return
        self._candidate = candidate = _Candidate(
            min(max(candidate.origin, least), most), candidate.since, candidate.answers + 1
        )
        if now - candidate.since >= CONFIRM_AFTER and candidate.answers >= CONFIRM_BY:
            self._jump(candidate.origin - self._origin, now)

    def _begin(self, origin: float, now: float) -> None:
        self._origin = origin
        ahead = self._clock.now().timestamp() - now - origin
        if abs(ahead) > TOLERANCE:
            # If the wrong clock is the server's, the times that were written before may be from another clock.
            self._steady_since = _moment(origin + now)
            self._log.warning(
                "the clock of this machine differs from the API server's, whose time counts", seconds=round(ahead, 1)
            )

    def _jump(self, seconds: float, now: float) -> None:
        present = self.now() + timedelta(seconds=seconds)
        self._origin, self._candidate = present.timestamp() - now, None
        # A jump back makes every wait longer by itself, but no wait may count from the future.
        self._steady_since = present if seconds > 0 else min(self._steady_since, present)
        self._log.warning("the API server's clock jumped", seconds=round(seconds, 1))
        for subscriber in self._subscribers:
            subscriber()

    def _compare_own(self, now: float) -> None:
        """Say when the wall clock of this machine has jumped, although nothing depends on it."""
        own = self._clock.now().timestamp() - now
        if self._own is not None and abs(own - self._own) > TOLERANCE:
            self._log.warning(
                "the clock of this machine jumped; the API server's time counts", seconds=round(own - self._own, 1)
            )
        self._own = own


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
