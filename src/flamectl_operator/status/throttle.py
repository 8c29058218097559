"""How often a status is written while nothing but counts changes.

While 500 executors become ready one after the other, each of them changes a count and the message. A write for each costs the API
server as much as the executor itself. So the first change is written at once, and further ones after a pause. A status that says
something new is never held back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

#: Seconds between two writes of counts: at first, and at most. The pause doubles while counts keep changing.
FIRST_PAUSE = 0.25
LAST_PAUSE = 2.0
#: Seconds between two writes of `sessions` alone: tasks come and go all the time.
SESSIONS_PAUSE = 10.0
#: A shorter time in seconds counts as over, because timers may fire a little early.
PRECISION = 0.001

#: Fields of `executorManager` that change with each executor.
_COUNTS = ("ready", "current", "updated")
_NUMBER = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class Throttle:
    """The writes of counts so far. All times are of one clock that only goes forward, and statuses are JSON data.

    Args:
        wrote_at: When the last status was written.
        pause: The seconds to wait after that before counts are written again.
    """

    wrote_at: float = float("-inf")
    pause: float = FIRST_PAUSE

    def delay(self, before: dict[str, Any], after: dict[str, Any], now: float) -> float:
        """Return the seconds until a status may be written; 0 when it may be written now."""
        if not _only_counts_differ(before, after):
            return 0.0
        only_sessions = {**before, "sessions": None} == {**after, "sessions": None}
        remaining = (self.wrote_at + SESSIONS_PAUSE if only_sessions else self.counts_due) - now
        return remaining if remaining > PRECISION else 0.0

    @property
    def counts_due(self) -> float:
        """When counts of executors may be written again."""
        return self.wrote_at + self.pause

    def wrote(self, before: dict[str, Any], after: dict[str, Any], now: float) -> Throttle:
        """Return the state after a write."""
        again = now < self.wrote_at + 2 * self.pause and _only_counts_differ(before, after)
        return Throttle(now, min(2 * self.pause, LAST_PAUSE) if again else FIRST_PAUSE)


def _only_counts_differ(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return _without_counts(before) == _without_counts(after)


def _without_counts(status: dict[str, Any]) -> dict[str, Any]:
    """Return a status without counts of executors and tasks, numbers in messages, and Pods by name."""
    executors = status.get("executorManager") or {}
    return {
        **status,
        "message": _without_numbers(status.get("message")),
        "executorManager": {key: value for key, value in executors.items() if key not in _COUNTS},
        "conditions": [
            {**each, "message": _without_numbers(each.get("message"))} for each in status.get("conditions") or ()
        ],
        "unhealthyPods": None,
        "sessions": None,
    }


def _without_numbers(message: Any) -> str:
    return _NUMBER.sub("#", str(message or ""))
