"""The work that is left, by the reasons and in the words of the condition `Progressing`."""

from typing import NamedTuple

from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.children import CHILDREN
from flamectl_operator.planning.needs import Needs

#: The reason of `Progressing`: the first need that applies.
_WORK = {
    **{child.need: child.reason for child in CHILDREN},
    "needs_session_manager": "ReplacingSessionManager",
    "needs_claim_update": "UpdatingClaims",
    "needs_object_cache": "ScalingObjectCache",
    "needs_grow": "CreatingExecutors",
    "needs_shrink": "RemovingExecutors",
    "needs_pod_replacement": "ReplacingStalePods",
}
#: The same in words.
_MESSAGES = {
    **{child.reason: f"The operator updates {child.words}" for child in CHILDREN},
    "CreatingSessionManager": "The operator creates the session manager",
    "ReplacingSessionManager": "The operator replaces the session manager",
    "UpdatingClaims": "The operator updates the PersistentVolumeClaims",
    "ScalingObjectCache": "The operator creates or removes object caches",
    "CreatingExecutors": "The operator creates executors",
    "RemovingExecutors": "The operator removes executors",
    "ReplacingStalePods": "The operator replaces Pods that differ from the spec",
}


class Work(NamedTuple):
    """The work that is left: the reason and the message of `Progressing`."""

    reason: str
    message: str


def work_left(needs: Needs, observed: ObservedCluster) -> Work | None:
    """Return the work of the first need; None when there is none."""
    for need, reason in _WORK.items():
        if getattr(needs, need):
            first = need == "needs_session_manager" and observed.session_manager is None
            known = "CreatingSessionManager" if first else reason
            return Work(known, _MESSAGES[known])
    return None


def work_or_wait(needs: Needs, observed: ObservedCluster) -> Work:
    """Return what is left until the cluster is healthy: the work of the first need, or else the wait for its Pods."""
    return work_left(needs, observed) or Work("WaitingForPods", "The operator waits for Pods to become ready")
