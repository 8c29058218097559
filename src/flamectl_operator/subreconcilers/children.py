"""Writing children: every create, repair and delete of a pass goes through here.

Each response is taken into the store at once, so that the next step, and the next pass, never act on a view older than what
was just written. Each delete carries the uid it means. Nothing is written to an object that is not this FlameCluster's, and
no Pod is deleted without the lock (`lock.py`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.decisions.session_manager import is_predecessors
from flamectl_operator.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    KubernetesError,
    NotFoundError,
)
from flamectl_operator.kube.resources import PODS
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.runtime.outcome import DONE, Outcome, blocked, wait
from flamectl_operator.runtime.slow_start import slow_start_batch
from flamectl_operator.subreconcilers.base import REFUSALS, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flamectl_operator.desired.pods import PodTemplate
    from flamectl_operator.kube.errors import ApiError
    from flamectl_operator.kube.resources import Resource
    from flamectl_operator.kube.store import Store
    from flamectl_operator.subreconcilers.base import Context

T = TypeVar("T", bound=KubernetesObject)

#: How often a name that is taken is looked at again, in seconds: no event may tell when it comes free.
RECHECK_TAKEN_NAME = 15.0
#: How soon to go on when an object changed under our hands, in seconds.
RECHECK_CHANGED = 0.25
#: The reason of an outcome that says that a name is taken by somebody else.
NAME_CONFLICT = "NameConflict"


async def create(context: Context, resource: Resource[T], store: Store[T], manifest: Mapping[str, Any]) -> T:
    """Creates a child. When the answer is lost, a read tells whether it was made.

    Raises:
        AlreadyExistsError: The name is taken.
        RefusedError: RBAC, admission, a quota or the schema refuses it.
    """
    context.writes += 1
    name = manifest["metadata"]["name"]
    try:
        created = await context.client.create(resource, context.owner.namespace, manifest, strict=True)
    except REFUSALS as error:
        # Admission speaks before the name is looked at, and what has the name already may need no more than its label.
        if await _exists(context, resource, store, name):
            raise _already_exists(resource, name) from error
        raise RefusedError.of(error) from error
    except KubernetesError as error:
        found = await _look_after(context, resource, store, name, error)
        if found is None or not found.controlled_by(context.owner.uid):
            raise
        if CLUSTER_LABEL not in found.labels:
            # Not by this request: somebody took the label off, and the watch will say nothing of it.
            raise _already_exists(resource, name) from error
        created = found
    store.observe(created)
    return created


def _already_exists(resource: Resource[Any], name: str) -> AlreadyExistsError:
    return AlreadyExistsError(409, "AlreadyExists", f'{resource.plural} "{name}" already exists')


async def rehearse(context: Context, template: PodTemplate, name: str) -> None:
    """Asks whether a Pod would be accepted, before the one whose place it takes is deleted.

    A template is asked about until it was accepted once. A quota's refusal says nothing, for the old Pod still counts, and
    neither does that of a webhook which cannot be asked.

    Args:
        context: The pass.
        template: What the Pod is made from.
        name: The name of the one whose place it takes.

    Raises:
        RefusedError: RBAC, admission or the schema would refuse it.
    """
    if template.rendered in context.memory.accepted:
        return
    try:
        # That the name is taken is said last, after all that could be wrong with the Pod.
        with suppress(AlreadyExistsError):
            await context.client.rehearse_creation(PODS, context.owner.namespace, template.pod(name))
    except REFUSALS as error:
        quota = isinstance(error, ForbiddenError) and error.quota
        if not quota and not cannot_be_rehearsed(error):
            raise RefusedError.of(error) from error
    context.memory.accepted.add(template.rendered)


def cannot_be_rehearsed(error: ApiError) -> bool:
    """Whether a rehearsal failed for a webhook that knows of none."""
    return "does not support dry run" in error.message


async def patch(
    context: Context, resource: Resource[T], store: Store[T], name: str, changes: Mapping[str, Any]
) -> T | None:
    """Repairs a child.

    Returns:
        The child as it is now; None when it had changed. That is no error: the view was old, and is brought up to date.

    Raises:
        RefusedError: RBAC, admission or the schema refuses it.
    """
    context.writes += 1
    try:
        patched = await context.client.merge_patch(resource, context.owner.namespace, name, changes)
    except (ConflictError, NotFoundError):
        context.conflicts += 1
        await refresh(context, resource, store, name)
        return None
    except REFUSALS as error:
        raise RefusedError.of(error) from error
    store.observe(patched)
    return patched


class _NotSentError(ConflictError):
    """A deletion that was not sent, for what is known by now."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(409, "Conflict", f"not sent: {what} {why}")


async def delete(
    context: Context,
    resource: Resource[T],
    store: Store[T],
    child: T,
    *,
    grace_period_seconds: int | None = None,
    as_seen: bool = False,
    due: Callable[[], bool] = lambda: True,
) -> bool:
    """Deletes this very child; one that is gone, or replaced by another of its name, is no error.

    This is the one door through which Pods are deleted. It is guarded up to the moment at which the request is sent, which may
    come long after the child was chosen: by the lock, and by what is known then.
    When the answer is lost, a read tells what became of it: the next pass must not count on what may be on its way out.

    Args:
        context: The pass.
        resource: Kind of the child.
        store: Where it is known.
        child: The child.
        grace_period_seconds: Instead of its own; 0 removes a Pod without asking its node.
        as_seen: Whether to delete it only if nothing about it has changed since.
        due: Asked at that moment whether it is still to be deleted.

    Returns:
        Whether it is on its way out by our doing.

    Raises:
        RefusedError: RBAC or admission refuses it.
        LockLostError: It is a Pod, and the lock is not held (any more).
    """
    context.writes += 1
    try:
        response = await context.client.delete(
            resource,
            child.namespace,
            child.name,
            uid=child.uid,
            resource_version=child.metadata.resource_version if as_seen else None,
            grace_period_seconds=grace_period_seconds,
            guard=_guard(context, resource, store, child, due),
        )
    except _NotSentError:
        context.conflicts += 1
        return False
    except ConflictError:
        context.conflicts += 1
        # It changed, or another one has the name by now. Of many Pods each would be read while the others wait.
        if resource is PODS:
            context.memory.unsettled.add(child.name)
        else:
            await refresh(context, resource, store, child.name)
        return False
    except NotFoundError as error:
        if not error.of_object:
            raise
        context.conflicts += 1
        store.observe_deletion(child, None)
        return False
    except REFUSALS as error:
        raise RefusedError.of(error) from error
    except KubernetesError as error:
        found = await _look_after(context, resource, store, child.name, error)
        response = found if found is not None and found.uid == child.uid else None
        if response is not None and not _goes_as_asked(response, grace_period_seconds):
            raise
    store.observe_deletion(child, response)
    return True


def _goes_as_asked(child: KubernetesObject, grace_period_seconds: int | None) -> bool:
    """Whether it is on its way out, and no slower than was asked for: it may have been on its way before."""
    grace = child.metadata.deletion_grace_period_seconds
    return child.terminating and (grace_period_seconds is None or (grace is not None and grace <= grace_period_seconds))


def _guard(
    context: Context, resource: Resource[T], store: Store[T], child: T, due: Callable[[], bool]
) -> Callable[[], None]:
    """Makes what is called right before the request to delete a child is sent."""

    def check() -> None:
        what, known = f'{resource.kind} "{child.name}"', store.get(child.namespace, child.name)
        if known is not None and known.uid == child.uid and not known.controlled_by(context.owner.uid):
            raise _NotSentError(what, "has another owner by now")
        if context.overtaken:
            raise _NotSentError(what, "is of a FlameCluster that asks for something else by now")
        if not due():
            raise _NotSentError(what, "may be needed by now")
        if resource.kind == PODS.kind:
            context.check_lock()

    return check


async def ensure(
    context: Context,
    resource: Resource[T],
    store: Store[T],
    manifest: Mapping[str, Any],
    difference: Callable[[T, dict[str, Any]], dict[str, Any] | None],
    *,
    frozen: Callable[[T, dict[str, Any]], bool] = lambda _child, _changes: False,
) -> Outcome:
    """Makes a child be there and be as it should.

    Args:
        context: The pass.
        resource: Kind of the child.
        store: Where it is known.
        manifest: How it should be.
        difference: Gives the merge patch that it needs, or None.
        frozen: Says whether a child cannot take the patch, so that only a new one helps.

    Raises:
        RefusedError: The API server will not have it.
    """
    name = manifest["metadata"]["name"]
    existing = store.get(context.owner.namespace, name)
    if existing is None:
        try:
            made = await create(context, resource, store, manifest)
        except AlreadyExistsError:
            # The watch shows only what carries our label: this one is foreign, or somebody took its label off.
            existing = await refresh(context, resource, store, name)
        else:
            context.normal(f"{resource.kind}Created", f'Created {resource.kind} "{name}"')
            return DONE if difference(made, dict(manifest)) is None else undone(resource, name)
    if existing is None:
        return changed()
    return await _maintain(context, resource, store, existing, manifest, difference, frozen)


async def _maintain(
    context: Context,
    resource: Resource[T],
    store: Store[T],
    existing: T,
    manifest: Mapping[str, Any],
    difference: Callable[[T, dict[str, Any]], dict[str, Any] | None],
    frozen: Callable[[T, dict[str, Any]], bool],
) -> Outcome:
    """Brings what has the child's name to what it should be, if it is the child."""
    name = existing.name
    if not existing.controlled_by(context.owner.uid):
        return taken(context, resource, existing)
    if existing.terminating:
        return wait("Terminating", f'waiting for {resource.kind} "{name}" to terminate', RECHECK_TAKEN_NAME)
    changes = difference(existing, dict(manifest))
    if changes is None:
        return DONE
    if frozen(existing, changes):
        return await _give_up(context, resource, store, existing)
    patched = await patch(context, resource, store, name, changes)
    if patched is None:
        return changed()
    if difference(patched, dict(manifest)) is not None:
        return undone(resource, name)
    context.normal(f"{resource.kind}Updated", f'Brought {resource.kind} "{name}" to what it should be')
    return DONE


def changed() -> Outcome:
    """The outcome for an object that changed under our hands."""
    return wait("Changed", "", RECHECK_CHANGED)


def undone(resource: Resource[Any], name: str) -> Outcome:
    """The outcome for an object that the answer to a write shows not to be as it was written."""
    message = f'{resource.kind} "{name}" does not stay as the operator writes it: does a webhook change it?'
    return blocked("ChangesUndone", message, RECHECK_TAKEN_NAME)


async def _give_up(context: Context, resource: Resource[T], store: Store[T], child: T) -> Outcome:
    """Deletes a child that cannot be brought to what it should be; the next pass makes it anew."""
    if not await delete(context, resource, store, child):
        return changed()
    context.normal(f"{resource.kind}Deleted", f'Deleted {resource.kind} "{child.name}", which had been made immutable')
    return wait("Terminating", "", 0)  # it may have been out of sight, so that no store tells


async def _look_after(
    context: Context, resource: Resource[T], store: Store[T], name: str, error: KubernetesError
) -> T | None:
    """Reads an object after a request for it that failed so; a Pod that cannot be read either is left to `settle`.

    Raises:
        KubernetesError: The request's own error: nothing was done, or that cannot be found out now.
    """
    if not error.outcome_unknown:
        raise error
    try:
        return await refresh(context, resource, store, name)
    except (KubernetesError, RefusedError):
        if resource is PODS:
            context.memory.unsettled.add(name)
        raise error from None


async def settle(context: Context) -> None:
    """Finds out what became of Pods of which that is not known, before they are counted.

    After an interruption requests may get through again before the watch does. Without this, a Pod that was made would be made
    once more under another name, and one that was deleted would count as one that serves.

    Raises:
        KubernetesError: It cannot be found out yet.
        RefusedError: RBAC refuses it.
    """
    unsettled = context.memory.unsettled
    unknown = sorted(unsettled)

    async def find_out(index: int) -> None:
        await refresh(context, PODS, context.stores.pods, unknown[index])
        unsettled.discard(unknown[index])

    in_flight = context.config.controller.max_writes_in_flight
    result = await slow_start_batch(len(unknown), len(unknown) or 1, in_flight, find_out)
    if result.errors:
        raise result.errors[0]


async def refresh(context: Context, resource: Resource[T], store: Store[T], name: str) -> T | None:
    """Reads an object, and brings the view of it up to date: the watch may be long in telling, or say nothing of it at all.

    Returns:
        The object as it is; None when it is not there.

    Raises:
        KubernetesError: It cannot be read.
        RefusedError: RBAC refuses it.
    """
    # Now: what a watch brings during the read may be newer than that.
    known = store.get(context.owner.namespace, name)
    found = await look(context, resource, name)
    if known is not None and (found is None or found.uid != known.uid):
        store.observe_deletion(known, None)
    if found is not None:
        store.observe(found)
    return found


async def look(context: Context, resource: Resource[T], name: str) -> T | None:
    """Reads an object; None when it is not there.

    Raises:
        KubernetesError: It cannot be read.
        RefusedError: RBAC refuses it.
    """
    try:
        return await context.client.get(resource, context.owner.namespace, name)
    except NotFoundError as error:
        if not error.of_object:
            raise
        return None
    except REFUSALS as error:
        raise RefusedError.of(error) from error


async def _exists(context: Context, resource: Resource[T], store: Store[T], name: str) -> bool:
    """Whether there is such an object, as far as it can be found out."""
    try:
        return await refresh(context, resource, store, name) is not None
    except (KubernetesError, RefusedError):
        return False


def taken(context: Context, resource: Resource[Any], existing: KubernetesObject) -> Outcome:
    """The outcome for a name that an object of somebody else's takes. Nothing of it is touched."""
    label = f'{resource.kind} "{existing.name}"'
    if is_predecessors(existing, context.owner):
        message = f"{label} of an earlier FlameCluster of this name is not gone yet"
        return wait("NameNotFree", message, RECHECK_TAKEN_NAME)
    owner = existing.controller
    whose = f"is controlled by {owner.kind} {owner.name}" if owner is not None else "has no owner"
    return blocked(
        NAME_CONFLICT,
        f"{label} is not this FlameCluster's: it {whose}. It is left alone; delete it or rename one of the two",
        RECHECK_TAKEN_NAME,
    )
