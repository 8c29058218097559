"""What to do about the one session manager: make it, mend it, remove it, or wait. Never two of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from flamectl_operator.api.constants import API_VERSION, KIND, SESSION_MANAGER
from flamectl_operator.decisions import drift
from flamectl_operator.decisions.attempts import session_manager_uncounted
from flamectl_operator.decisions.deletion import given_up_at
from flamectl_operator.decisions.hold import Hold
from flamectl_operator.observed.cluster import Component

if TYPE_CHECKING:
    from datetime import datetime

    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.desired.metadata import Identity
    from flamectl_operator.kube.views import KubernetesObject, PodView
    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.runtime.moment import Moment


class Action(Enum):
    """What to do."""

    NOTHING = "nothing"
    CREATE = "create"
    DELETE = "delete"
    FORCE_DELETE = "force-delete"
    REPAIR = "repair"
    LOOK = "look"
    WAIT = "wait"


@dataclass(frozen=True)
class SessionManagerPlan:
    """What to do, and why.

    Args:
        action: What to do. LOOK: none is wanted (yet), and the watch shows none. It is read by its name all the same, for the
            watch would not show one of ours that has lost its label.
        why: For an event: why a Pod is deleted.
        hold: What is waited for. None with WAIT when somebody else's Pod has the name, with LOOK when none is wanted.
    """

    action: Action
    why: str = ""
    hold: Hold | None = None


def plan_session_manager(observed: ObservedCluster, intent: Intent, now: Moment) -> SessionManagerPlan:
    """Decides what to do about the session manager, but for a stale one, which is the rollout's business."""
    manager, pod = observed.session_manager, observed.session_manager_pod
    if pod is not None and manager is None:
        return _taken(pod, observed.owner)
    if manager is None:
        return _missing(observed, intent, now.wall)
    if manager.terminating:
        return _terminating(observed, manager, intent, now)
    if intent.suspended:
        return SessionManagerPlan(Action.DELETE, "suspended")
    if manager.terminal:
        return _over(manager, intent, now.wall)
    if session_manager_repair(manager.pod, observed.owner, intent) is not None:
        return SessionManagerPlan(Action.REPAIR)
    return SessionManagerPlan(Action.NOTHING)


def session_manager_repair(pod: PodView, owner: Identity, intent: Intent) -> dict[str, Any] | None:
    """The merge patch that brings back labels; None when none are missing.

    A stale one lacks just those by which it is found: it may serve for long yet, if its successor would be refused. What else
    its template says now is the successor's.

    Args:
        pod: The session manager's Pod.
        owner: The FlameCluster.
        intent: What is wanted.
    """
    if intent.session_manager_stale(Component(pod)):
        labels = owner.labels(SESSION_MANAGER) | owner.selector(SESSION_MANAGER)
        return drift.metadata_patch(pod, {"metadata": {"labels": labels}})
    return drift.metadata_patch(pod, intent.desired.session_manager.pod(pod.name))


def is_predecessors(existing: KubernetesObject, owner: Identity) -> bool:
    """Whether it belongs to an earlier FlameCluster of this name, and so is on its way to the garbage collector."""
    controller = existing.controller
    return (
        controller is not None
        and (controller.api_version, controller.kind, controller.name) == (API_VERSION, KIND, owner.name)
        and controller.uid != owner.uid
    )


def _taken(pod: PodView, owner: Identity) -> SessionManagerPlan:
    if not is_predecessors(pod, owner):
        return SessionManagerPlan(Action.WAIT)
    message = f'Pod "{pod.name}" of an earlier FlameCluster of this name is not gone yet'
    return SessionManagerPlan(Action.WAIT, hold=Hold("NameNotFree", message))


def _missing(observed: ObservedCluster, intent: Intent, now: datetime) -> SessionManagerPlan:
    if intent.suspended:
        return SessionManagerPlan(Action.LOOK)
    if not intent.config_map_current(observed):
        return SessionManagerPlan(Action.LOOK, hold=Hold("ConfigMapNotReady"))
    hold = intent.session_manager_attempts.back_off("session manager", now)
    return SessionManagerPlan(Action.CREATE if hold is None else Action.LOOK, hold=hold)


def _over(manager: Component, intent: Intent, now: datetime) -> SessionManagerPlan:
    """One that failed since the pass began is left to the next pass, which counts that first."""
    if session_manager_uncounted(manager, intent.session_manager_attempts):
        return SessionManagerPlan(Action.WAIT, hold=Hold("Changed", until=now))
    return SessionManagerPlan(Action.DELETE, str(manager.trouble))


def _terminating(observed: ObservedCluster, manager: Component, intent: Intent, now: Moment) -> SessionManagerPlan:
    """Its name is needed, so patience has an end."""
    until = given_up_at(observed, manager, intent, now)
    forced = manager.pod.metadata.deletion_grace_period_seconds == 0
    message = f'waiting for Pod "{manager.name}" to terminate'
    if finalizers := manager.pod.metadata.finalizers:
        message += f" (held by finalizer {', '.join(finalizers)})"
    if until <= now.wall and not forced:
        return SessionManagerPlan(Action.FORCE_DELETE, "stuck terminating")
    return SessionManagerPlan(Action.WAIT, hold=Hold("Terminating", message, None if forced else until))
