"""When somebody else writes another status over ours: how often to say the same again.

Two operators of different versions or settings may see the same FlameCluster and describe it differently for good. Each would
write its own status over the other's as fast as the API server lets it. So what is new is said at once; but to repeat what
somebody else wrote over waits longer each time. The wait applies only where the other's status is one that was answered before,
for something new is no part of the quarrel. After eight different ones in a row it applies to all, so that a writer which never
repeats itself cannot keep this one writing.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

#: Seconds from saying something to saying it again, when it was written over: at first, and at the most. It doubles each time.
FIRST_REPEAT = 1.0
LAST_REPEAT = 600.0
#: Statuses that are remembered as said. One pass has two at the most, and whoever is contradicted may waver between a few.
REMEMBERED = 8


@dataclass(frozen=True)
class Voice:
    """What a process said lately in the status of one FlameCluster. All times are of one clock that only goes forward.

    Args:
        stored: The status as it wrote it last, or last agreed with it; None when it has not said anything yet.
        said: Fingerprints of what it said, the latest last.
        heard: Fingerprints of what it was written over by, as far as it has answered, the latest last.
        repeats: How often it has said the same again since it said something new.
        unheard: How many of the last ones of these were answers to what it had not heard before.
        spoke_at: When it last wrote.
    """

    stored: dict[str, Any] | None = None
    said: tuple[str, ...] = ()
    heard: tuple[str, ...] = ()
    repeats: int = 0
    unheard: int = 0
    spoke_at: float = float("-inf")

    def overwritten(self, stored: dict[str, Any]) -> bool:
        """Whether somebody else has written the status since this process did, and otherwise."""
        return self.stored is not None and stored != self.stored

    def agreed(self, stored: dict[str, Any]) -> Voice:
        """The status that is stored is what this process would say, whoever wrote it."""
        return replace(self, stored=stored)

    def must_wait(self, wanted: dict[str, Any], stored: dict[str, Any], now: float) -> float:
        """Seconds until a status may be written over the one that is stored; 0 when it may be now."""
        if not self.overwritten(stored) or fingerprint(wanted) not in self.said:
            return 0.0
        # The exponent is bounded so that no number of repetitions overflows.
        longer = min(FIRST_REPEAT * 2.0 ** min(self.repeats, 16), LAST_REPEAT)
        quarrel = fingerprint(stored) in self.heard or self.unheard >= REMEMBERED
        pause = longer if quarrel else FIRST_REPEAT
        return max(0.0, self.spoke_at + pause - now)

    def spoke(self, wanted: dict[str, Any], before: dict[str, Any], stored: dict[str, Any], now: float) -> Voice:
        """A status has been written.

        Args:
            wanted: What was written.
            before: What was stored before.
            stored: What is stored now.
            now: The time.
        """
        said = fingerprint(wanted)
        theirs = fingerprint(before) if self.overwritten(before) else None
        again = theirs is not None and said in self.said
        return Voice(
            stored=stored,
            said=_with(self.said, said),
            heard=_with(self.heard, theirs) if theirs is not None else self.heard,
            repeats=self.repeats + 1 if again else 0,
            unheard=self.unheard + 1 if again and theirs not in self.heard else 0,
            spoke_at=now,
        )


def _with(known: tuple[str, ...], latest: str) -> tuple[str, ...]:
    return (*(each for each in known if each != latest), latest)[-REMEMBERED:]


def fingerprint(status: dict[str, Any]) -> str:
    """What a status says: all of it but since when its conditions are as they are."""
    conditions = [
        {key: value for key, value in condition.items() if key != "lastTransitionTime"}
        for condition in status.get("conditions", ())
    ]
    text = json.dumps({**status, "conditions": conditions}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
