"""Writing children: every create, repair and delete of one goes through here.

Each response is taken into the store at once, so that the next step, and the next pass, never act on a view older than what
was just written. Each delete carries the uid it means. Nothing is written to an object that is not this FlameCluster's, and
no Pod is deleted without the lock (`lock.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.kube.errors import AlreadyExistsError, ConflictError, KubernetesError, NotFoundError
from flamectl_operator.kube.resources import PODS
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.subreconcilers import reading
from flamectl_operator.subreconcilers.refusals import REFUSALS, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flamectl_operator.kube.resources import Resource
    from flamectl_operator.kube.store import Store
    from flamectl_operator.subreconcilers.context import Context

T = TypeVar("T", bound=KubernetesObject)


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
        if await reading.exists(context, resource, store, name):
            raise _already_exists(resource, name) from error
        raise RefusedError.of(error) from error
    except KubernetesError as error:
        found = await reading.read_after_failure(context, resource, store, name, error)
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
        await reading.refresh(context, resource, store, name)
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
            await reading.refresh(context, resource, store, child.name)
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
        found = await reading.read_after_failure(context, resource, store, child.name, error)
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
        if resource is PODS:
            context.check_lock()

    return check
