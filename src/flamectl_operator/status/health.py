"""`state` and `message`: the health of a FlameCluster in one word and in one line.

The message names Pods and claims that should have ended although no step waits for their end, because they keep their CPU,
memory, devices and storage.

Precedence: invalid spec, suspended, the rest; that it is paused is added to the message. The operator writes no status
for a FlameCluster that is being deleted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import itemgetter

from flamectl_operator.api.checks.consistency import near_names
from flamectl_operator.api.constants import SESSION_MANAGER
from flamectl_operator.api.status import State
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.pods import NODE_NOT_REPORTING
from flamectl_operator.observed.scheduling import UNSCHEDULABLE
from flamectl_operator.planning.claim_outcomes import FILE_SYSTEM_RESIZE_PENDING
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.registration import NOT_REGISTERED
from flamectl_operator.planning.termination import finalizers_in_brackets, held_by_finalizers
from flamectl_operator.runtime.outcome import Outcome
from flamectl_operator.runtime.text import counted, date_and_time, joined, listing, shortened
from flamectl_operator.status.notices import Notice
from flamectl_operator.status.object_cache import object_cache_line
from flamectl_operator.status.pod_problems import FAILING, MAX_GROUPS, ProblemGroup
from flamectl_operator.status.recent_failures import FailureSummary
from flamectl_operator.status.work import work_or_wait

ALL_HEALTHY = "All components healthy"
#: Seconds of a grace period, Kubernetes' default, beyond which a suspension names the Pod.
DEFAULT_GRACE_SECONDS = 30


@dataclass(frozen=True)
class Health:
    """The health of a FlameCluster.

    Args:
        healthy: Whether all desired objects exist, current and ready.
        problems: The unhealthy Pods, in groups, that the recent failures do not report.
        notices: Notices for a person, also while all Pods are ready. The recent failures of a component are among them unless
            it fails now, because a present failure tells more.
    """

    state: State
    message: str
    healthy: bool = False
    problems: tuple[ProblemGroup, ...] = ()
    notices: tuple[FailureSummary | Notice, ...] = ()


@dataclass(frozen=True)
class ValidSpecHealth:
    """The facts from which the health of a FlameCluster with a valid spec follows."""

    plan: ClusterPlan
    problems: tuple[ProblemGroup, ...] = ()
    notices: Sequence[FailureSummary | Notice] = ()
    outcomes: Sequence[Outcome] = ()
    late: str = ""

    def compute(self) -> Health:
        """Compute the health."""
        health = self._suspended() if self.plan.effective.suspended else self._unsuspended()
        if self.late:
            health = replace(health, message=shortened(joined([health.message, self.late])))
        if self.plan.effective.desired.spec.paused:
            return replace(health, message=shortened(f"Paused, the operator changes nothing; {health.message}"))
        return health

    def _suspended(self) -> Health:
        left = len(self.plan.observed.components)
        reason = self.plan.effective.idleness.message or "no Pods are wanted"
        message = f"Suspending: {counted(left, 'Pod')} left" if left else f"Suspended: {reason}"
        held = [*_kept_by_finalizers(self.plan.observed)[:1], *_long_ends(self.plan.observed)]
        why = (outcome.message for outcome in self.outcomes if outcome.message)
        return Health(State.PENDING, shortened(joined([message, *held, *why])))

    def _unsuspended(self) -> Health:
        # A terminal executor that is only kept for its logs does not count.
        ailing = any(component.live for component, _ in self.plan.observed.unhealthy)
        blocked = any(outcome.attention or outcome.reason == NOT_REGISTERED for outcome in self.outcomes)
        state = _state(self.plan.observed, self.plan.effective.group)
        failing = {group.kind for group in self.problems if group.reason in FAILING and not group.over}
        reported = tuple(each for each in self.notices if each.kind not in failing)
        kinds = {each.kind for each in reported}
        standing = tuple(group for group in self.problems if not (group.over and group.kind in kinds))
        own = next((group for group in standing if group.components[0] is self.plan.observed.session_manager), None)
        hidden = [each for each in self.notices if isinstance(each, FailureSummary) and each.kind in failing]
        lines = (
            _session_manager_line(self.plan.observed, own, hidden),
            _executor_line(self.plan.observed, self.plan.effective.group),
            object_cache_line(self.plan.observed, self.plan.effective.cache_replicas),
        )
        if not (any(lines) or self.plan.has_work or ailing or blocked):
            return Health(state, self._healthy_message(reported), healthy=True, notices=reported)
        # Advice comes first, because a long message is cut at its end. The most important problems come first.
        parts = [outcome.message for outcome in self.outcomes if outcome.attention]
        parts += lines
        parts += list(map(str, (*reported, *(group for group in standing if group is not own))))[:MAX_GROUPS]
        parts += [outcome.message for outcome in self.outcomes if not outcome.attention]
        message = shortened(joined(filter(None, parts)) or self._work())
        return Health(state, message, problems=standing, notices=reported)

    def _work(self) -> str:
        """Return what is left to do; also while it is paused, when nobody does it."""
        if self.plan.effective.desired.spec.paused:
            return "changes are due"
        return work_or_wait(self.plan).message

    def _healthy_message(self, reported: Sequence[FailureSummary | Notice]) -> str:
        said = list(map(str, reported)) or [ALL_HEALTHY]
        said += [f"warning: {warning}" for warning in near_names(self.plan.effective.desired.spec)]
        said += [outcome.message for outcome in self.outcomes if outcome.reason == FILE_SYSTEM_RESIZE_PENDING]
        return shortened(joined(said))


def present_state(observed: ObservedCluster, wanted: EffectiveGroup) -> State:
    """Return the state that `ValidSpecHealth` computes, which costs much less than the rest."""
    return State.PENDING if wanted.suspended else _state(observed, wanted)


def _long_ends(observed: ObservedCluster) -> list[str]:
    """Return which Pods may terminate for long, those that may take longest first, and when the last of them must have ended.

    It says "ends" and not how long, so that the message stays the same meanwhile.
    """
    slow = [
        (end, each.name)
        for each in observed.terminating
        if (end := each.pod.metadata.deletion_timestamp) is not None
        and (each.pod.metadata.deletion_grace_period_seconds or 0) > DEFAULT_GRACE_SECONDS
    ]
    if not slow:
        return []
    slow.sort(key=lambda each: each[0], reverse=True)
    named = listing([name for _, name in slow])
    return [f"the grace period of {named} ends at {date_and_time(slow[0][0])}"]


def _kept_by_finalizers(observed: ObservedCluster) -> list[str]:
    """Return the Pods that finalizers keep. The step that waits for the session manager names its finalizers itself."""
    others = (each.pod for each in observed.terminating if each is not observed.session_manager)
    return [sentence for pod in others if (sentence := held_by_finalizers(pod))]


def _state(observed: ObservedCluster, wanted: EffectiveGroup) -> State:
    manager = observed.session_manager
    if manager is not None and not manager.terminating and manager.failed:
        return State.FAILED
    if wanted.replicas > 0 and observed.group.all_failed:
        return State.FAILED
    if observed.session_manager_ready and (wanted.replicas == 0 or observed.group.ready):
        return State.RUNNING
    return State.PENDING


def _session_manager_line(observed: ObservedCluster, own: ProblemGroup | None, hidden: Sequence[FailureSummary]) -> str:
    manager = observed.session_manager
    if observed.session_manager_ready:
        return ""
    if manager is None:
        return "Session manager Pod does not exist yet"
    if manager.terminating:
        return "Session manager is terminating"
    if own is None:
        return "Session manager has ended" if manager.terminal else "Session manager is starting"
    how = {NODE_NOT_REPORTING: "is on a node that does not report", UNSCHEDULABLE: "unschedulable"}.get(own.reason)
    if how is None:
        times = next((f" {each.times}" for each in hidden if each.kind == SESSION_MANAGER), "")
        how = f"failed{times}" if manager.failure is not None else "is starting"
    return f"Session manager {how}: {own.message if own.reason == UNSCHEDULABLE else own.what}"


def _executor_line(observed: ObservedCluster, wanted: EffectiveGroup) -> str:
    ready, replicas = len(observed.group.ready), wanted.replicas
    return f"{ready} of {replicas} executors ready" if ready < replicas else ""


#: Seconds after the end of its grace period from which the status names a Pod that is still there.
LATE_SECONDS = 60.0


def late_ends(observed: ObservedCluster, effective: EffectiveSpec, now: datetime) -> str:
    """Return which Pods and claims should have ended, and what keeps the first of them; empty where all ended in time."""
    late = [each for each in _ends(observed, effective) if each[0] + timedelta(seconds=LATE_SECONDS) <= now]
    if not late:
        return ""
    end, name, first = late[0]
    names = listing([name for _, name, _ in late], 1)
    why = finalizers_in_brackets(first)
    if isinstance(first, PodView) and not why:
        why = f" (see kubectl describe node {first.spec.node_name}, and kubectl describe pod {name})"
    return f"{names} should have ended by {date_and_time(end)}{why}"


def next_late_end(observed: ObservedCluster, effective: EffectiveSpec, now: datetime) -> datetime | None:
    """Return when the status must name the next Pod or claim that has not ended, because no event reports that time."""
    ends = (end + timedelta(seconds=LATE_SECONDS) for end, _, _ in _ends(observed, effective))
    return min((end for end in ends if end > now), default=None)


def _ends(observed: ObservedCluster, effective: EffectiveSpec) -> list[tuple[datetime, str, KubernetesObject]]:
    """Return when terminating Pods and claims must have ended, the earliest first, without those that a step waits for.

    Steps wait for the session manager, and for object caches and claims whose names are needed, and say so themselves. They also
    say which claims in deletion are in use.
    """
    if not observed.terminating and not observed.claims:
        return []
    # No step waits while the cluster is paused.
    paused = effective.desired.spec.paused
    awaited = () if paused else (observed.session_manager, *observed.object_caches.first(effective.cache_replicas))
    names = {each.name for each in awaited if each is not None}
    left: list[tuple[str, KubernetesObject]] = [
        (each.name, each.pod) for each in observed.terminating if each.name not in names
    ]
    claims = () if paused else effective.desired.claims
    needed = {*(each.name for each in claims), *observed.claim_users}
    left += [
        (f'PersistentVolumeClaim "{each.name}"', each)
        for each in observed.claims.values()
        if each.controlled_by(observed.owner.uid) and each.name not in needed
    ]
    ends = [(end, name, each) for name, each in left if (end := each.metadata.deletion_timestamp) is not None]
    return sorted(ends, key=itemgetter(0, 1))
