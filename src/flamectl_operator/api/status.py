"""`FlameCluster.status`: what the operator says about a cluster, and what it must remember across its own restarts.

Everything is optional: what is not set is left out. Reading is lenient, for a status may have been written by another
version or by a person: a part that makes no sense is dropped and the rest kept, so that a bad message never costs
`nextId`, the high-water mark that keeps executor names from being used twice.
"""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError

from flamectl_operator.api.model import Int32, Int64, MapKey, Model

#: Entries in `unhealthyPods`; a status must stay small, whatever fails.
MAX_UNHEALTHY_PODS = 10
#: Characters of a condition's message, the limit of metav1.Condition.
MAX_MESSAGE = 32768
#: Characters of a condition's reason, likewise.
MAX_REASON = 1024


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


def _read_time(value: Any) -> datetime:
    time = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(time, datetime) or time.tzinfo is None:
        raise ValueError("must be a time with a time zone")
    try:
        return time.astimezone(UTC).replace(microsecond=0)
    except OverflowError:
        raise ValueError("must be a time from year 1 to 9999") from None


def _shorten(value: Any) -> Any:
    """Cut a message to what the schema allows: a server's words may be of any length, the status must be written."""
    return value if not isinstance(value, str) or len(value) <= MAX_MESSAGE else value[: MAX_MESSAGE - 3] + "..."


#: A moment with the precision of metav1.Time, whole seconds in UTC.
Time = Annotated[datetime, BeforeValidator(_read_time)]
Message = Annotated[str, BeforeValidator(_shorten), Field(max_length=MAX_MESSAGE)]


class SessionManagerStatus(Model):
    """What is known of the session manager."""

    ready: Int32 | None = Field(None, description="How many session managers are ready: 1 or 0.")
    endpoint: str | None = Field(
        None, description="Where clients reach the session manager within the Kubernetes cluster."
    )
    revision: str | None = Field(None, description="Revision that the session manager should have.")
    failures: Int32 | None = Field(None, description="Replacements in a row that did not become ready for long.")
    next_attempt: Time | None = Field(None, description="When the next replacement is due.")
    last_failure: str | None = Field(None, description="uid of the last failed Pod that was counted.")


class ExecutorManagerStatus(Model):
    """What is known of the executor managers."""

    replicas: Int32 | None = Field(None, description="How many executors there should be.")
    ready: Int32 | None = Field(None, description="How many executors are ready.")
    current: Int32 | None = Field(None, description="How many executors exist, neither terminating nor terminal.")
    updated: Int32 | None = Field(None, description="How many executors have the current revision.")
    outdated: Int32 | None = Field(
        None,
        description="How many executors were rendered by an older operator or with other settings of the operator.",
    )
    selector: str | None = Field(None, description="Label selector of the executors, for the scale subresource.")
    next_id: Int64 | None = Field(None, description="Number of the next executor; numbers are never used twice.")
    revision: str | None = Field(None, description="Revision that the executors should have.")
    failures: Int32 | None = Field(
        None, description="Rounds of replacements in a row that did not become ready for long."
    )
    next_attempt: Time | None = Field(None, description="When the next replacement is due.")
    attempt_id: Int64 | None = Field(None, description="Executors with a lower number have had their failure counted.")


class Condition(Model):
    """One aspect of the cluster, as in metav1.Condition."""

    type: Annotated[str, Field(min_length=1, max_length=316)] = Field(
        description="What the condition is about, in CamelCase."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    observed_generation: Int64 | None = Field(
        None, description="Generation of the resource that the condition speaks of."
    )
    last_transition_time: Time = Field(description="When the status last changed.")
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON)] = Field(
        description="Why, as one CamelCase word for programs."
    )
    message: Message = Field(description="Why, as text for people.")


class Generations(Model):
    """Which generation is reconciled, and the generation at which each need was seen."""

    reconciled: Int64 = Field(0, description="Last generation that was reconciled completely.")
    needs_config_map_update: Int64 = Field(0, description="Generation whose ConfigMap is not written yet.")
    needs_service_update: Int64 = Field(0, description="Generation whose Services are not written yet.")
    needs_session_manager: Int64 = Field(0, description="Generation that waits for its session manager.")
    needs_grow: Int64 = Field(0, description="Generation that lacks executors.")
    needs_shrink: Int64 = Field(0, description="Generation that has too many executors.")
    needs_pod_replacement: Int64 = Field(0, description="Generation that has Pods of an older revision.")
    has_unhealthy_pods: Int64 = Field(0, description="Generation that has Pods which fail.")
    has_pending_removal: Int64 = Field(
        0, description="Generation that has Pods about to go; does not hold back reconciled."
    )

    def to_wire(self) -> dict[str, Any]:
        """See `FlameClusterStatus.to_wire`; a need that was not seen is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)


class UnhealthyPod(Model):
    """A Pod that is not well."""

    name: str = Field(description="Name of the Pod.")
    reason: str | None = Field(None, description="Why, as one word, such as ImagePullBackOff.")
    message: Message | None = Field(None, description="Why, in the words of the kubelet or the scheduler.")


class FlameClusterStatus(Model):
    """What the operator says about a cluster."""

    state: State | None = Field(
        None,
        description="Pending until the session manager and an executor are ready, then Running; Failed when the "
        "session manager or all executors failed or the spec is invalid.",
    )
    message: Message | None = Field(None, description="The most important thing about the cluster, in one line.")
    observed_generation: Int64 | None = Field(
        None, description="Generation of the resource that this status speaks of."
    )
    config_generation: Int64 | None = Field(
        None, description="Counts the contents that flame-cluster.yaml has had, from 1 upwards."
    )
    config_hash: str | None = Field(None, description="Hash of the content that configGeneration stands for.")
    session_manager: SessionManagerStatus = Field(SessionManagerStatus(), description="The session manager.")
    executor_manager: ExecutorManagerStatus = Field(ExecutorManagerStatus(), description="The executor managers.")
    conditions: Annotated[tuple[Condition, ...], MapKey("type")] = Field(
        (), description="Aspects of the cluster: Ready, Progressing, ConfigValid, Degraded, Suspended and Paused."
    )
    generations: Generations = Field(
        Generations(), description="Which generation is reconciled, and the generation at which each need was seen."
    )
    unhealthy_pods: Annotated[tuple[UnhealthyPod, ...], Field(max_length=MAX_UNHEALTHY_PODS), MapKey("name")] = Field(
        (), description="Pods that are not well, the first ten by name."
    )

    def to_wire(self) -> dict[str, Any]:
        """Return the status as plain JSON data: what is not set is left out, times are RFC 3339 in whole seconds."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    @classmethod
    def from_wire(cls, raw: Any) -> Self:
        """Read a status from JSON data; never raises, and drops only the parts that make no sense."""
        if (whole := cls._validated(raw)) is not None:
            return whole
        rest = deepcopy(raw) if isinstance(raw, dict) else {}
        pods = rest.get("unhealthyPods")
        if isinstance(pods, list):
            rest["unhealthyPods"] = pods[:MAX_UNHEALTHY_PODS]
        # Each round removes at least one part, so this ends, if need be with nothing.
        while rest:
            try:
                return cls.model_validate(rest, by_alias=True, by_name=False)
            except ValidationError as error:
                for location in {_removable(problem["type"], problem["loc"]) for problem in error.errors()}:
                    _clear(rest, location)
                _drop_cleared(rest)
        return cls()

    @classmethod
    def _validated(cls, raw: Any) -> Self | None:
        """The status if all of it makes sense, which is the usual case and needs no copy."""
        try:
            return cls.model_validate(raw, by_alias=True, by_name=False)
        except ValidationError:
            return None


_CLEARED = object()


def _removable(error: str, location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return what to drop for an error: the part itself, or the object that lacks a required one."""
    return location[:-1] if error == "missing" else location


def _clear(raw: dict[str, Any], location: tuple[int | str, ...]) -> None:
    part: Any = raw
    for step in location[:-1]:
        part = part[step]
        if part is _CLEARED:
            return
    if location:
        part[location[-1]] = _CLEARED
    else:
        raw.clear()


def _drop_cleared(part: Any) -> None:
    if isinstance(part, dict):
        for key in [key for key, value in part.items() if value is _CLEARED]:
            del part[key]
        for value in part.values():
            _drop_cleared(value)
    elif isinstance(part, list):
        part[:] = [value for value in part if value is not _CLEARED]
        for value in part:
            _drop_cleared(value)
