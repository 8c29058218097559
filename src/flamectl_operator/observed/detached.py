"""Executors that run without a label by which executors are found, or without an owner. They have left the cluster."""

from __future__ import annotations

from flamectl_operator.api.constants import EXECUTOR_MANAGER
from flamectl_operator.desired import names
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed import pods

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
