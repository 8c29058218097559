"""Make a ConfigMap, a Service or a NetworkPolicy match its manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from flamectl_operator.kube.errors import AlreadyExistsError
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.reconcile.outcomes import RECHECK_TAKEN_NAME, changed, name_taken, undone
from flamectl_operator.reconcile.refusals import RefusedError
from flamectl_operator.reconcile.transform import is_too_large, is_too_large_policy
from flamectl_operator.runtime.outcome import DONE, Outcome, wait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flamectl_operator.kube.resources import Resource
    from flamectl_operator.kube.views import ConfigMapView, NetworkPolicyView
    from flamectl_operator.reconcile.cluster_io import ClusterIO

T = TypeVar("T", bound=KubernetesObject)


async def ensure(
    io: ClusterIO,
    resource: Resource[T],
    manifest: Mapping[str, Any],
    difference: Callable[[T, dict[str, Any]], dict[str, Any] | None],
    *,
    unpatchable: Callable[[T, dict[str, Any]], str] = lambda _child, _changes: "",
    edited: Callable[[T, Mapping[str, Any]], bool] = lambda _child, _manifest: False,
) -> Outcome:
    """Create a child, or bring it back to its manifest.

    Args:
        io: The FlameCluster's objects.
        resource: The resource of the child.
        manifest: The manifest of the child.
        difference: Returns the merge patch that the child needs, or None.
        unpatchable: Returns the reason why a child cannot take the patch and must be recreated; else an empty text.
        edited: Returns whether the child matched its manifest until someone edited it.

    Raises:
        RefusedError: The API server rejects the child.
    """
    name = manifest["metadata"]["name"]
    existing = io.stores.of(resource).get(io.owner.namespace, name)
    if existing is None:
        if (put_off := io.repairs.admit(resource, name, manifest)) is not None:
            return put_off
        try:
            created = await io.create(resource, manifest)
        except AlreadyExistsError:
            # The watch shows only labelled objects, so this object is foreign, or a user removed its label.
            existing = await io.refresh(resource, name)
        except RefusedError:
            io.repairs.refused(resource, name)
            raise
        else:
            if not io.repairs.record(resource, name, None):
                io.record_event(f"{resource.kind}Created", f'Created {resource.kind} "{name}"')
            return DONE if difference(created, dict(manifest)) is None else undone(resource, name)
    if existing is None:
        return changed()
    return await _maintain(io, resource, existing, manifest, difference, unpatchable, edited)


async def ensure_absent(io: ClusterIO, resource: Resource[T], name: str) -> Outcome:
    """Delete a child that the spec no longer asks for. A foreign object with its name is left alone.

    A child whose label was removed is not seen; garbage collection deletes it with the FlameCluster.

    Args:
        io: The FlameCluster's objects.
        resource: The resource of the child.
        name: The name of the child.

    Raises:
        RefusedError: The API server rejects the deletion.
    """
    existing = io.stores.of(resource).get(io.owner.namespace, name)
    if existing is None or existing.terminating or not existing.controlled_by(io.owner.uid):
        return DONE
    if not await io.delete(resource, existing):
        return changed()
    io.record_event(
        f"{resource.kind}Deleted", f'Deleted {resource.kind} "{name}", because the FlameCluster asks for none'
    )
    return DONE


def unpatchable_config_map(existing: ConfigMapView, changes: Mapping[str, Any]) -> str:
    """Return the reason why a ConfigMap must be recreated; empty when a patch is enough."""
    if is_too_large(existing):
        return "its content is too large"  # the store does not keep the keys that a patch would have to name
    immutable = bool(existing.immutable) and not changes.keys().isdisjoint({"data", "binaryData"})
    return "it is immutable" if immutable else ""


def unpatchable_network_policy(existing: NetworkPolicyView, _changes: Mapping[str, Any]) -> str:
    """Return the reason why a NetworkPolicy must be recreated; empty when a patch is enough."""
    return "its content is too large" if is_too_large_policy(existing) else ""


async def _maintain(
    io: ClusterIO,
    resource: Resource[T],
    existing: T,
    manifest: Mapping[str, Any],
    difference: Callable[[T, dict[str, Any]], dict[str, Any] | None],
    unpatchable: Callable[[T, dict[str, Any]], str],
    edited: Callable[[T, Mapping[str, Any]], bool],
) -> Outcome:
    """Bring the object with the child's name back to its manifest, if it is the child."""
    name = existing.name
    if not existing.controlled_by(io.owner.uid):
        return name_taken(io.owner, resource, existing)
    if existing.terminating:
        return wait("Terminating", f'waiting for {resource.kind} "{name}" to terminate', RECHECK_TAKEN_NAME)
    changes = difference(existing, dict(manifest))
    if changes is None:
        return DONE
    if (put_off := io.repairs.admit(resource, name, manifest)) is not None:
        return put_off
    if cause := unpatchable(existing, changes):
        return await _recreate(io, resource, existing, cause)
    patched = await io.patch(resource, name, changes)
    if patched is None:
        return changed()
    if difference(patched, dict(manifest)) is not None:
        return undone(resource, name)
    if not io.repairs.record(resource, name, existing):
        _record_update(io, resource, name, changes, by_hand=edited(existing, manifest))
    return DONE


def _record_update(
    io: ClusterIO, resource: Resource[Any], name: str, changes: Mapping[str, Any], *, by_hand: bool
) -> None:
    fields = ", ".join(_fields(changes))
    if by_hand:
        message = f'Restored {resource.kind} "{name}", because somebody edited {fields}'
        io.record_warning(f"{resource.kind}Updated", message)
    else:
        message = f'Updated {resource.kind} "{name}" to match the FlameCluster: {fields}'
        io.record_event(f"{resource.kind}Updated", message)


def _fields(changes: Mapping[str, Any]) -> list[str]:
    """Return the fields of a patch, two levels deep."""
    found = []
    for key, value in changes.items():
        found += [f"{key}.{field}" for field in value] if isinstance(value, dict) and value else [key]
    return [field for field in found if field != "metadata.resourceVersion"]


async def _recreate(io: ClusterIO, resource: Resource[T], child: T, cause: str) -> Outcome:
    """Delete a child that cannot be patched; the next pass creates it again."""
    if not await io.delete(resource, child):
        return changed()
    io.record_event(f"{resource.kind}Deleted", f'Deleted {resource.kind} "{child.name}", because {cause}')
    return wait("Terminating", "", 0)  # the watch may not show it, so there may be no event
