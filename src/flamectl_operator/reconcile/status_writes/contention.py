"""How often a status is written that another writer keeps overwriting."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from flamectl_operator.runtime.doubling import doubled

#: Seconds from writing a status to repeating it after it was overwritten: at first, and at most. The wait doubles each time.
FIRST_REPEAT = 1.0
LAST_REPEAT = 600.0
#: How many statuses are remembered. A pass writes two at most, and a status may waver between a few.
MAX_REMEMBERED = 8


@dataclass(frozen=True)
class StatusContention:
    """The latest status writes of a process for one FlameCluster. All times are of one clock that only goes forward.

    Two operators of different versions or settings may describe a FlameCluster differently for good, and would overwrite each
    other's status as fast as the API server allows. So a new status is written at once, but one that was overwritten is repeated
    ever more slowly.

    Args:
        stored: The status as the process wrote it last, or last agreed with it; None before its first write.
        ours: Fingerprints of statuses that the process wrote, the latest last.
        repeats: How often the process repeated itself since it last wrote something new.
    """

    stored: dict[str, Any] | None = None
    ours: tuple[str, ...] = ()
    repeats: int = 0
    wrote_at: float = float("-inf")

    def overwritten(self, stored: dict[str, Any]) -> bool:
        """Return whether another writer has changed the status since this process wrote it."""
        return self.stored is not None and stored != self.stored

    def agreed(self, stored: dict[str, Any]) -> "StatusContention":
        """Return the state after the stored status is what this process would write."""
        return self if stored == self.stored else replace(self, stored=stored)

    def delay(self, wanted: dict[str, Any], stored: dict[str, Any], now: float) -> float:
        """Return the seconds until a status may be written over the stored one; 0 when it may be written now."""
        if not self.overwritten(stored) or status_fingerprint(wanted) not in self.ours:
            return 0.0
        return max(0.0, self.wrote_at + doubled(FIRST_REPEAT, LAST_REPEAT, self.repeats + 1) - now)

    def wrote(
        self, wanted: dict[str, Any], before: dict[str, Any], stored: dict[str, Any], now: float
    ) -> "StatusContention":
        """Return the state after a write."""
        written = status_fingerprint(wanted)
        again = self.overwritten(before) and written in self.ours
        return StatusContention(
            stored=stored,
            ours=(*(each for each in self.ours if each != written), written)[-MAX_REMEMBERED:],
            repeats=self.repeats + 1 if again else 0,
            wrote_at=now,
        )


def status_fingerprint(status: dict[str, Any]) -> str:
    """Return a fingerprint of everything that a status says except the transition times of its conditions."""
    conditions = [
        {key: value for key, value in condition.items() if key != "lastTransitionTime"}
        for condition in status.get("conditions", ())
    ]
    text = msgspec.json.encode({**status, "conditions": conditions}, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:16]
