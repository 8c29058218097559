"""Reading objects past the watches, which may be long in telling, or say nothing of one without its label."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from flamectl_operator.kube.errors import KubernetesError, NotFoundError
from flamectl_operator.kube.resources import PODS
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.runtime.slow_start import in_parallel
from flamectl_operator.subreconcilers.refusals import REFUSALS, RefusedError

if TYPE_CHECKING:
    from flamectl_operator.kube.resources import Resource
    from flamectl_operator.kube.store import Store
    from flamectl_operator.subreconcilers.context import Context

T = TypeVar("T", bound=KubernetesObject)


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


async def exists(context: Context, resource: Resource[T], store: Store[T], name: str) -> bool:
    """Whether there is such an object, as far as it can be found out."""
    try:
        return await refresh(context, resource, store, name) is not None
    except (KubernetesError, RefusedError):
        return False


async def read_after_failure(
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

    async def find_out(name: str) -> None:
        await refresh(context, PODS, context.stores.pods, name)
        unsettled.discard(name)

    result = await in_parallel(sorted(unsettled), context.config.controller.max_writes_in_flight, find_out)
    if result.errors:
        raise result.errors[0]
