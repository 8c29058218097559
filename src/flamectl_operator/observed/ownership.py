"""Tells whose an object is: this FlameCluster's, one of an earlier FlameCluster of its name, or somebody else's."""

from __future__ import annotations

from flamectl_operator.api.constants import API_VERSION, KIND
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.views import KubernetesObject, PersistentVolumeClaimView


def is_ours(claim: PersistentVolumeClaimView, owner: Identity) -> bool:
    """Return whether a claim is this FlameCluster's: by its owner, or by its labels if it was retained."""
    if claim.controller is not None:
        return claim.controlled_by(owner.uid)
    return has_labels_of(claim, owner)


def has_labels_of(child: KubernetesObject, owner: Identity) -> bool:
    """Return whether an object has the labels of a FlameCluster's children, whatever its owner."""
    return all(child.labels.get(key) == value for key, value in owner.retained_labels("").items() if value)


def is_predecessors(existing: KubernetesObject, owner: Identity) -> bool:
    """Return whether it belongs to an earlier FlameCluster of this name, so that garbage collection will delete it."""
    controller = existing.controller
    return (
        controller is not None
        and (controller.api_version, controller.kind, controller.name) == (API_VERSION, KIND, owner.name)
        and controller.uid != owner.uid
    )
