"""Decides which executors carry the annotations that keep node autoscalers away, because they have work.

An annotation of the operator says when it last changed them, and which of them it set. So a Pod is patched at most once a minute,
whatever process patches it, and annotations of others stay as they are.

The cluster autoscaler keeps the nodes of all executors unless the podTemplate says that they may be evicted, because it does not
know their owner and they have emptyDirs. So the opposite value of a podTemplate is what an executor without work has.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from flamectl_operator.desired.executor_annotations import PROTECTION, AnnotationChanges, protection_annotation
from flamectl_operator.flame.answer import Load
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.comparison import Comparison, GroupComparison
from flamectl_operator.planning.sub_plans import ProtectionPlan
from flamectl_operator.runtime.clock_reading import ClockReading

#: Between two patches of a Pod. Sessions may begin and end every second.
AT_MOST_EVERY = timedelta(seconds=60)


def plan_protection(group: GroupComparison, compared: Comparison) -> ProtectionPlan:
    """Decide which executors are protected from now on, and which no longer.

    Without an answer of the session manager each stays as it is, and annotations that the author gives to all objects always do.
    """
    desired, answer, now = group.effective.desired, group.cluster.flame.fresh, group.now
    wanted = desired.spec.drain.protect_busy
    if group.effective.suspended or (wanted and answer is None):
        return ProtectionPlan()
    protection = {key: value for key, value in PROTECTION.items() if key not in compared.common_annotations}
    authored = desired.template.manifest["metadata"]["annotations"]
    patch: list[tuple[Executor, AnnotationChanges]] = []
    later: list[float] = []
    for executor in group.observed.executors:
        if executor.terminating or executor.terminal or not (wanted or executor.protected):
            continue
        busy = wanted and answer is not None and answer.load(executor.name)[0] is Load.BUSY
        changes = _changes(executor, protection, authored, busy=busy)
        if changes is None:
            continue
        if (seconds := _seconds_until(executor.protection_changed, now)) > 0:
            later.append(seconds)
            continue
        patch.append((executor, {**changes, **protection_annotation(now.wall, changes if busy else ())}))
    return ProtectionPlan(tuple(patch), min(later, default=None))


def _changes(
    executor: Executor, protection: Mapping[str, str], authored: Mapping[str, str], *, busy: bool
) -> AnnotationChanges | None:
    """Return the annotations to set, to set back or to remove, never those of others; None when all are as they should be.

    Args:
        protection: The annotations that protect, without those that the author gives to all objects.
        authored: The annotations of the podTemplate.
    """
    present: Mapping[str, str] = executor.pod.annotations
    if busy == bool(executor.protected):
        return None
    if busy:
        return {
            key: value for key, value in protection.items() if present.get(key) == authored.get(key) != value
        } or None
    ours = (key for key in executor.protected if key in protection)
    return {key: authored.get(key) for key in ours if present.get(key) == protection[key]}


def _seconds_until(changed: datetime | None, now: ClockReading) -> float:
    """Return the seconds until a Pod may be patched again; a time more than a minute ahead is wrong and counts for nothing."""
    if changed is None or changed - now.wall > AT_MOST_EVERY:
        return 0.0
    begun = changed if changed > now.wall else now.counted_from(changed)
    return (begun + AT_MOST_EVERY - now.wall).total_seconds()
