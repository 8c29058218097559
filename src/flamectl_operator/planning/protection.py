"""Decides which executors carry the annotations that keep node autoscalers away, because they have work.

An annotation of the operator says when it last changed them, and which of them it set. So a Pod is patched at most once a minute,
whatever process patches it, and annotations of others stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from flamectl_operator.api.constants import DO_NOT_DISRUPT_ANNOTATION, PROTECTION_ANNOTATION, SAFE_TO_EVICT_ANNOTATION
from flamectl_operator.flame.snapshot import Load
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.part import Part
from flamectl_operator.planning.planned_group import PlannedGroup
from flamectl_operator.runtime.clock_reading import ClockReading

#: The annotations that the cluster autoscaler and Karpenter read.
PROTECTION = {SAFE_TO_EVICT_ANNOTATION: "false", DO_NOT_DISRUPT_ANNOTATION: "true"}
#: Between two patches of a Pod. Sessions may begin and end every second.
AT_MOST_EVERY = timedelta(seconds=60)

#: Annotations of a patch; None takes one off.
Changes = dict[str, str | None]


@dataclass(frozen=True)
class ProtectionPlan(Part):
    """The executors whose annotations change.

    Args:
        patch: Executors, each with the annotations to set or to take off.
        again: Seconds until an executor may be patched again that should be now; None when there is none.
    """

    patch: tuple[tuple[Executor, Changes], ...] = ()
    again: float | None = None

    def lines(self) -> Iterator[str]:
        """See `Part`."""
        for executor, changes in self.patch:
            verb = "protect" if any(changes.get(key) for key in PROTECTION) else "no longer protect"
            yield f"{verb} {executor.name} from autoscalers of nodes"


def plan_protection(group: PlannedGroup, common_annotations: Collection[str]) -> ProtectionPlan:
    """Decide which executors are protected from now on, and which no longer.

    Without an answer of the session manager each stays as it is.

    Args:
        common_annotations: The keys of annotations that the author gives to all objects.
    """
    desired, snapshot, now = group.effective.desired, group.cluster.flame.fresh, group.now
    wanted = desired.spec.drain.protect_busy
    if group.effective.suspended or (wanted and snapshot is None):
        return ProtectionPlan()
    authored = {*common_annotations, *desired.template.manifest["metadata"]["annotations"]}
    patch: list[tuple[Executor, Changes]] = []
    later: list[float] = []
    for executor in group.observed.executors:
        if executor.terminating or executor.terminal or not (wanted or executor.protected):
            continue
        busy = wanted and snapshot is not None and snapshot.load(executor.name)[0] is Load.BUSY
        changes = _changes(executor, authored, busy=busy)
        if changes is None:
            continue
        if (seconds := _seconds_until(executor.protection_changed, now)) > 0:
            later.append(seconds)
            continue
        ours = ",".join(key for key, value in changes.items() if value is not None)
        mark = f"{now.wall.replace(microsecond=0).isoformat()} {ours}".rstrip()
        patch.append((executor, {**changes, PROTECTION_ANNOTATION: mark}))
    return ProtectionPlan(tuple(patch), min(later, default=None))


def _changes(executor: Executor, authored: Collection[str], *, busy: bool) -> Changes | None:
    """Return the annotations to set or to take off, never those of others; None when all are as they should be."""
    present: Mapping[str, str] = executor.pod.annotations
    if busy == bool(executor.protected):
        return None
    if busy:
        return {key: value for key, value in PROTECTION.items() if key not in present and key not in authored} or None
    ours = (key for key in executor.protected if key in PROTECTION and key not in authored)
    return {key: None for key in ours if present.get(key) == PROTECTION[key]}


def _seconds_until(changed: datetime | None, now: ClockReading) -> float:
    """Return the seconds until a Pod may be patched again; a time more than a minute ahead is wrong and counts for nothing."""
    if changed is None or changed - now.wall > AT_MOST_EVERY:
        return 0.0
    begun = changed if changed > now.wall else now.counted_from(changed)
    return (begun + AT_MOST_EVERY - now.wall).total_seconds()
