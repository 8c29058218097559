"""UpdateMetadata: keeps the common labels and annotations of the spec on every child."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from flamectl_operator.desired import names
from flamectl_operator.desired.common_metadata import CommonMetadata
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import CLAIMS, LEASES, PODS, Resource
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.ownership import is_ours
from flamectl_operator.planning.children import CHILDREN
from flamectl_operator.planning.drift import restored_owners
from flamectl_operator.reconcile.objects import outcomes
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.steps.base import Subreconciler
from flamectl_operator.reconcile.steps.batch import batch_end, raise_failure, run_batch
from flamectl_operator.reconcile.steps.ensure import restore
from flamectl_operator.runtime.outcome import DONE, Outcome, combine
from flamectl_operator.runtime.text import listing

#: A child that differs, with its common metadata and the patch that restores them.
MetadataChange = tuple[Resource[Any], KubernetesObject, CommonMetadata, Mapping[str, Any]]
#: The most children whose waits the step reports.
_MAX_REPORTED = 3
#: The aspect of a child that the step restores; see `Repairs.admit`.
_ASPECT = "common metadata"


class UpdateMetadata(Subreconciler):
    """Patch children in place whose labels and annotations differ from `commonLabels` and `commonAnnotations`, and edited owners.

    A new child has them from the beginning. An annotation of each child lists their keys, so that they are removed when the
    spec no longer asks for them. The Lease is not watched, so it is looked at only when another child differs, and whenever the
    operator takes the lock.
    """

    async def run(self, pass_: Pass, /) -> Outcome:
        """Patch the children that differ."""
        owners = await _restore_owners(pass_) if pass_.observe().misowned else DONE
        due = list(_due(pass_))
        if not due:
            return owners
        io, changed, waits = pass_.io, list[str](), list[Outcome]()

        async def write(change: MetadataChange) -> None:
            resource, child, common, patch = change
            if io.reads.superseded:
                waits.append(outcomes.changed())
                return
            wanted = {"labels": dict(common.labels), "annotations": dict(common.annotations)}
            outcome, is_news = await restore(io, resource, child, patch, common.patch, wanted, _ASPECT)
            waits.append(outcome)
            if is_news:
                changed.append(child.name)

        result = await run_batch(io, due, write)
        if changed:
            io.events.record_normal(
                "MetadataUpdated", f"Updated common labels and annotations of {len(changed)} objects"
            )
        raise_failure(result)
        if result.skipped:
            return outcomes.next_batch()
        if changed:
            await self._update_lease(pass_)
        # A writer that undoes the changes of one child undoes those of most others as well.
        waits.sort(key=lambda each: each.message, reverse=True)
        return combine([owners, *waits[:_MAX_REPORTED], *(replace(each, message="") for each in waits[_MAX_REPORTED:])])

    async def _update_lease(self, pass_: Pass) -> None:
        lease = await pass_.io.reads.read(LEASES, names.lock(pass_.io.owner.name))
        if lease is not None and lease.controlled_by(pass_.io.owner.uid) and (patch := pass_.io.common.patch(lease)):
            await pass_.lock.lease.patch(lease, patch)


async def _restore_owners(pass_: Pass) -> Outcome:
    """Restore the owner references of Pods, because the garbage collector would not find their owner."""
    io, restored, waits = pass_.io, list[str](), list[Outcome]()
    ours = io.owner.owner_reference()

    def patch_of(pod: PodView) -> Mapping[str, Any] | None:
        owners = restored_owners(pod, ours)
        version = pod.metadata.resource_version
        return {"metadata": {"ownerReferences": owners, "resourceVersion": version}} if owners else None

    async def write(pod: PodView) -> None:
        if io.reads.superseded or (patch := patch_of(pod)) is None:
            return
        outcome, is_news = await restore(io, PODS, pod, patch, patch_of, ours, "owner")
        waits.append(outcome)
        restored.extend([pod.name] * is_news)

    result = await run_batch(io, pass_.observe().misowned, write)
    if restored:
        io.events.record_normal("MetadataUpdated", f"Restored the owner reference of {listing(sorted(restored))}")
    return combine([batch_end(result, len(waits)), *waits[:_MAX_REPORTED]])


def _due(pass_: Pass) -> Iterator[MetadataChange]:
    """Iterate over the children that differ, without those that terminate."""
    common, observed = pass_.io.common, pass_.observe()
    if not common.labels and not common.annotations and not observed.sources.lists_common_keys:
        return
    desired = pass_.effective.desired
    for resource, child in _children(observed):
        of_users = resource is CLAIMS and child.name in desired.claims_of_users
        if not child.terminating and not of_users and (patch := common.patch(child)) is not None:
            yield resource, child, common, patch
    manager, caches = observed.session_manager, observed.object_caches.ours.values()
    groups: tuple[tuple[ComponentTemplate | None, Any], ...] = (
        (desired.session_manager, () if manager is None else (manager,)),
        (desired.object_cache, caches),
        (desired.group.template, observed.executors),
    )
    for template, components in groups:
        ours = common if template is None else common.besides(template.manifest["metadata"])
        for component in components:
            if not component.terminating and (patch := ours.patch(component.pod)) is not None:
                yield PODS, component.pod, ours, patch


def _children(observed: ObservedCluster) -> Iterator[tuple[Resource[Any], KubernetesObject]]:
    kept = ((row.resource, row.find(observed)) for row in CHILDREN)
    yield from ((resource, child) for resource, child in kept if child is not None and observed.owns(child))
    yield from ((CLAIMS, claim) for claim in observed.sources.claims if is_ours(claim, observed.owner))
