"""The work that is left, by the reasons and in the words of the condition `Progressing`."""

from typing import NamedTuple

from flamectl_operator.planning.children import CHILDREN
from flamectl_operator.planning.cluster_plan import ClusterPlan


class Work(NamedTuple):
    """The work that is left: the reason and the message of `Progressing`."""

    reason: str
    message: str


#: The work of each need. The first need that applies counts.
_WORK = {
    **{child.need: Work(child.reason, f"The operator updates {child.words}") for child in CHILDREN},
    "needs_session_manager": Work("ReplacingSessionManager", "The operator replaces the session manager"),
    "needs_claim_update": Work("UpdatingClaims", "The operator updates the PersistentVolumeClaims"),
    "needs_object_cache": Work("ScalingObjectCache", "The operator creates or removes object caches"),
    "needs_grow": Work("CreatingExecutors", "The operator creates executors"),
    "needs_shrink": Work("RemovingExecutors", "The operator removes executors"),
    "needs_pod_replacement": Work("ReplacingStalePods", "The operator replaces Pods that differ from the spec"),
}


def work_left(plan: ClusterPlan) -> Work | None:
    """Return the work of the first need; None when there is none."""
    for need, work in _WORK.items():
        if need in plan.needs:
            if need == "needs_session_manager" and plan.observed.session_manager is None:
                return Work("CreatingSessionManager", "The operator creates the session manager")
            return work
    return None


def work_or_wait(plan: ClusterPlan) -> Work:
    """Return what is left until the cluster is healthy: the work of the first need, or else the wait for its Pods."""
    return work_left(plan) or Work("WaitingForPods", "The operator waits for Pods to become ready")
