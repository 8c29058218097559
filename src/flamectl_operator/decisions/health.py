"""`state` and `message`: how a FlameCluster is, in one word and in one line.

Precedence: invalid spec, suspended, the rest; that it is paused is added to the message. (For one that is being deleted nothing
is written at all.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flamectl_operator.api.status import State
from flamectl_operator.observed import pods

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.decisions.needs import Needs
    from flamectl_operator.observed.cluster import Component, ObservedCluster

HEALTHY = "All components healthy"
#: Longest `message`, in characters.
MAX_MESSAGE = 1024


@dataclass(frozen=True)
class Issue:
    """Something a step of the pass reported: what it waits for, or what it was refused.

    Args:
        reason: One CamelCase word.
        message: A sentence; empty when it is nobody's concern.
        degraded: Whether somebody has to do something about it.
    """

    reason: str
    message: str = ""
    degraded: bool = False


@dataclass(frozen=True)
class Health:
    """How a FlameCluster is.

    Args:
        state: In one word.
        message: In one line.
        healthy: Whether all that is wanted is there, current and ready.
        reason: Why it is not, as one CamelCase word for the `Ready` condition.
    """

    state: State
    message: str
    healthy: bool = False
    reason: str = "NotReady"


def assess(
    observed: ObservedCluster,
    intent: Intent | None,
    outstanding: Needs,
    *,
    problem: str = "",
    paused: bool = False,
    issues: Sequence[Issue] = (),
) -> Health:
    """Says how a FlameCluster is.

    Args:
        observed: What is there.
        intent: What is wanted; None when the spec is invalid.
        outstanding: What is still to be done.
        problem: What is wrong with the spec.
        paused: Whether the operator keeps its hands off.
        issues: What the steps of the pass reported.
    """
    if intent is None:
        return Health(State.FAILED, _cut(f"Invalid spec: {problem}"), reason="InvalidSpec")
    health = _suspended(observed, issues) if intent.suspended else _unsuspended(observed, intent, outstanding, issues)
    if paused:
        return replace(health, message=_cut(f"Paused, the operator changes nothing; {health.message}"))
    return health


def _suspended(observed: ObservedCluster, issues: Sequence[Issue]) -> Health:
    left = len(observed.components)
    message = f"Suspending: {left} Pod{'s' * (left != 1)} left" if left else "Suspended: no Pods are wanted"
    why = dict.fromkeys(issue.message for issue in issues if issue.message)
    return Health(State.PENDING, _cut("; ".join([message, *why])), reason="Suspended")


def _unsuspended(observed: ObservedCluster, intent: Intent, outstanding: Needs, issues: Sequence[Issue]) -> Health:
    complete = observed.session_manager_ready and len(observed.ready_executors) >= intent.replicas
    # One that is over and only kept for its logs is no longer wanted.
    ailing = any(component.live for component, _ in observed.unhealthy)
    blocked = any(issue.degraded for issue in issues)
    state = _state(observed, intent)
    if complete and not outstanding.work and not ailing and not blocked:
        return Health(state, HEALTHY, healthy=True, reason="AllComponentsHealthy")
    return Health(state, _message(observed, intent, issues), reason=_reason(observed, intent))


def _state(observed: ObservedCluster, intent: Intent) -> State:
    manager = observed.session_manager
    if manager is not None and not manager.terminating and manager.trouble is not None:
        return State.FAILED
    standing = [executor for executor in observed.executors if not executor.terminating]
    if intent.replicas > 0 and standing and all(executor.trouble is not None for executor in standing):
        return State.FAILED
    if observed.session_manager_ready and (intent.replicas == 0 or observed.ready_executors):
        return State.RUNNING
    return State.PENDING


def _reason(observed: ObservedCluster, intent: Intent) -> str:
    if not observed.session_manager_ready:
        return "SessionManagerNotReady"
    if len(observed.ready_executors) < intent.replicas:
        return "ExecutorsNotReady"
    return "UpdateInProgress"


def _message(observed: ObservedCluster, intent: Intent, issues: Sequence[Issue]) -> str:
    """The headline, then what stands in the way, the most important thing first."""
    parts = [line for line in (_session_manager_line(observed), _executor_line(observed, intent)) if line]
    parts += [issue.message for issue in issues if issue.degraded and issue.message]
    manager = observed.session_manager
    troubled = [entry for entry in observed.unhealthy if entry[0] is not manager]
    if troubled:
        component, trouble = troubled[0]
        parts.append(f"{component.name}: {trouble}")
    parts += [issue.message for issue in issues if not issue.degraded and issue.message]
    return _cut("; ".join(dict.fromkeys(parts)) or "Waiting for changes to take effect")


def _session_manager_line(observed: ObservedCluster) -> str:
    manager = observed.session_manager
    if observed.session_manager_ready:
        return ""
    if manager is None:
        return "Session manager is not there yet"
    if manager.terminating:
        return "Session manager is terminating"
    return _not_ready(manager)


def _not_ready(manager: Component) -> str:
    if manager.trouble is not None:
        return f"Session manager failed: {manager.trouble}"
    if (trouble := pods.unschedulable(manager.pod)) is not None:
        return f"Session manager unschedulable: {trouble.message}"
    return "Session manager is starting"


def _executor_line(observed: ObservedCluster, intent: Intent) -> str:
    ready = len(observed.ready_executors)
    return f"{ready} of {intent.replicas} executors ready" if ready < intent.replicas else ""


def _cut(message: str) -> str:
    """One line of bounded length, whatever servers and logs put into it."""
    message = " ".join(message.split())
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 3] + "..."
