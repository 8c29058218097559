"""Tells whose an object is: this FlameCluster's, one of an earlier FlameCluster of its name, or somebody else's.

A detached executor runs without a label by which executors are found, or without an owner. It has left the cluster.
"""

from flamectl_operator.api.constants import API_VERSION, EXECUTOR_MANAGER, KIND
from flamectl_operator.desired import names
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import KubernetesObject, PersistentVolumeClaimView
from flamectl_operator.observed import pods


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


#: Seconds after which executors that the watch does not show are read again, because no event reports their end.
DETACHED_RECHECK_SECONDS = 30.0


def is_detached(pod: PodView, owner: Identity) -> bool:
    """Return whether a Pod that lacks a label or the owner is an executor that was this FlameCluster's, and runs on."""
    return (
        names.executor_id(owner.name, pod.name) is not None
        and (pod.controller is None or pod.controlled_by(owner.uid))
        and not (pod.terminating or pods.is_terminal(pod, EXECUTOR_MANAGER))
    )


def lost_metadata(pod: PodView, owner: Identity) -> str:
    """Return what a detached executor lacks, for a message."""
    selector = owner.selector(EXECUTOR_MANAGER).items()
    labels = ", ".join(f"{key}={value}" for key, value in selector if pod.labels.get(key) != value)
    several = "s" * (", " in labels)
    return f"the label{several} {labels}" if labels else "the owner reference"
