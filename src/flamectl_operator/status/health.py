"""`state` and `message`: the health of a FlameCluster in one word and in one line.

Precedence: invalid spec, suspended, the rest; that it is paused is added to the message. The operator writes no status
for a FlameCluster that is being deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flamectl_operator.api.near_names import near_names
from flamectl_operator.api.status import State
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.pods import NODE_NOT_REPORTING
from flamectl_operator.planning.effective_group import EffectiveGroup
from flamectl_operator.planning.effective_spec import EffectiveSpec
from flamectl_operator.planning.group_comparison import GroupComparison
from flamectl_operator.planning.idle import Idleness
from flamectl_operator.planning.needs import Needs
from flamectl_operator.planning.registration import NOT_REGISTERED
from flamectl_operator.runtime.outcome import Outcome
from flamectl_operator.runtime.text import joined, shortened
from flamectl_operator.status.notice import Notice
from flamectl_operator.status.object_cache import object_cache_line
from flamectl_operator.status.pod_problems import FAILING, MAX_GROUPS, ProblemGroup
from flamectl_operator.status.reason import UNSCHEDULABLE
from flamectl_operator.status.recent_failures import FailureSummary

HEALTHY = "All components healthy"


@dataclass(frozen=True)
class Health:
    """The health of a FlameCluster.

    Args:
        healthy: Whether all desired objects exist, current and ready.
        problems: The unhealthy Pods, in groups, that the recent failures do not report.
        recent: What a person has to look at although all Pods may be ready: a session manager that does not answer, sessions
            that are paused, and the recent failures of each component that does not fail now, because that tells more.
    """

    state: State
    message: str
    healthy: bool = False
    problems: tuple[ProblemGroup, ...] = ()
    recent: tuple[FailureSummary | Notice, ...] = ()


def compute_health(
    observed: ObservedCluster,
    effective: EffectiveSpec,
    outstanding: Needs,
    problems: tuple[ProblemGroup, ...] = (),
    recent: tuple[FailureSummary | Notice, ...] = (),
    *,
    outcomes: Sequence[Outcome] = (),
) -> Health:
    """Compute the health of a FlameCluster with a valid spec.

    Args:
        recent: The recent failures of each component, a session manager that does not answer, and paused sessions.
    """
    health = (
        _suspended(observed, effective.idleness, outcomes)
        if effective.suspended
        else _unsuspended(observed, effective, outstanding, problems, recent, outcomes)
    )
    if effective.desired.spec.paused:
        return replace(health, message=shortened(f"Paused, the operator changes nothing; {health.message}"))
    return health


def present_state(observed: ObservedCluster, group: EffectiveGroup) -> State:
    """Return the state that `compute_health` gives a FlameCluster with a valid spec, which costs much less than the rest."""
    return State.PENDING if group.suspended else _state(observed, GroupComparison(observed.group, group))


def _suspended(observed: ObservedCluster, idleness: Idleness, outcomes: Sequence[Outcome]) -> Health:
    left = len(observed.components)
    reason = idleness.message or "no Pods are wanted"
    message = f"Suspending: {left} Pod{'s' * (left != 1)} left" if left else f"Suspended: {reason}"
    why = (outcome.message for outcome in outcomes if outcome.message)
    return Health(State.PENDING, shortened(joined([message, *why])))


def _unsuspended(
    observed: ObservedCluster,
    effective: EffectiveSpec,
    outstanding: Needs,
    problems: tuple[ProblemGroup, ...],
    recent: tuple[FailureSummary | Notice, ...],
    outcomes: Sequence[Outcome],
) -> Health:
    group = GroupComparison(observed.group, effective.group)
    executors_ready = len(group.observed.ready) >= group.effective.replicas
    complete = (
        observed.session_manager_ready and executors_ready and not object_cache_line(observed, effective.cache_replicas)
    )
    # A terminal executor that is only kept for its logs does not count.
    ailing = any(component.live for component, _ in observed.unhealthy)
    blocked = any(outcome.attention or outcome.reason == NOT_REGISTERED for outcome in outcomes)
    state = _state(observed, group)
    failing = {type(group.components[0]) for group in problems if group.reason in FAILING and not group.over}
    told = tuple(each for each in recent if each.kind not in failing)
    if complete and not outstanding.work and not ailing and not blocked:
        warnings = [f"warning: {warning}" for warning in near_names(effective.desired.spec)]
        message = shortened(joined([*(map(str, told) if told else [HEALTHY]), *warnings]))
        return Health(state, message, healthy=True, recent=told)
    kinds = {each.kind for each in told}
    standing = tuple(group for group in problems if not (group.over and type(group.components[0]) in kinds))
    hidden = (each for each in recent if isinstance(each, FailureSummary) and each not in told)
    manager = next((each for each in hidden if each.kind is Component), None)
    message = _message(observed, effective, standing, (*map(str, told),), outcomes, manager)
    return Health(state, message, problems=standing, recent=told)


def _state(observed: ObservedCluster, group: GroupComparison) -> State:
    manager = observed.session_manager
    if manager is not None and not manager.terminating and manager.failed:
        return State.FAILED
    if group.effective.replicas > 0 and group.observed.all_failed:
        return State.FAILED
    if observed.session_manager_ready and (group.effective.replicas == 0 or group.observed.ready):
        return State.RUNNING
    return State.PENDING


def _message(
    observed: ObservedCluster,
    effective: EffectiveSpec,
    problems: tuple[ProblemGroup, ...],
    told: tuple[str, ...],
    outcomes: Sequence[Outcome],
    failing: FailureSummary | None,
) -> str:
    """Return the headline, then the problems, the most important first."""
    manager = observed.session_manager
    own = next((group for group in problems if group.components[0] is manager), None)
    lines = (
        _session_manager_line(observed, own, failing),
        _executor_line(GroupComparison(observed.group, effective.group)),
        object_cache_line(observed, effective.cache_replicas),
    )
    # Advice comes first, because a long message is cut at its end.
    parts = [outcome.message for outcome in outcomes if outcome.attention and outcome.message]
    parts += [line for line in lines if line]
    parts += [*told, *(str(group) for group in problems if group is not own)][:MAX_GROUPS]
    parts += [outcome.message for outcome in outcomes if not outcome.attention and outcome.message]
    return shortened(joined(parts) or "Waiting for changes to take effect")


def _session_manager_line(observed: ObservedCluster, own: ProblemGroup | None, failing: FailureSummary | None) -> str:
    manager = observed.session_manager
    if observed.session_manager_ready:
        return ""
    if manager is None:
        return "Session manager Pod does not exist yet"
    if manager.terminating:
        return "Session manager is terminating"
    if own is None:
        return "Session manager is starting"
    how = {NODE_NOT_REPORTING: "is on a node that does not report", UNSCHEDULABLE: "unschedulable"}.get(own.reason)
    if how is None:
        times = "" if failing is None else f" {failing.times}"
        how = f"failed{times}" if manager.failure is not None else "is starting"
    return f"Session manager {how}: {own.message if own.reason == UNSCHEDULABLE else own.what}"


def _executor_line(group: GroupComparison) -> str:
    ready, replicas = len(group.observed.ready), group.effective.replicas
    return f"{ready} of {replicas} executors ready" if ready < replicas else ""
