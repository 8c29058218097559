"""Making a ConfigMap or a Service be there and be as it should."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from flamectl_operator.kube.errors import AlreadyExistsError
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.runtime.outcome import DONE, Outcome, wait
from flamectl_operator.subreconcilers import children
from flamectl_operator.subreconcilers.outcomes import RECHECK_TAKEN_NAME, changed, name_taken, undone
from flamectl_operator.subreconcilers.reading import refresh

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flamectl_operator.kube.resources import Resource
    from flamectl_operator.kube.store import Store
    from flamectl_operator.subreconcilers.context import Context

T = TypeVar("T", bound=KubernetesObject)


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
            made = await children.create(context, resource, store, manifest)
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
        return name_taken(context.owner, resource, existing)
    if existing.terminating:
        return wait("Terminating", f'waiting for {resource.kind} "{name}" to terminate', RECHECK_TAKEN_NAME)
    changes = difference(existing, dict(manifest))
    if changes is None:
        return DONE
    if frozen(existing, changes):
        return await _give_up(context, resource, store, existing)
    patched = await children.patch(context, resource, store, name, changes)
    if patched is None:
        return changed()
    if difference(patched, dict(manifest)) is not None:
        return undone(resource, name)
    context.normal(f"{resource.kind}Updated", f'Brought {resource.kind} "{name}" to what it should be')
    return DONE


async def _give_up(context: Context, resource: Resource[T], store: Store[T], child: T) -> Outcome:
    """Deletes a child that cannot be brought to what it should be; the next pass makes it anew."""
    if not await children.delete(context, resource, store, child):
        return changed()
    context.normal(f"{resource.kind}Deleted", f'Deleted {resource.kind} "{child.name}", which had been made immutable')
    return wait("Terminating", "", 0)  # it may have been out of sight, so that no store tells
