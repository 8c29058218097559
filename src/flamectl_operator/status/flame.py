"""The status about Flame: whether the session manager answers, and which executors are registered."""

from flamectl_operator.api.component_status import SessionsStatus
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.api.status import Condition, ConditionType, FlameClusterStatus, find
from flamectl_operator.flame.knowledge import Phase
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.runtime.text import listing
from flamectl_operator.status.conditions import ConditionWriter
from flamectl_operator.status.reason import SESSION_MANAGER_NOT_REACHABLE

#: Conditions about Flame. Without a session manager that can be asked, only SessionManagerReachable may stay, with the reason.
FLAME_CONDITIONS = (ConditionType.SESSION_MANAGER_REACHABLE, ConditionType.EXECUTORS_REGISTERED)
_UNKNOWN = SessionsStatus()


def registered(observed: ObservedCluster, effective: EffectiveSpec, before: FlameClusterStatus) -> int | None:
    """Return how many executors are registered; None when that is unknown."""
    if not effective.flame_can_be_asked:
        return None
    if (answer := observed.flame.answer) is not None:
        return sum(answer.registered(executor.name) for executor in observed.group.live)
    return before.executor_manager.registered if effective.awaits_answer(observed) else None


def sessions(observed: ObservedCluster, effective: EffectiveSpec, before: FlameClusterStatus) -> SessionsStatus:
    """Return how much work the session manager has; nothing when that is unknown."""
    if not effective.flame_can_be_asked:
        return _UNKNOWN
    if (answer := observed.flame.answer) is not None:
        found = answer.counts
        return SessionsStatus(
            open=found.sessions,
            pending_tasks=found.pending,
            running_tasks=found.running,
            failed_tasks=found.failed,
            paused=found.paused,
        )
    return before.sessions if effective.awaits_answer(observed) else _UNKNOWN


def flame_conditions(
    writer: ConditionWriter, observed: ObservedCluster, effective: EffectiveSpec, before: FlameClusterStatus
) -> tuple[Condition, ...]:
    """Compute the conditions about Flame. They stay as they are until the session manager has answered, or failed to."""
    if not effective.flame_can_be_asked:
        return _behind_tls(writer, effective.desired.spec) if effective.flame_has_calls else ()
    stored = tuple(condition for kind in FLAME_CONDITIONS if (condition := find(before, kind)) is not None)
    if observed.flame.answer is not None:
        reachable = writer.make(
            ConditionType.SESSION_MANAGER_REACHABLE, "Answers", "The session manager answers the operator", status=True
        )
        return (reachable, _executors_registered(writer, observed))
    if effective.lacks_address(observed):
        message = "No answer from the session manager: its Pod has no address of its own"
        return tuple(
            writer.make(kind, "NoAddress", message, status=status)
            for kind, status in zip(FLAME_CONDITIONS, (False, None), strict=True)
        )
    if effective.awaits_answer(observed):
        return stored
    known = [kind for kind in FLAME_CONDITIONS if find(before, kind) is not None]
    if observed.flame.phase is not Phase.UNKNOWN:
        message = "The session manager is not ready"
        return tuple(writer.make(kind, "SessionManagerNotReady", message, status=None) for kind in known)
    problem, kind = observed.flame.problem, ConditionType.SESSION_MANAGER_REACHABLE
    message = f"No answer from the session manager: {problem}"
    unreachable = writer.make(kind, observed.flame.cause, message, status=False)
    kind = ConditionType.EXECUTORS_REGISTERED
    if kind not in known:
        return (unreachable,)
    return unreachable, writer.make(kind, SESSION_MANAGER_NOT_REACHABLE, message, status=None)


def autoscaling_condition(writer: ConditionWriter, wanted: EffectiveGroup) -> tuple[Condition, ...]:
    """Return the condition about the number of executors; none before the session manager has answered or failed to."""
    scaling = wanted.scaling
    if scaling is None or not scaling.reason:
        return ()
    kind = ConditionType.AUTOSCALING
    return (writer.make(kind, scaling.reason, scaling.message, status=scaling.active),)


def _behind_tls(writer: ConditionWriter, spec: FlameClusterSpec) -> tuple[Condition, ...]:
    mutual = spec.flame_version == "0.7"
    why = "Flame 0.7 requires a client certificate" if mutual else "spec.tls.caBundle is not set"
    message = f"The operator works without data from Flame, because the session manager serves TLS and {why}"
    kind = ConditionType.SESSION_MANAGER_REACHABLE
    return (writer.make(kind, "TLSNotSupported" if mutual else "AuthorityUnknown", message, status=False),)


def _executors_registered(writer: ConditionWriter, observed: ObservedCluster) -> Condition:
    answer, kind = observed.flame.answer, ConditionType.EXECUTORS_REGISTERED
    assert answer is not None
    missing = [each.name for each in observed.group.ready if not answer.registered(each.name)]
    if not missing:
        message = "All executors that are ready are registered with Flame"
        return writer.make(kind, "AllRegistered", message, status=True)
    message = f"{listing(missing, 1)}: ready, but not registered with Flame"
    return writer.make(kind, "ExecutorNotRegistered", message, status=False)
