"""Decides whether to create, repair or delete the session manager, or to wait. There are never two at once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from flamectl_operator.api.constants import API_VERSION, FIRST_CONTAINER_ANNOTATION, KIND, SESSION_MANAGER
from flamectl_operator.desired import names
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.life import first_container
from flamectl_operator.planning import drift
from flamectl_operator.planning.claims import KEEPS_CLAIM, claim_wait
from flamectl_operator.planning.deletion import given_up_at
from flamectl_operator.planning.replacement_backoff import session_manager_uncounted
from flamectl_operator.runtime.outcome import wait, wait_until
from flamectl_operator.settings import POD_IP, endpoint

if TYPE_CHECKING:
    from datetime import datetime

    from flamectl_operator.desired.metadata import Identity
    from flamectl_operator.kube.views import KubernetesObject, PodView
    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.planning.effective_spec import EffectiveSpec
    from flamectl_operator.runtime.clock_reading import ClockReading
    from flamectl_operator.runtime.outcome import Outcome
    from flamectl_operator.settings import FlameSettings


class SessionManagerAction(Enum):
    """An action on the session manager."""

    NOTHING = "nothing"
    CREATE = "create"
    DELETE = "delete"
    FORCE_DELETE = "force-delete"
    REPAIR = "repair"
    LOOK = "look"
    WAIT = "wait"


@dataclass(frozen=True)
class SessionManagerPlan:
    """The action on the session manager, and its reason.

    Args:
        action: The action. With LOOK none is wanted (yet) and the watch shows none; the Pod is read by name, because the watch
            would not show a session manager that has lost its label.
        why: The reason for a deletion, for an event.
        wait: The reason why the action is postponed. None with WAIT when a foreign Pod has the name, and with LOOK when no
            session manager is wanted.
    """

    action: SessionManagerAction
    why: str = ""
    wait: Outcome | None = None


def plan_session_manager(observed: ObservedCluster, effective: EffectiveSpec, now: ClockReading) -> SessionManagerPlan:
    """Decide what to do about the session manager. The rollout decides about a stale one."""
    manager, pod = observed.session_manager, observed.session_manager_pod
    if pod is not None and manager is None:
        return _taken(pod, observed.owner)
    if manager is None:
        return _missing(observed, effective, now.wall)
    if manager.pod.uid in observed.kept and (manager.terminating or effective.suspended or manager.terminal):
        return SessionManagerPlan(SessionManagerAction.WAIT, wait=KEEPS_CLAIM)
    if manager.terminating:
        return _terminating(observed, manager, effective, now)
    if effective.suspended:
        return SessionManagerPlan(SessionManagerAction.DELETE, "suspended")
    if manager.terminal:
        return _over(manager, effective)
    if session_manager_repair(manager.pod, observed.owner, effective) is not None:
        return SessionManagerPlan(SessionManagerAction.REPAIR)
    return SessionManagerPlan(SessionManagerAction.NOTHING)


def session_manager_endpoint(observed: ObservedCluster, settings: FlameSettings) -> tuple[str, int] | None:
    """Return host and port at which the session manager is asked; None while no Pod of this FlameCluster is ready to answer.

    By default that is the address of the Pod, because others can change what a name leads to.
    """
    if not observed.session_manager_ready or lacks_address(observed, settings):
        return None
    return endpoint(
        settings.session_manager_endpoint,
        name=observed.owner.name,
        namespace=observed.owner.namespace,
        cluster_domain=settings.cluster_domain,
        pod_ip=observed.session_manager_address,
    )


def certified_name(owner: Identity, settings: FlameSettings) -> str:
    """Return the name for which the session manager's certificate must be valid; empty for the host that is asked."""
    if POD_IP not in settings.session_manager_endpoint:
        return ""
    return f"{names.session_manager(owner.name)}.{owner.namespace}.svc.{settings.cluster_domain}"


def lacks_address(observed: ObservedCluster, settings: FlameSettings) -> bool:
    """Return whether the session manager is ready, but its Pod has no address of its own at which the operator could ask."""
    by_address = POD_IP in settings.session_manager_endpoint
    return by_address and observed.session_manager_ready and not observed.session_manager_address


def session_manager_repair(pod: PodView, owner: Identity, effective: EffectiveSpec) -> dict[str, Any] | None:
    """Return the merge patch that restores labels and records the first container; None when nothing is missing.

    A stale session manager only gets back its selector labels, because it may serve for long if its replacement would be refused.
    Other changes of the template apply to the replacement.

    Args:
        pod: The session manager's Pod.
        owner: The FlameCluster.
        effective: The effective spec.
    """
    if effective.session_manager_stale(Component(pod)):
        labels = owner.labels(SESSION_MANAGER) | owner.selector(SESSION_MANAGER)
        return _recording(pod, drift.metadata_patch(pod, {"metadata": {"labels": labels}}))
    return _recording(pod, drift.metadata_patch(pod, effective.desired.session_manager.pod(pod.name)))


def _recording(pod: PodView, repair: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a repair that also records the first container, once it runs."""
    first = first_container(pod)
    if not first or FIRST_CONTAINER_ANNOTATION in pod.annotations:
        return repair
    metadata: dict[str, Any] = (
        repair["metadata"] if repair is not None else {"resourceVersion": pod.metadata.resource_version}
    )
    annotations = {**metadata.get("annotations", {}), FIRST_CONTAINER_ANNOTATION: first}
    return {"metadata": {**metadata, "annotations": annotations}}


def is_predecessors(existing: KubernetesObject, owner: Identity) -> bool:
    """Return whether it belongs to an earlier FlameCluster of this name, so that garbage collection will delete it."""
    controller = existing.controller
    return (
        controller is not None
        and (controller.api_version, controller.kind, controller.name) == (API_VERSION, KIND, owner.name)
        and controller.uid != owner.uid
    )


def _taken(pod: PodView, owner: Identity) -> SessionManagerPlan:
    if not is_predecessors(pod, owner):
        return SessionManagerPlan(SessionManagerAction.WAIT)
    message = f'Pod "{pod.name}" of an earlier FlameCluster with this name still exists'
    return SessionManagerPlan(SessionManagerAction.WAIT, wait=wait("NameNotFree", message))


def _missing(observed: ObservedCluster, effective: EffectiveSpec, now: datetime) -> SessionManagerPlan:
    if effective.suspended:
        return SessionManagerPlan(SessionManagerAction.LOOK)
    if not effective.config_map_current(observed):
        return SessionManagerPlan(SessionManagerAction.LOOK, wait=wait("ConfigMapNotReady"))
    if (hold := claim_wait(observed, effective.desired.session_manager_claim)) is not None:
        return SessionManagerPlan(SessionManagerAction.LOOK, wait=hold)
    back_off = effective.session_manager_backoff.back_off("session manager", now)
    return SessionManagerPlan(
        SessionManagerAction.CREATE if back_off is None else SessionManagerAction.LOOK, wait=back_off
    )


def _over(manager: Component, effective: EffectiveSpec) -> SessionManagerPlan:
    """Leave a session manager that failed since the pass began to the next pass, which counts the failure first."""
    if session_manager_uncounted(manager, effective.session_manager_backoff):
        return SessionManagerPlan(SessionManagerAction.WAIT, wait=wait("Changed", delay=0))
    return SessionManagerPlan(SessionManagerAction.DELETE, str(manager.trouble))


def _terminating(
    observed: ObservedCluster, manager: Component, effective: EffectiveSpec, now: ClockReading
) -> SessionManagerPlan:
    """Wait for the Pod to terminate, or force its deletion when its time is over, because its name is needed."""
    until = given_up_at(observed, manager, effective, now)
    forced = manager.pod.metadata.deletion_grace_period_seconds == 0
    message = f'waiting for Pod "{manager.name}" to terminate'
    if finalizers := manager.pod.metadata.finalizers:
        message += f" (held by finalizer {', '.join(finalizers)})"
    if manager.pod.claim_names:
        # A process on a node that does not report may still write. After a forced deletion, a new Pod would share its claim.
        message += "; the operator does not force-delete it, because it may still write to its claim"
        return SessionManagerPlan(SessionManagerAction.WAIT, wait=wait("Terminating", message))
    if until <= now.wall and not forced:
        return SessionManagerPlan(SessionManagerAction.FORCE_DELETE, "stuck terminating")
    put_off = wait("Terminating", message) if forced else wait_until("Terminating", until, now.wall, message)
    return SessionManagerPlan(SessionManagerAction.WAIT, wait=put_off)
