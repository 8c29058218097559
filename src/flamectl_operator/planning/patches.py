"""Patches of Pods and PersistentVolumeClaims.

A Pod gets back its labels, because the rest of it cannot change. A claim gets its labels and its owner, and it may grow, or ask
for less again while its volume has not grown.
"""

from typing import Any

from flamectl_operator.api.constants import (
    CLUSTER_LABEL,
    INSTANCE_LABEL,
    OBJECT_CACHE,
    REVISION_ANNOTATION,
    SESSION_MANAGER,
    SESSION_STORE_ANNOTATION,
)
from flamectl_operator.api.quantity import amount, parse_quantity
from flamectl_operator.desired.claims import DesiredClaim
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import PersistentVolumeClaimView
from flamectl_operator.observed.claims import PHASE_BOUND
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import Component, ObjectCache
from flamectl_operator.planning import drift
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec


def session_manager_repair(pod: PodView, observed: ObservedCluster, effective: EffectiveSpec) -> dict[str, Any] | None:
    """Return the merge patch that restores labels and what the operator records on the Pod; None when nothing is missing.

    A stale session manager only gets back its selector labels, because it may serve for long if its replacement would be refused.
    Other changes of the template apply to the replacement.
    """
    manager, owner = observed.sources.wanted_session_manager.read(pod), observed.owner
    store = observed.sources.wanted_session_manager.store_of(manager, observed.known_claims)
    if effective.session_manager_stale(manager):
        labels = owner.labels(SESSION_MANAGER) | owner.selector(SESSION_MANAGER)
        repair = drift.metadata_patch(pod, {"metadata": {"labels": labels}})
    else:
        repair = drift.metadata_patch(pod, effective.desired.session_manager.manifest)
    recorded = _unrecorded(manager, store)
    if not recorded:
        return repair
    metadata = {"resourceVersion": pod.metadata.resource_version} if repair is None else repair["metadata"]
    return {"metadata": {**metadata, "annotations": recorded}}


def _unrecorded(manager: Component, store: str) -> dict[str, str]:
    """Return what the Pod does not record: its revision, and its storage where sessions persist."""
    wanted = {REVISION_ANNOTATION: manager.revision, SESSION_STORE_ANNOTATION: store}
    return {mark: text for mark, text in wanted.items() if text and manager.pod.annotations.get(mark) != text}


def object_cache_repair(pod: PodView, owner: Identity, effective: EffectiveSpec) -> dict[str, Any] | None:
    """Return the merge patch that restores labels; None when none are missing."""
    template = effective.desired.object_cache
    if template is None or effective.cache_stale(ObjectCache(pod)):
        labels = owner.labels(OBJECT_CACHE) | owner.selector(OBJECT_CACHE)
        return drift.metadata_patch(pod, {"metadata": {"labels": labels}})
    return drift.metadata_patch(pod, template.manifest)


def claim_patch(claim: PersistentVolumeClaimView, desired: DesiredClaim) -> dict[str, Any] | None:
    """Return the merge patch that a claim needs, or None."""
    changes = drift.metadata_patch(claim, desired.manifest()) or {}
    if desired.retained:
        changes = without_instance(claim, changes)
    misnamed = not desired.retained and drift.restored_owners(claim, desired.owner.owner_reference())
    if misnamed or claim.controlled_by(desired.owner.uid) == desired.retained:
        owners = owners_patch(claim, keep=not desired.retained, owner=desired.owner)
        changes = {**changes, "metadata": {**changes.get("metadata", {}), **owners["metadata"]}}
    # Only a claim that has a volume can grow.
    grows = claim.status.phase == PHASE_BOUND and amount(claim.size) < parse_quantity(desired.size)
    if grows or may_take_back(claim, desired):
        version = {"resourceVersion": claim.metadata.resource_version}
        changes = {
            **changes,
            "metadata": {**changes.get("metadata", {}), **version},
            "spec": {"resources": {"requests": {"storage": desired.size}}},
        }
    return changes or None


def may_take_back(claim: PersistentVolumeClaimView, desired: DesiredClaim) -> bool:
    """Return whether a claim may ask for less again, because its volume has not grown so far.

    Kubernetes accepts any size above that of the volume, so that a growth which the storage refuses can be corrected.
    """
    capacity = claim.status.capacity.storage
    return capacity is not None and amount(capacity) < parse_quantity(desired.size) < amount(claim.size)


def without_instance(claim: PersistentVolumeClaimView, changes: dict[str, Any]) -> dict[str, Any]:
    """Return a merge patch that takes the operator's instance label off as well; see `Identity.retained_labels`."""
    if claim.labels.get(INSTANCE_LABEL) != claim.labels.get(CLUSTER_LABEL) or INSTANCE_LABEL not in claim.labels:
        return changes
    metadata = {"resourceVersion": claim.metadata.resource_version, **changes.get("metadata", {})}
    return {**changes, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), INSTANCE_LABEL: None}}}


def owners_patch(claim: PersistentVolumeClaimView, *, keep: bool, owner: Identity) -> dict[str, Any]:
    """Return the merge patch that adds or removes this FlameCluster as the owner of a claim."""
    references = [*drift.other_owners(claim, owner.uid), *([owner.owner_reference()] if keep else [])]
    return {"metadata": {"ownerReferences": references, "resourceVersion": claim.metadata.resource_version}}
