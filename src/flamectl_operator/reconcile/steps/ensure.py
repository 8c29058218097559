"""Make a child match its manifest, and the step that does so for some of the rows of `planning/children.py`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, TypeVar

from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.errors import AlreadyExistsError
from flamectl_operator.kube.resources import Resource
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.planning.children import Child
from flamectl_operator.planning.drift import fields_of
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.reconcile.objects.cluster_io import ClusterIO
from flamectl_operator.reconcile.objects.outcomes import changed, name_taken, still_terminating
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.reconcile.steps.base import Subreconciler
from flamectl_operator.reconcile.steps.collect import collect_in_parallel
from flamectl_operator.runtime.outcome import DONE, Outcome, combine, wait

T = TypeVar("T", bound=KubernetesObject)


class KeepChildren(Subreconciler):
    """Keep children as their manifests say, side by side; a refusal of one does not prevent the others."""

    children: ClassVar[tuple[Child[Any], ...]]

    async def run(self, pass_: Pass, /) -> Outcome:
        """Create, repair or delete the children."""
        outdated = pass_.plan.outdated_children
        children = [child for child in self.children if child in outdated]
        if not children:
            return DONE
        if len(children) == 1:
            return await ensure(pass_.io, children[0], pass_.effective)
        ends, errors = await collect_in_parallel(
            *(partial(ensure, pass_.io, each, pass_.effective) for each in children)
        )
        refused = [error for error in errors if isinstance(error, RefusedError)]
        if refused:
            others = [outcome.message for outcome in ends if outcome.attention]
            raise RefusedError(refused[0].reason, "; ".join([*map(str, refused), *others]))
        if errors:
            raise errors[0]
        return combine(ends)


async def ensure(io: ClusterIO, child: Child[T], effective: EffectiveSpec) -> Outcome:
    """Create a child, bring it back to its manifest, or delete it when the spec asks for none."""
    resource, name, manifest = child.resource, child.name(io.owner.name), child.manifest(effective)
    if manifest is None:
        return await _ensure_absent(io, resource, name)
    existing = io.stores.of(resource).get(io.owner.namespace, name)
    if existing is None:
        if (deferral := io.repairs.admit(resource, name, manifest)) is not None:
            return deferral
        try:
            created = await io.create(resource, manifest)
        except AlreadyExistsError:
            # The watch shows only labelled objects, so this object is foreign, or a user removed its label.
            existing = await io.reads.refresh(resource, name)
        else:
            if not io.repairs.record(resource, name, None):
                io.events.record_normal(f"{resource.kind}Created", f'Created {resource.kind} "{name}"')
            if not created.controlled_by(io.owner.uid):
                return io.repairs.undone(resource, name, {"metadata": {"ownerReferences": None}})
            left = child.patch(created, manifest)
            return DONE if left is None else io.repairs.undone(resource, name, left)
    return changed() if existing is None else await _maintain(io, child, existing, manifest)


async def _ensure_absent(io: ClusterIO, resource: Resource[T], name: str) -> Outcome:
    """Delete a child that the spec no longer asks for. A child without its label is deleted with the FlameCluster."""
    existing = io.stores.of(resource).get(io.owner.namespace, name)
    if existing is None or not existing.controlled_by(io.owner.uid):
        return DONE
    if existing.terminating:
        return still_terminating(resource, existing, io.clock.now())
    return await _delete(io, resource, existing, "the FlameCluster asks for none")


async def _maintain(io: ClusterIO, child: Child[T], existing: T, manifest: dict[str, Any]) -> Outcome:
    """Bring the object with the child's name back to its manifest, if it is the child."""
    resource, name = child.resource, existing.name
    if not existing.controlled_by(io.owner.uid):
        return name_taken(io.owner, resource, existing)
    if existing.terminating:
        return still_terminating(resource, existing, io.clock.now())
    changes = child.patch(existing, manifest)
    if changes is None:
        return DONE
    if cause := child.unpatchable(existing, changes):
        if (deferral := io.repairs.admit(resource, name, manifest)) is not None:
            return deferral
        deleted = await _delete(io, resource, existing, cause)
        # The next pass creates it again. The watch may not show it, so there may be no event.
        return wait("Terminating", "", 0) if deleted is DONE else deleted
    outcome, is_news = await restore(
        io, resource, existing, changes, lambda patched: child.patch(patched, manifest), manifest
    )
    if is_news:
        _record_update(io, resource, name, changes, by_hand=child.edited(existing, manifest))
    return outcome


def _record_update(
    io: ClusterIO, resource: Resource[Any], name: str, changes: Mapping[str, Any], *, by_hand: bool
) -> None:
    fields = fields_of(changes)
    if by_hand:
        message = f'Restored {resource.kind} "{name}", because somebody edited {fields}'
        io.events.record_warning(f"{resource.kind}Updated", message)
    else:
        message = f'Updated {resource.kind} "{name}" to match the FlameCluster: {fields}'
        io.events.record_normal(f"{resource.kind}Updated", message)


async def _delete(io: ClusterIO, resource: Resource[T], child: T, why: str) -> Outcome:
    if not await io.delete(resource, child):
        return changed()
    io.events.record_normal(f"{resource.kind}Deleted", f'Deleted {resource.kind} "{child.name}", because {why}')
    return DONE


async def restore(
    io: ClusterIO,
    resource: Resource[T],
    child: T,
    changes: Mapping[str, Any],
    patch_of: Callable[[T], Mapping[str, Any] | None],
    wanted: Mapping[str, Any],
    aspect: str = "",
) -> tuple[Outcome, bool]:
    """Patch a child, unless somebody keeps changing it; return how that ended, and whether it is news.

    `patch_of` returns the merge patch that the child needs after that, or None. See `Repairs.admit` for `wanted` and `aspect`.
    """
    if (deferral := io.repairs.admit(resource, child.name, wanted, aspect)) is not None:
        return deferral, False
    patched = await io.patch(resource, child.name, changes)
    if patched is None:
        return changed(), False
    if (left := patch_of(patched)) is not None:
        return io.repairs.undone(resource, child.name, left, aspect), False
    return DONE, not io.repairs.record(resource, child.name, child, aspect)


async def find_taken(
    io: ClusterIO, resource: Resource[T], name: str, is_ours: Callable[[T, Identity], bool]
) -> T | Outcome:
    """Read the object whose name was taken; return it if it is ours and only lacks its label, else the wait for its end."""
    found = await io.reads.refresh(resource, name)
    if found is None:
        return changed()
    return found if is_ours(found, io.owner) else name_taken(io.owner, resource, found)
