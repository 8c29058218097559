"""`FlameCluster.status`: the operator's report about a cluster, and state that must survive a restart of the operator.

All fields are optional: fields without a value are left out. Reading is lenient, because another version or a person may have
written the status: an invalid part is dropped and the rest is kept. So an invalid message never loses `nextId`, which keeps the
names of executors unique.
"""

from contextlib import suppress
from copy import deepcopy
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError

from flamectl_operator.api.component_status import (
    ExecutorManagerStatus,
    IdleStatus,
    Message,
    ObjectCacheStatus,
    SessionManagerStatus,
    SessionsStatus,
    Time,
    TlsStatus,
)
from flamectl_operator.api.lenient import drop_invalid
from flamectl_operator.api.model import Atomic, AtomicModel, Int32, Int64, MapKey, PlainModel

#: The most entries in `unhealthyPods`, because a status must stay small.
MAX_UNHEALTHY_PODS = 10
#: The most entries in `recentFailures`, likewise.
MAX_RECENT_FAILURES = 10
#: Characters of a condition's reason, the limit of metav1.Condition.
MAX_REASON = 1024
#: Reason of `Suspended=False` from the first deletion of a suspension until its last Pod is gone.
SUSPENDING = "Suspending"


class State(StrEnum):
    """The state of a cluster in one word."""

    PENDING = "Pending"
    RUNNING = "Running"
    FAILED = "Failed"


class ConditionType(StrEnum):
    """Types of the conditions that the operator sets."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    CONFIG_VALID = "ConfigValid"
    DEGRADED = "Degraded"
    SUSPENDED = "Suspended"
    PAUSED = "Paused"
    SESSION_MANAGER_REACHABLE = "SessionManagerReachable"
    EXECUTORS_REGISTERED = "ExecutorsRegistered"
    AUTOSCALING = "Autoscaling"


class Condition(AtomicModel):
    """A condition of the cluster, as in metav1.Condition."""

    type: Annotated[str, Field(min_length=1, max_length=316)] = Field(
        description="Type of the condition, in CamelCase."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    observed_generation: Int64 | None = Field(
        None, description="Generation of the resource that the condition is about."
    )
    last_transition_time: Time = Field(description="Time of the last change of the status.")
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON)] = Field(
        description="Reason as one CamelCase word for programs."
    )
    message: Message = Field(description="Explanation for people.")


class Generations(AtomicModel):
    """The reconciled generation, and the generation at which each need was seen; each number is a generation, not a count."""

    reconciled: Int64 = Field(0, description="Last generation that was reconciled completely.")
    needs_config_map_update: Int64 = Field(0, description="Generation whose ConfigMap is not written yet.")
    needs_service_update: Int64 = Field(0, description="Generation whose Services are not written yet.")
    needs_network_policy_update: Int64 = Field(0, description="Generation whose NetworkPolicy is not written yet.")
    needs_session_manager: Int64 = Field(0, description="Generation that waits for its session manager.")
    needs_claim_update: Int64 = Field(0, description="Generation whose PersistentVolumeClaims differ from the spec.")
    needs_object_cache: Int64 = Field(0, description="Generation that lacks object caches, or has too many.")
    needs_grow: Int64 = Field(0, description="Generation that lacks executors.")
    needs_shrink: Int64 = Field(0, description="Generation that has too many executors.")
    needs_pod_replacement: Int64 = Field(0, description="Generation that has Pods of an older revision.")
    has_unhealthy_pods: Int64 = Field(0, description="Generation that has Pods which fail or find no node.")
    has_pending_removal: Int64 = Field(
        0, description="Generation that has terminating Pods; does not delay reconciled."
    )


class UnhealthyPod(AtomicModel):
    """A Pod that has failed, whose node does not report, that cannot be scheduled, or that takes long to become ready."""

    name: str = Field(description="Name of the Pod.")
    reason: str | None = Field(None, description="Reason as one word, such as ImagePullFailed.")
    message: Message | None = Field(None, description="Cause, and what to do about it.")


class RecentFailure(AtomicModel):
    """The failures of one Pod within the last minutes; the Pod may be gone."""

    name: str = Field(description="Name of the Pod.")
    count: Annotated[Int32, Field(ge=1)] = Field(description="Number of its failures; restarts of a container count.")
    since: Time = Field(description="Time of its first failure.")
    last: Time = Field(description="Time of its last failure.")
    reason: str | None = Field(None, description="Reason of the last failure as one word, such as OOMKilled.")
    message: Message | None = Field(None, description="Cause of the last failure, and its remedy.")


class FlameClusterStatus(PlainModel):
    """The observed state of a cluster."""

    state: State | None = Field(
        None,
        description="Running when the session manager is ready, and an executor is or none is wanted; Failed when the session "
        "manager or all executors failed or the spec is invalid; otherwise Pending.",
    )
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON)] | None = Field(
        None, description="Most important fact about the cluster as one CamelCase word, such as Healthy or Paused."
    )
    message: Message | None = Field(None, description="Most important fact about the cluster, in one line.")
    observed_generation: Int64 | None = Field(None, description="Generation of the resource that this status is about.")
    config_generation: Int64 | None = Field(
        None,
        description="Number of the content of flame-cluster.yaml, which starts at 1 and increases with each change.",
    )
    config_hash: str | None = Field(
        None, description="Hash by which the operator recognizes the content with the number configGeneration."
    )
    spec_hash: str | None = Field(
        None,
        description="A generation, and the hash by which the operator notices that its spec reads differently under another CRD.",
    )
    session_manager: SessionManagerStatus = Field(SessionManagerStatus(), description="The session manager.")
    executor_manager: ExecutorManagerStatus = Field(ExecutorManagerStatus(), description="The executor managers.")
    object_cache: ObjectCacheStatus = Field(ObjectCacheStatus(), description="The object cache.")
    sessions: SessionsStatus = Field(
        SessionsStatus(), description="Open sessions and their tasks; absent when the session manager cannot be asked."
    )
    conditions: Annotated[tuple[Condition, ...], MapKey("type")] = Field(
        (),
        description="Conditions of the cluster: Ready, Progressing, ConfigValid, Degraded, Suspended, Paused, "
        "SessionManagerReachable, ExecutorsRegistered and Autoscaling.",
    )
    generations: Generations = Field(
        Generations(),
        description="Reconciled generation, and the generation at which each need was seen. Each number is a generation of the "
        "resource, not a count.",
    )
    unhealthy_pods: Annotated[tuple[UnhealthyPod, ...], Field(max_length=MAX_UNHEALTHY_PODS), MapKey("name")] = Field(
        (),
        description="Pods that have failed, whose node does not report, or that cannot be scheduled, by name; then Pods that "
        "take long to become ready. The first ten.",
    )
    recent_failures: Annotated[tuple[RecentFailure, ...], Field(max_length=MAX_RECENT_FAILURES), MapKey("name")] = (
        Field(
            (),
            description="Pods of the wanted revisions that failed within the last ten minutes, by name, also those that are "
            "replaced and gone. The last ten.",
        )
    )
    claims: Atomic[str] = Field(
        (),
        description="Names of the claims that the operator has created or found, so that a claim that vanished is reported.",
    )
    idle: IdleStatus = Field(IdleStatus(), description="How long no session has been in use, where spec.idle is set.")
    tls: TlsStatus = Field(TlsStatus(), description="Names that certificates must cover, if the cluster has TLS.")

    def to_wire(self) -> dict[str, Any]:
        """Return the status as plain JSON data, without unset fields and with times as RFC 3339 in whole seconds."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    @classmethod
    def from_wire(cls, raw: Any) -> Self:
        """Read a status from JSON data; never raise, and drop only invalid parts."""
        # Usually all of it is valid, and needs no copy.
        with suppress(ValidationError):
            return cls.model_validate(raw, by_alias=True, by_name=False)
        rest = deepcopy(raw) if isinstance(raw, dict) else {}
        pods = rest.get("unhealthyPods")
        if isinstance(pods, list):
            rest["unhealthyPods"] = pods[:MAX_UNHEALTHY_PODS]
        failures = rest.get("recentFailures")
        if isinstance(failures, list):
            rest["recentFailures"] = failures[:MAX_RECENT_FAILURES]
        # Each round removes at least one part, so the loop ends, in the worst case with an empty status.
        while rest:
            try:
                return cls.model_validate(rest, by_alias=True, by_name=False)
            except ValidationError as error:
                drop_invalid(rest, error)
        return cls()


def find(status: FlameClusterStatus, kind: str) -> Condition | None:
    """Return a condition by its type."""
    for condition in status.conditions:
        if condition.type == kind:
            return condition
    return None


def suspension_begun(status: FlameClusterStatus) -> bool:
    """Return whether the status shows a suspension that has begun and is not finished."""
    condition = find(status, ConditionType.SUSPENDED)
    return condition is not None and condition.status == "False" and condition.reason == SUSPENDING
