"""The parts of `FlameCluster.status` that speak of one component, and what all parts are made of."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from flamectl_operator.api.model import Atomic, AtomicModel, Int32, Int64, PlainModel
from flamectl_operator.runtime.text import shortened

#: Characters of a condition's message, the limit of metav1.Condition.
MAX_MESSAGE = 32768


class CacheState(StrEnum):
    """The state of the object cache in one word."""

    NOT_RUN = "NotRun"
    PENDING = "Pending"
    RUNNING = "Running"
    FAILED = "Failed"


def _read_time(value: Any) -> datetime:
    time = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(time, datetime) or time.tzinfo is None:
        raise ValueError("must be a time with a time zone")
    try:
        return time.astimezone(UTC).replace(microsecond=0)
    except OverflowError:
        raise ValueError("must be a time from year 1 to 9999") from None


def _shorten(value: Any) -> Any:
    """Cut a message, because a server's text may have any length and hold control characters."""
    return shortened(value) if isinstance(value, str) else value


#: A moment with the precision of metav1.Time, whole seconds in UTC.
Time = Annotated[datetime, BeforeValidator(_read_time)]
Message = Annotated[str, BeforeValidator(_shorten), Field(max_length=MAX_MESSAGE)]


class SessionManagerStatus(AtomicModel):
    """The status of the session manager."""

    ready: Int32 | None = Field(None, description="Number of ready session managers: 1 or 0.")
    endpoint: str | None = Field(None, description="Address of the session manager for clients in the same namespace.")
    revision: str | None = Field(None, description="Wanted revision of the session manager.")
    stale_pod: str | None = Field(
        None,
        description="Uid and revision of the session manager's Pod while its revision is not the wanted one; no uid while the "
        "operator does not see the Pod.",
    )
    first_container: str | None = Field(
        None,
        description="Uid of the session manager's Pod and id of its first container, because a kubelet may count restarts from "
        "zero again; absent where sessions persist.",
    )
    failures: Int32 | None = Field(None, description="Number of consecutive Pods of the session manager that failed.")
    next_attempt: Time | None = Field(None, description="Time of the next replacement.")
    last_failure: str = Field(
        "", description="The uid of the last failed Pod that was counted, so that it is counted once."
    )
    update_pending_since: Time | None = Field(
        None,
        description="Time since when a change of the spec has waited for the end of tasks (updateStrategy WhenIdle).",
    )


class AutoscalingStatus(PlainModel):
    """The number of executors that the demand asks for, and the times that it depends on."""

    desired: Int32 | None = Field(None, description="Number of wanted executors; the spec is never written.")
    scale_up_since: Time | None = Field(None, description="Time since when more executors have been needed.")
    scale_up_to: Int32 | None = Field(None, description="The smallest number that was needed since then.")
    scale_down_since: Time | None = Field(None, description="Time since when fewer executors have been needed.")
    scale_down_to: Int32 | None = Field(None, description="The largest number that was needed since then.")


class ExecutorManagerStatus(AtomicModel):
    """The status of the executor managers."""

    replicas: Int32 | None = Field(None, description="Number of wanted executors.")
    ready: Int32 | None = Field(None, description="Number of ready executors.")
    current: Int32 | None = Field(None, description="Number of executors that are neither terminating nor terminal.")
    registered: Int32 | None = Field(
        None,
        description="Number of executors that are registered with the session manager; absent when it cannot be asked.",
    )
    draining: Int32 | None = Field(None, description="Number of executors that are being drained.")
    updated: Int32 | None = Field(None, description="Number of executors with the wanted revision.")
    outdated: Int32 | None = Field(
        None, description="Number of executors that an older operator or other operator settings rendered."
    )
    selector: str | None = Field(None, description="Label selector of the executors, for the scale subresource.")
    next_id: Int64 | None = Field(
        None, description="Number in the name of the next executor, which is never used twice; not a count."
    )
    revision: str | None = Field(None, description="Wanted revision of the executors.")
    failures: Int32 | None = Field(None, description="Number of consecutive rounds in which executors failed.")
    next_attempt: Time | None = Field(None, description="Time of the next replacement.")
    attempt_id: Int64 | None = Field(
        None, description="Internal. Failures of executors with a lower number are counted already."
    )
    autoscaling: AutoscalingStatus = Field(
        AutoscalingStatus(), description="Number of executors that follows the demand; absent without autoscaling."
    )


class SessionsStatus(AtomicModel):
    """The work that the session manager has; absent when it cannot be asked."""

    open: Int32 | None = Field(None, description="Number of open sessions.")
    pending_tasks: Int64 | None = Field(None, description="Number of waiting tasks of open sessions.")
    running_tasks: Int64 | None = Field(None, description="Number of running tasks of open sessions.")
    failed_tasks: Int64 | None = Field(None, description="Number of failed tasks of open sessions.")
    paused: Int32 | None = Field(
        None,
        description="Number of open sessions to which Flame assigns no more executors, because some failed to bind.",
    )


class IdleStatus(AtomicModel):
    """How long the cluster has been idle; absent without spec.idle."""

    since: Time | None = Field(None, description="Time since when no session has been in use.")
    suspended_generation: Int64 | None = Field(
        None,
        description="Generation of the resource for which the idle cluster suspended itself; another generation ends the "
        "suspension.",
    )


class TlsStatus(AtomicModel):
    """The names in certificates."""

    session_manager_names: Atomic[str] = Field(
        (), description="DNS names that the certificate of the session manager must cover; none without TLS."
    )
    object_cache_names: Atomic[str] = Field(
        (), description="DNS names that the certificate of the object cache must cover; none without TLS."
    )


class ObjectCacheStatus(AtomicModel):
    """The status of the object cache."""

    state: CacheState | None = Field(
        None,
        description="NotRun when objectCache.image is not set, Running when all replicas are ready, Failed when all that "
        "exist have failed, else Pending.",
    )
    message: Message | None = Field(None, description="Reason why the operator runs no object cache.")
    endpoint: str | None = Field(None, description="Address of the object cache for Flame's processes.")
    replicas: Int32 | None = Field(None, description="Number of wanted object caches.")
    ready: Int32 | None = Field(None, description="Number of ready object caches.")
    current: Int32 | None = Field(
        None, description="Number of object caches that are neither terminating nor terminal."
    )
    updated: Int32 | None = Field(None, description="Number of object caches with the wanted revision.")
    outdated: Int32 | None = Field(
        None, description="Number of object caches that an older operator or other operator settings rendered."
    )
    revision: str = Field("", description="Revision that the object caches should have.")
    failures: Int32 = Field(
        0, description="Number of consecutive rounds in which object caches failed; absent without a failure."
    )
    next_attempt: Time | None = Field(None, description="Time of the next replacement.")
    counted_pods: Atomic[str] = Field(
        (), description="The uids of the Pods that existed at the last failure, so that each failure is counted once."
    )
