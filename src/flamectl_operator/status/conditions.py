"""The conditions of a FlameCluster. `lastTransitionTime` changes only with `status`."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from flamectl_operator.api.constants import RESTARTED_AT_ANNOTATION
from flamectl_operator.api.status import SUSPENDING, Condition, ConditionType, FlameClusterStatus, UnhealthyPod, find
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.pods import NODE_NOT_REPORTING
from flamectl_operator.observed.scheduling import UNSCHEDULABLE
from flamectl_operator.planning.children import CHILDREN
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.runtime.lazy import cached_property
from flamectl_operator.runtime.outcome import Outcome, blocked
from flamectl_operator.runtime.text import counted, joined
from flamectl_operator.status import reason as reasons
from flamectl_operator.status.health import Health
from flamectl_operator.status.notices import Notice
from flamectl_operator.status.pod_problems import FAILING, MAX_GROUPS, NO_TROUBLE, ProblemGroup, retried
from flamectl_operator.status.reason import (
    DEVICE_UNHEALTHY,
    FOREIGN_PODS,
    HEALTHY,
    IDLE_SUSPENDED,
    INVALID_SPEC,
    NOT_OBSERVED,
    PAUSED,
    RECOVERING,
    SESSION_MANAGER_NOT_REACHABLE,
    SESSION_PAUSED,
    STARTING,
    SUSPENDED,
    UPDATING,
)
from flamectl_operator.status.recent_failures import FailureSummary
from flamectl_operator.status.work import work_left, work_or_wait

#: Reasons for `Degraded` that follow from the spec, the Pods and the answers of Flame; all others were reported by a pass.
COMPUTED = (
    frozenset({INVALID_SPEC, NODE_NOT_REPORTING, UNSCHEDULABLE, DEVICE_UNHEALTHY})
    | {SESSION_MANAGER_NOT_REACHABLE, SESSION_PAUSED, FOREIGN_PODS}
    | FAILING
)
#: Reason of `Degraded` when nothing is wrong.
AS_EXPECTED = "AsExpected"

_ALL_READY = "All wanted Pods are ready"
#: The work that begins with a deletion.
_DELETES = frozenset({"ReplacingSessionManager", "RemovingExecutors", "ReplacingStalePods"})
#: Reasons for which this operator may delete nothing.
LOCKED = frozenset({"LockDenied", "LockHeld"})
_NOTHING_DELETED = "The operator can delete nothing, see Degraded"
_NO_PODS = "No Pods are wanted"
_CHANGES_NOTHING = "The operator changes nothing"
#: After one of these reasons, or without a reason, a cluster is `Starting` until it is healthy.
_BEFORE_START = frozenset({None, NOT_OBSERVED, STARTING, SUSPENDING, SUSPENDED, IDLE_SUSPENDED})


@dataclass(frozen=True)
class ConditionWriter:
    """Makes conditions whose `lastTransitionTime` moves only with `status`, as `meta.SetStatusCondition` does."""

    before: Sequence[Condition]
    generation: int
    now: datetime

    def make(self, kind: ConditionType, reason: str, message: str, *, status: bool | None) -> Condition:
        """Return a condition, whose status is None when it is unknown whether it holds."""
        known = next((condition for condition in self.before if condition.type == kind), None)
        text: Literal["True", "False", "Unknown"] = "Unknown" if status is None else "True" if status else "False"
        wanted = (text, reason, message, self.generation)
        if known is not None and (known.status, known.reason, known.message, known.observed_generation) == wanted:
            return known
        return Condition(
            type=str(kind),
            status=text,
            reason=reason,
            message=message,
            observed_generation=self.generation,
            last_transition_time=self.now.replace(microsecond=0)
            if known is None or known.status != text
            else known.last_transition_time,
        )

    def merge(self, ours: Iterable[Condition], *, without: Collection[str] = ()) -> tuple[Condition, ...]:
        """Return all conditions of the status in a fixed order; conditions of other writers stay as they are.

        Args:
            without: Types of conditions that end when they are not among these.
        """
        kept = [condition for condition in self.before if condition.type not in without]
        return tuple({condition.type: condition for condition in (*kept, *ours)}.values())


@dataclass(frozen=True)
class ValidSpecConditions:
    """The conditions that are known of a valid spec, and the facts from which they follow."""

    writer: ConditionWriter
    plan: ClusterPlan
    health: Health
    before: FlameClusterStatus
    outcomes: Sequence[Outcome]
    warnings: Sequence[str]

    @cached_property
    def retried(self) -> tuple[UnhealthyPod, ...]:
        """The stored failures of Pods that are tried once more, which alone keep the cluster degraded."""
        health = self.health
        over = health.notices or self.plan.effective.suspended
        return () if over else retried(self.plan.observed, health.problems, self.before)

    def compute(self, *, midway: bool = False) -> tuple[Condition, ...]:
        """Compute the conditions, `midway` before the pass knows what the API server answers to this generation."""
        degraded = self._degraded()
        # Until the pass has tried this generation, a refusal of an earlier one is neither resolved nor repeated.
        unknown = midway and degraded.status == "False" and _refused(self.before) is not None
        return (
            self._ready(degraded),
            self._progressing(),
            self._config_valid(),
            *(() if unknown else (degraded,)),
            self._suspended(),
            self._paused(),
        )

    def _ready(self, degraded: Condition) -> Condition:
        """Return `Ready` with the reason of the whole status; a paused cluster has the reason of its health."""
        health = self.health
        found = [self._calm_reason()]
        found += [degraded.reason] * (degraded.status == "True")
        if not health.healthy and not self.plan.effective.suspended:
            found += [group.reason for group in health.problems]
        # The message of Degraded names recent failures and a session manager that does not answer.
        message = _ALL_READY if health.healthy and health.notices else health.message
        reason = reasons.most_important(found)
        return self.writer.make(ConditionType.READY, reason, message, status=health.healthy)

    def _calm_reason(self) -> str:
        """Return the reason of a cluster that needs no attention."""
        if self.plan.effective.suspended:
            return _suspension(self.plan.observed, self.plan.effective)
        if self.health.healthy:
            return HEALTHY
        reconciled = self.before.generations.reconciled
        if reconciled == 0 or self.before.reason in _BEFORE_START:
            return STARTING
        stale = self.plan.has_stale_pods
        # Where the number of executors follows the demand, it changes without a change of the spec.
        asked = reconciled != self.writer.generation or self.plan.effective.group.scaling is not None
        outdated = any(child.need in self.plan.needs for child in CHILDREN)
        return UPDATING if asked or stale or outdated else RECOVERING

    def _progressing(self) -> Condition:
        kind = ConditionType.PROGRESSING
        if self.plan.effective.desired.spec.paused:
            return self.writer.make(kind, PAUSED, _CHANGES_NOTHING, status=False)
        if self.plan.effective.suspended:
            left = bool(self.plan.observed.components)
            message = _left(self.plan.observed) if left else _NO_PODS
            return self.writer.make(kind, _suspension(self.plan.observed, self.plan.effective), message, status=left)
        work = (work_left if self.health.healthy else work_or_wait)(self.plan)
        if work is not None:
            deferral = next((each for each in self.outcomes if each.reason in LOCKED and each.attention), None)
            if deferral is not None and work.reason in _DELETES:
                return self.writer.make(kind, deferral.reason, _NOTHING_DELETED, status=False)
            return self.writer.make(kind, work.reason, work.message, status=True)
        return self.writer.make(kind, "Complete", "Nothing is left to do", status=False)

    def _degraded(self) -> Condition:
        serious = [outcome for outcome in self.outcomes if outcome.attention]
        if serious:
            serious.sort(key=lambda outcome: reasons.rank(outcome.reason))
            message = joined(outcome.message for outcome in serious)
            return self.writer.make(ConditionType.DEGRADED, serious[0].reason, message, status=True)
        health = self.health
        standing = [] if health.healthy else [group for group in health.problems if group.reason not in NO_TROUBLE]
        found: list[FailureSummary | Notice | ProblemGroup] = [*health.notices, *standing]
        if found:
            found.sort(key=lambda each: reasons.rank(each.reason))
            message = joined(map(str, found[:MAX_GROUPS]))
            return self.writer.make(ConditionType.DEGRADED, found[0].reason, message, status=True)
        if self.retried and (kept := find(self.before, ConditionType.DEGRADED)) is not None:
            return self.writer.make(ConditionType.DEGRADED, kept.reason, kept.message, status=True)
        return self.writer.make(ConditionType.DEGRADED, AS_EXPECTED, "No action is needed", status=False)

    def _config_valid(self) -> Condition:
        """Return the condition of a valid spec; its message lists probable mistakes and fields without effect."""
        if not self.warnings:
            return self.writer.make(ConditionType.CONFIG_VALID, "Valid", "The spec is valid", status=True)
        message = f"The spec is valid, with warnings: {'; '.join(self.warnings)}"
        return self.writer.make(ConditionType.CONFIG_VALID, "ValidWithWarnings", message, status=True)

    def _suspended(self) -> Condition:
        kind = ConditionType.SUSPENDED
        if not self.plan.effective.suspended:
            return self.writer.make(kind, "NotSuspended", "Pods are wanted", status=False)
        if self.plan.observed.components:
            return self.writer.make(kind, SUSPENDING, _left(self.plan.observed), status=False)
        if self.plan.effective.idleness.suspended:
            message = f"{_NO_PODS}: {self.plan.effective.idleness.message}"
            return self.writer.make(kind, IDLE_SUSPENDED, message, status=True)
        return self.writer.make(kind, SUSPENDED, _NO_PODS, status=True)

    def _paused(self) -> Condition:
        if not self.plan.effective.desired.spec.paused:
            return self.writer.make(ConditionType.PAUSED, "NotPaused", "The operator follows the spec", status=False)
        return self.writer.make(ConditionType.PAUSED, PAUSED, _CHANGES_NOTHING, status=True)


def misplaced(annotations: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with annotations of a FlameCluster that belong elsewhere."""
    if RESTARTED_AT_ANNOTATION in annotations:
        path, place = f"metadata.annotations[{RESTARTED_AT_ANNOTATION}]", "podTemplate.metadata.annotations"
        yield f"{path}: has no effect; to restart the Pods of a component, set it in its {place}"


def invalid_spec_conditions(writer: ConditionWriter, message: str) -> tuple[Condition, ...]:
    """Return the conditions of an invalid spec, which all have the same reason."""
    kinds = (ConditionType.READY, ConditionType.PROGRESSING, ConditionType.CONFIG_VALID, ConditionType.DEGRADED)
    return tuple(writer.make(kind, INVALID_SPEC, message, status=kind is ConditionType.DEGRADED) for kind in kinds)


def carried_over(status: FlameClusterStatus, generation: int) -> tuple[Outcome, ...]:
    """Return the refusal of an earlier pass over the same generation, which stands until the end of a pass."""
    condition = _refused(status)
    if condition is None or condition.observed_generation != generation:
        return ()
    return (blocked(condition.reason, condition.message),)


def _refused(status: FlameClusterStatus) -> Condition | None:
    """Return `Degraded` if a pass reported it, because the Pods do not show its end."""
    degraded = find(status, ConditionType.DEGRADED)
    if degraded is None or degraded.status != "True" or degraded.reason in COMPUTED:
        return None
    return degraded


def _suspension(observed: ObservedCluster, effective: EffectiveSpec) -> str:
    if observed.components:
        return SUSPENDING
    return IDLE_SUSPENDED if effective.idleness.suspended else SUSPENDED


def _left(observed: ObservedCluster) -> str:
    return f"{counted(len(observed.components), 'Pod')} left"
