"""`status.reason`: the most important thing about a FlameCluster in one word.

The words are those of the conditions and of the events. When several apply, `PRECEDENCE` decides. docs/flamecluster.md holds the
same table, and a test compares the two.
"""

from collections.abc import Iterable

from flamectl_operator.api.status import SUSPENDING, Condition, ConditionType
from flamectl_operator.observed.scheduling import UNSCHEDULABLE

INVALID_SPEC = "InvalidSpec"
PAUSED = "Paused"
SUSPENDED = "Suspended"
IDLE_SUSPENDED = "IdleSuspended"
PODS_FAILING = "PodsFailing"
SESSION_MANAGER_NOT_REACHABLE = "SessionManagerNotReachable"
SESSION_PAUSED = "SessionPaused"
FOREIGN_PODS = "ForeignPods"
DEVICE_UNHEALTHY = "DeviceUnhealthy"
RECOVERING = "Recovering"
UPDATING = "Updating"
STARTING = "Starting"
HEALTHY = "Healthy"
#: The reason that the CRD gives a FlameCluster whose status no operator has written.
NOT_OBSERVED = "NotObserved"

#: Every value of `status.reason`, the most important first. A new reason of a condition gets its place here.
PRECEDENCE: tuple[str, ...] = (
    # No operator has looked.
    NOT_OBSERVED,
    # The operator does nothing until a person acts.
    INVALID_SPEC,
    PAUSED,
    "OutdatedCRD",
    # The operator cannot do a part of its work until a person acts.
    "ClaimTerminating",
    "ClaimLost",
    "InternalError",
    "PermissionDenied",
    "PodSecurity",
    "AdmissionDenied",
    "Rejected",
    "QuotaExceeded",
    "ServiceConflict",
    "NameConflict",
    "ClaimNotFound",
    "ClaimNotBound",
    "ClaimInUse",
    "ConfigMapNotFound",
    "ClaimCannotShrink",
    "ClaimCannotGrow",
    "ClaimDiffers",
    "ChangesUndone",
    "Contention",
    "LabelsChanged",
    "IdsExhausted",
    "LockDenied",
    "LockHeld",
    "RequestsFailing",
    # The operator has done its part, and no Pods are wanted.
    SUSPENDING,
    SUSPENDED,
    IDLE_SUSPENDED,
    # The operator has done its work, and Pods fail.
    "ImagePullFailed",
    "OOMKilled",
    PODS_FAILING,
    "NodeNotReporting",
    UNSCHEDULABLE,
    DEVICE_UNHEALTHY,
    # The Pods are as they should be, and others are beside them, or they do not serve Flame, or Flame does not answer.
    FOREIGN_PODS,
    "ExecutorsNotRegistered",
    SESSION_MANAGER_NOT_REACHABLE,
    SESSION_PAUSED,
    # Pods take long, and may become ready by themselves.
    "NotScheduled",
    "InitContainerWaiting",
    "ContainerCreating",
    "PodNotReady",
    # No person has to act.
    STARTING,
    UPDATING,
    RECOVERING,
    HEALTHY,
)
_RANK = {word: place for place, word in enumerate(PRECEDENCE)}


def rank(word: str) -> float:
    """Return the place of a reason in `PRECEDENCE`: the smaller, the more important.

    A reason that the table does not know may come from the status that another version stored. It needs attention, so it comes
    after the known ones that do.
    """
    return _RANK.get(word, _RANK[SUSPENDING] - 0.5)


def most_important(reasons: Iterable[str]) -> str:
    """Return the reason that comes first in `PRECEDENCE`."""
    return min(reasons, key=rank)


def summary(conditions: Iterable[Condition]) -> str:
    """Return `status.reason` from the conditions of a status."""
    by_type = {each.type: each for each in conditions}
    ready, degraded, paused = map(by_type.get, (ConditionType.READY, ConditionType.DEGRADED, ConditionType.PAUSED))
    found = [ready.reason] if ready is not None else []
    found += [each.reason for each in (degraded, paused) if each is not None and each.status == "True"]
    return most_important(found)
