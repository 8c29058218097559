"""Faults between a process and the API server. The scenario switches them on and off."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.objects import LEASES

if TYPE_CHECKING:
    from random import Random

#: Kinds of mishaps of a request. `late`: the client gives up, and the request is applied all the same some seconds later.
REQUEST_FAULTS = (
    "refused",
    "conflict",
    "throttled",
    "forbidden",
    "error-before",
    "error-after",
    "lost-before",
    "lost-after",
    "late",
)
#: Kinds of mishaps of a call to a session manager. `late`: the answer was true some seconds ago.
FLAME_FAULTS = ("refused", "lost before", "lost after", "late")
WRITES = frozenset({"create", "status", "patch", "delete"})


@dataclass
class Fate:
    """The fate of one request.

    Args:
        kind: `ok`, or one of the kinds above.
        there: Seconds until it reaches the server.
        back: Seconds until the answer reaches the client.
    """

    kind: str
    there: float
    back: float


@dataclass
class Storm:
    """A time in which requests fail.

    Args:
        kind: In which way.
        share: How many of them, from 0 to 1.
        until: When it is over.
        resource: Plural name; empty for all.
    """

    kind: str
    share: float
    until: float
    resource: str = ""


@dataclass
class Crash:
    """The next fitting request of a process is its last.

    Args:
        when: `before` it is applied, or `after`.
        verb: The kind of request, as "create" or "create pods"; empty for any write to what is reconciled.
        skip: How many fitting requests go through first.
        downtime: Seconds until another process starts.
    """

    when: str
    verb: str
    skip: int
    downtime: float


@dataclass
class Standstill:
    """A process stands still as soon as its next fitting request is applied, before it hears of that.

    Args:
        request: Verb and resource.
        seconds: How long.
    """

    request: str
    seconds: float


@dataclass
class Faults:
    """The network as it is at the moment.

    Args:
        random: Draws fates.
        latency: Seconds that a request usually takes in one direction, at the most.
        lag: Seconds that a watch usually is behind, at the most.
    """

    random: Random
    latency: float = 0.02
    lag: float = 0.02
    storms: list[Storm] = field(default_factory=list)
    crashes: list[Crash] = field(default_factory=list)
    standstills: list[Standstill] = field(default_factory=list)
    #: Extra lag of watches: by resource (empty for all), seconds and until when.
    lags: list[tuple[str, float, float]] = field(default_factory=list)
    #: The time until which requests may arrive although their senders have given up.
    late_until: float = 0.0
    #: The number of faults so far, by kind.
    happened: Counter[str] = field(default_factory=Counter)

    def fate(self, verb: str, resource: str, now: float) -> Fate:
        """Draw what becomes of a request."""
        there, back = self.random.random() * self.latency, self.random.random() * self.latency
        for storm in self.storms:
            if now < storm.until and storm.resource in {"", resource} and self.random.random() < storm.share:
                if storm.kind in {"conflict", "late", "lost-after", "error-after"} and verb not in WRITES:
                    continue
                self.happened[storm.kind] += 1
                return Fate(storm.kind, there, back)
        return Fate("ok", there, back)

    def crash(self, verb: str, resource: str) -> Crash | None:
        """The crash that hits this request, if one does."""
        for crash in self.crashes:
            any_write = not crash.verb and verb in WRITES and resource != LEASES
            that_kind = crash.verb == verb and resource != LEASES
            if any_write or that_kind or crash.verb == f"{verb} {resource}":
                crash.skip -= 1
                if crash.skip < 0:
                    self.crashes.remove(crash)
                    self.happened[f"crash {crash.when} {crash.verb or 'any write'}"] += 1
                    return crash
        return None

    def standstill(self, verb: str, resource: str) -> Standstill | None:
        """The one that begins when this request is applied, if one does."""
        for standstill in self.standstills:
            if standstill.request == f"{verb} {resource}":
                self.standstills.remove(standstill)
                return standstill
        return None

    def watch_lag(self, resource: str, now: float) -> float:
        """Seconds that the next line of a watch takes."""
        extra = [seconds for which, seconds, until in self.lags if now < until and which in {"", resource}]
        return self.random.random() * self.lag + max(extra, default=0.0)

    def calm(self) -> None:
        """From now on all is well."""
        self.storms.clear()
        self.crashes.clear()
        self.standstills.clear()
        self.lags.clear()
