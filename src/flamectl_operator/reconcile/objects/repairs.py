"""Repairs of one FlameCluster's children: how often a child may be repaired, and whether somebody keeps changing it.

The first repairs come at once. Somebody who changes a child again and again would otherwise make the operator write as often as
the API server answers. The other writer does not give up, so the operator slows down and names it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from flamectl_operator.api.constants import FIELD_MANAGER
from flamectl_operator.kube.resources import Resource
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.reconcile.objects.churn import CONTENTION, SHORTEST_WAIT, Churn
from flamectl_operator.reconcile.objects.outcomes import undone
from flamectl_operator.runtime.bucket import Bucket
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.outcome import Outcome, blocked, wait
from flamectl_operator.runtime.text import MOST_NAMED, one_line

#: Writes a second that repair one child, and how many may come at once: an immutable ConfigMap takes a deletion and a creation.
REPAIR_RATE, REPAIR_BURST = 1.0, 2
#: The repairs of a series from which the child counts as contended. A person who tries things out makes fewer.
CONTENDED_AFTER = 6
#: Seconds without a repair that end a series.
SERIES_PAUSE_SECONDS = 60.0
#: The most characters of a field manager that are shown, as many as Kubernetes allows.
_MAX_WRITER_LENGTH = 128
#: Seconds between two looks at all series for old ones, because there may be one for each Pod.
SWEEP_INTERVAL = 1.0
_NONE: frozenset[str] = frozenset()
#: The kind and the name of a child, and the aspect of it that is restored by itself.
_Key: TypeAlias = tuple[str, str, str]


@dataclass
class _Series:
    """Repairs of one child, each less than `SERIES_PAUSE_SECONDS` seconds after the one before.

    Args:
        wanted: The hash of the manifest to which the child was restored.
        writer: The field manager that made the sixth repair necessary. It stays, so that the status does not waver.
        undone: The outcome of the last write, if the answer to it did not show what was written.
    """

    wanted: int
    bucket: Bucket
    last: float
    repairs: int = 0
    writer: str = ""
    undone: Outcome | None = None


class Repairs:
    """The latest repairs of one FlameCluster's children. They may be lost without harm."""

    def __init__(self, clock: Clock, cluster: str) -> None:
        self._clock = clock
        self.churn = Churn(clock, cluster)
        self._series: dict[_Key, _Series] = {}
        self._swept = float("-inf")
        #: Whether somebody has kept changing a child lately.
        self._some_contended = False

    def admit(self, resource: Resource[Any], name: str, wanted: Mapping[str, Any], aspect: str = "") -> Outcome | None:
        """Return why a child must not be written now; None when it may be, which takes a token.

        Args:
            wanted: The manifest, or the aspect of it that is restored. When the author changes it, the operator does not repair
                but follow, which is not limited.
            aspect: The name of what is restored by itself; empty for the rest.
        """
        now, key = self._clock.monotonic(), (resource.kind, name, aspect)
        written = hash(msgspec.json.encode(wanted, order="deterministic"))
        if now >= self._swept + SWEEP_INTERVAL:
            self._forget()
        series = self._series.get(key)
        if series is None or series.wanted != written or series.last <= now - SERIES_PAUSE_SECONDS:
            series = self._series[key] = _Series(written, Bucket(REPAIR_RATE, REPAIR_BURST, now), now)
        if series.bucket.try_take(now):
            return None
        # The status reports a webhook that undid the last write until a write succeeds.
        return series.undone or wait(CONTENTION, "", max(series.bucket.delay(now), SHORTEST_WAIT))

    def undone(self, resource: Resource[Any], name: str, changes: Mapping[str, Any], aspect: str = "") -> Outcome:
        """Return the outcome for a child that needs changes by the answer to the operator's own write."""
        outcome = undone(resource, name, changes)
        if (series := self._series.get((resource.kind, name, aspect))) is not None:
            series.undone = outcome
        return outcome

    def failed(self, resource: Resource[Any], name: str) -> None:
        """Give back the token of a failed write: it changed nothing, and the next pass must meet the error again."""
        for (kind, child, _), series in self._series.items():
            if (kind, child) == (resource.kind, name):
                series.bucket.give_back()

    def record(self, resource: Resource[Any], name: str, before: KubernetesObject | None, aspect: str = "") -> bool:
        """Count a repair that `admit` allowed; return whether somebody keeps changing the child, so that one more is no news."""
        series = self._series.get((resource.kind, name, aspect))
        if series is None:  # the write took longer than a series lasts
            return False
        series.last = self._clock.monotonic()
        series.repairs += 1
        series.undone = None
        if series.repairs == CONTENDED_AFTER:
            self._some_contended = True
            series.writer = _writer(before)
        return series.repairs >= CONTENDED_AFTER

    def contentions(self) -> tuple[Outcome, ...]:
        """Return outcomes for the first children that somebody has kept changing until now, also while they are as wanted.

        Pods that something keeps deleting come last.
        """
        contended, end = self._contended(), SERIES_PAUSE_SECONDS - self._clock.monotonic()
        changed = (
            blocked(CONTENTION, _message(key, contended[key]), max(contended[key].last + end, SHORTEST_WAIT))
            for key in sorted(contended)[:MOST_NAMED]
        )
        return (*changed, *self.churn.contentions())

    @property
    def contended_kinds(self) -> frozenset[str]:
        """The kinds of children that somebody keeps changing. Anything known about these holds for a moment only."""
        return frozenset(kind for kind, *_ in self._contended()) if self._some_contended else _NONE

    def _contended(self) -> dict[_Key, _Series]:
        if not self._some_contended:
            return {}
        self._forget()
        contended = {key: series for key, series in self._series.items() if series.repairs >= CONTENDED_AFTER}
        self._some_contended = bool(contended)
        return contended

    def _forget(self) -> None:
        self._swept = self._clock.monotonic()
        if self._series:
            since = self._swept - SERIES_PAUSE_SECONDS
            self._series = {key: series for key, series in self._series.items() if series.last > since}


def _message(key: _Key, series: _Series) -> str:
    kind, name, _ = key
    by = f' by "{series.writer}" (metadata.managedFields)' if series.writer else ""
    return (
        f'{kind} "{name}" is changed again and again{by}; the operator restores it once a second at most.'
        " Stop the program or the person that changes it"
    )


def _writer(child: KubernetesObject | None) -> str:
    """Return the field manager that wrote last beside this operator; empty when unknown."""
    entries = [] if child is None else [entry for entry in child.metadata.managed_fields if entry.manager]
    # Two operators that disagree have the same name, and then there is no other.
    others = [entry for entry in entries if entry.manager != FIELD_MANAGER] or entries
    latest = max(others, key=lambda entry: entry.written or "", default=None)
    return "" if latest is None else one_line(latest.manager, _MAX_WRITER_LENGTH)
