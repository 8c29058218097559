"""Outcomes that several steps share."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from flamectl_operator.desired import names
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.resources import CLAIMS, SERVICES, Resource
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.observed.ownership import has_labels_of, is_predecessors
from flamectl_operator.planning.drift import fields_of
from flamectl_operator.planning.termination import NAME_CONFLICT, end_wait
from flamectl_operator.runtime.outcome import Outcome, blocked, wait

#: Seconds until a taken name is checked again, because there may be no event when it becomes free.
TAKEN_NAME_RECHECK_SECONDS = 15.0
#: Seconds until the next pass when an object changed after the step decided on it.
CHANGED_RECHECK_SECONDS = 0.25
#: The reason for a name that a foreign Service has, because it may mislead clients.
SERVICE_CONFLICT = "ServiceConflict"
#: The reason for a webhook that changes what the operator writes.
CHANGES_UNDONE = "ChangesUndone"


def changed(delay: float | None = CHANGED_RECHECK_SECONDS) -> Outcome:
    """Return the outcome for an object that changed after the decision. The next pass comes in seconds, or by an event (None)."""
    return wait("Changed", "", delay)


def undone(resource: Resource[Any], name: str, changes: Mapping[str, Any]) -> Outcome:
    """Return the outcome for an object that needs changes by the response to the operator's own write."""
    how = f"differs from what the operator wrote ({fields_of(changes)})"
    message = f'{resource.kind} "{name}" {how}; check the webhooks that change it'
    return blocked(CHANGES_UNDONE, message, TAKEN_NAME_RECHECK_SECONDS)


def name_taken(owner: Identity, resource: Resource[Any], existing: KubernetesObject) -> Outcome:
    """Return the outcome for a name that a foreign object has. The operator leaves that object alone."""
    label = f'{resource.kind} "{existing.name}"'
    if is_predecessors(existing, owner):
        message = f"{label} of an earlier FlameCluster with this name still exists"
        return wait("NameNotFree", message, TAKEN_NAME_RECHECK_SECONDS)
    controller = existing.controller
    whose = f"is controlled by {controller.kind} {controller.name}" if controller is not None else "has no owner"
    if existing.too_large:
        whose = "has larger metadata.ownerReferences or a larger spec than the operator accepts"
    remedy = "delete it, or create this FlameCluster under another name"
    if resource is CLAIMS:
        use = "to use its data, name it in persistence.existingClaim"
        remedy = f"{use}; else create this FlameCluster under another name, or delete the claim if nobody needs it"
    if controller is None and has_labels_of(existing, owner):
        whose += ", but the labels of this FlameCluster"
        remedy = "give it back its metadata.ownerReferences, or delete it; check the webhooks that change it"
    message = f"{label} does not belong to this FlameCluster: it {whose} ({remedy})"
    return blocked(_conflict(resource), message, TAKEN_NAME_RECHECK_SECONDS)


def still_terminating(resource: Resource[Any], existing: KubernetesObject, now: datetime) -> Outcome:
    """Return the outcome for a child that must end first; see `end_wait`."""
    found = end_wait(resource.kind, existing, now)
    return replace(found, reason=_conflict(resource)) if found.attention else found


def _conflict(resource: Resource[Any]) -> str:
    return SERVICE_CONFLICT if resource is SERVICES else NAME_CONFLICT


def no_ids_left() -> Outcome:
    """Return the outcome for a FlameCluster that has no executor ids left."""
    return blocked(
        "IdsExhausted",
        f"no executor id is left, because a Pod or status.executorManager.nextId has the highest one, {names.MAX_ID}; delete that"
        " Pod, then delete and create the FlameCluster",
    )


def next_batch() -> Outcome:
    """Return the outcome for a batch that used up its time, so that the next pass follows at once and does the rest."""
    return wait("NextBatch", "", 0)
