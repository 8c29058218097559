"""How a step ends for reasons that several steps have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flamectl_operator.decisions.session_manager import is_predecessors
from flamectl_operator.desired import names
from flamectl_operator.runtime.outcome import Outcome, blocked, wait

if TYPE_CHECKING:
    from flamectl_operator.desired.metadata import Identity
    from flamectl_operator.kube.resources import Resource
    from flamectl_operator.kube.views import KubernetesObject

#: How often a name that is taken is looked at again, in seconds: no event may tell when it comes free.
RECHECK_TAKEN_NAME = 15.0
#: How soon to go on when an object changed under our hands, in seconds.
RECHECK_CHANGED = 0.25
#: The reason of an outcome that says that a name is taken by somebody else.
NAME_CONFLICT = "NameConflict"


def changed(delay: float | None = RECHECK_CHANGED) -> Outcome:
    """The outcome when something is not as it was when the step decided on it: the next pass decides anew.

    Args:
        delay: Seconds until that pass; None when an event is going to ask for it.
    """
    return wait("Changed", "", delay)


def undone(resource: Resource[Any], name: str) -> Outcome:
    """The outcome for an object that the answer to a write shows not to be as it was written."""
    message = f'{resource.kind} "{name}" does not stay as the operator writes it: does a webhook change it?'
    return blocked("ChangesUndone", message, RECHECK_TAKEN_NAME)


def name_taken(owner: Identity, resource: Resource[Any], existing: KubernetesObject) -> Outcome:
    """The outcome for a name that an object of somebody else's takes. Nothing of it is touched."""
    label = f'{resource.kind} "{existing.name}"'
    if is_predecessors(existing, owner):
        message = f"{label} of an earlier FlameCluster of this name is not gone yet"
        return wait("NameNotFree", message, RECHECK_TAKEN_NAME)
    controller = existing.controller
    whose = f"is controlled by {controller.kind} {controller.name}" if controller is not None else "has no owner"
    return blocked(
        NAME_CONFLICT,
        f"{label} is not this FlameCluster's: it {whose}. It is left alone; delete it or rename one of the two",
        RECHECK_TAKEN_NAME,
    )


def no_ids_left() -> Outcome:
    """No executor can be made any more."""
    return blocked(
        "IdsExhausted",
        f"executors cannot be made, for the highest number, {names.MAX_ID}, is taken: somebody gave it to a Pod, or wrote into"
        " status.executorManager.nextId; delete such a Pod, and make the FlameCluster anew",
    )


def next_turn() -> Outcome:
    """A batch of requests has had its turn: the next pass, which follows at once, does the rest."""
    return wait("NextTurn", "", 0)
