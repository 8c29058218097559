"""The visible state of a FlameCluster and the picture of the demo at one moment, made from objects of the API server. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Protocol

from flamectl_operator.api.constants import (
    COMPONENT_LABEL,
    EXECUTOR_MANAGER,
    KIND,
    REVISION_ANNOTATION,
    SESSION_MANAGER,
)

Object = dict[str, Any]

#: Kubernetes puts this one into every namespace; it is nobody's child.
_ROOT_CERTIFICATES = "kube-root-ca.crt"
_TRAILING_NUMBER = re.compile(r"\d+$")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A FlameCluster.

    Attributes:
        settled: Whether the status speaks of the present spec.
        updated: Executors of the newest revision.
        config_generation: Counts changes of flame-cluster.yaml.
        status: All of it, for whoever looks for what went wrong.
    """

    name: str
    settled: bool
    state: str
    message: str
    healthy: bool
    suspended: bool
    session_managers: int
    wanted: int
    ready: int
    current: int
    updated: int
    config_generation: int
    revisions: dict[str, str]
    status: Object = field(repr=False)


@dataclass(frozen=True, slots=True)
class Pod:
    """A Pod of the cluster.

    Attributes:
        phase: As kubectl shows it: the phase, or the reason that is more important.
        age: Seconds since its creation.
        revision: Hash of the spec that it was made from.
        stale: Whether its component has a newer revision.
    """

    name: str
    uid: str
    component: str
    phase: str
    ready: bool
    terminating: bool
    age: float
    revision: str
    stale: bool

    @property
    def is_executor(self) -> bool:
        """Whether it is an executor's."""
        return self.component == EXECUTOR_MANAGER


@dataclass(frozen=True, slots=True)
class Event:
    """An action that the operator reports.

    Attributes:
        count: How many times the event came.
        warning: Whether somebody should look at it.
        age: Seconds since it came last.
    """

    uid: str
    count: int
    warning: bool
    reason: str
    message: str
    age: float

    @property
    def occurrence(self) -> tuple[str, int]:
        """The part that changes when an event is new, or counted up."""
        return (self.uid, self.count)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that is shown.

    Attributes:
        pods: The session manager's first, then the executors by id.
        events: About the FlameCluster, the newest last.
        others: Other objects of the namespace, as `Service/name`.
    """

    cluster: Cluster | None
    pods: tuple[Pod, ...]
    events: tuple[Event, ...]
    others: tuple[str, ...]

    @property
    def executors(self) -> tuple[Pod, ...]:
        """The executors, those on their way out included."""
        return tuple(pod for pod in self.pods if pod.is_executor)

    @property
    def session_manager(self) -> Pod | None:
        """The session manager's Pod."""
        return next((pod for pod in self.pods if pod.component == SESSION_MANAGER), None)


def snapshot(
    *,
    now: datetime,
    clusters: Iterable[Object],
    pods: Iterable[Object],
    events: Iterable[Object],
    others: Iterable[tuple[str, Object]],
) -> Snapshot:
    """Make a snapshot of the objects of a namespace.

    Args:
        now: The time, with a time zone, from which ages are counted.
        clusters: At most one is expected, and the first one is shown.
        events: Events about other objects than FlameClusters are left out.
        others: The kind and the object, for all other objects.
    """
    cluster = next((_cluster(item) for item in clusters), None)
    revisions = {} if cluster is None else cluster.revisions
    about_clusters = (item for item in events if item["involvedObject"].get("kind") == KIND)
    return Snapshot(
        cluster=cluster,
        pods=tuple(sorted((_pod(item, revisions, now) for item in pods), key=_by_component_and_id)),
        # Their times have whole seconds. The order of the writes is finer: the API server counts them.
        events=tuple(_event(item, now) for item in sorted(about_clusters, key=_resource_version)),
        others=tuple(
            f"{kind}/{item['metadata']['name']}"
            for kind, item in others
            if item["metadata"]["name"] != _ROOT_CERTIFICATES
        ),
    )


def _cluster(item: Object) -> Cluster:
    status: Object = item.get("status", {})
    managers: Object = status.get("sessionManager", {})
    executors: Object = status.get("executorManager", {})
    conditions = {each["type"]: each["status"] == "True" for each in status.get("conditions", [])}
    return Cluster(
        name=item["metadata"]["name"],
        settled=status.get("observedGeneration") == item["metadata"]["generation"],
        state=status.get("state", ""),
        message=status.get("message", ""),
        healthy=conditions.get("Ready", False),
        suspended=conditions.get("Suspended", False),
        session_managers=managers.get("ready", 0),
        wanted=item["spec"]["executorManager"].get("replicas", 1),
        ready=executors.get("ready", 0),
        current=executors.get("current", 0),
        updated=executors.get("updated", 0),
        config_generation=status.get("configGeneration", 0),
        revisions={SESSION_MANAGER: managers.get("revision", ""), EXECUTOR_MANAGER: executors.get("revision", "")},
        status=status,
    )


def _pod(item: Object, revisions: dict[str, str], now: datetime) -> Pod:
    metadata = item["metadata"]
    component = metadata.get("labels", {}).get(COMPONENT_LABEL, "")
    revision = metadata.get("annotations", {}).get(REVISION_ANNOTATION, "")
    terminating = "deletionTimestamp" in metadata
    conditions = item.get("status", {}).get("conditions", [])
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    newest = revisions.get(component, "")
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        component=component,
        phase="Terminating" if terminating else _phase(item.get("status", {})),
        ready=ready and not terminating,
        terminating=terminating,
        age=_age(metadata["creationTimestamp"], now),
        revision=revision,
        stale=newest not in {"", revision},
    )


def _phase(status: Object) -> str:
    """Return the phase, or the reason why a container is not what the phase promises."""
    containers = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    reasons = (each.get("state", {}).get("waiting", {}).get("reason") for each in containers)
    return str(next(filter(None, reasons), None) or status.get("reason") or status.get("phase", "Unknown"))


def _event(item: Object, now: datetime) -> Event:
    return Event(
        uid=item["metadata"]["uid"],
        count=item.get("count") or 1,
        warning=item.get("type") == "Warning",
        reason=item.get("reason", ""),
        message=item.get("message", ""),
        age=_age(item.get("lastTimestamp") or item.get("eventTime") or item["metadata"]["creationTimestamp"], now),
    )


def _age(timestamp: str, now: datetime) -> float:
    # Clocks tick in whole seconds there and in microseconds here: what was made just now is not from the future.
    return max(0.0, (now - datetime.fromisoformat(timestamp)).total_seconds())


def _resource_version(item: Object) -> int:
    return int(item["metadata"]["resourceVersion"])


def _by_component_and_id(pod: Pod) -> tuple[bool, int, str]:
    number = _TRAILING_NUMBER.search(pod.name)
    return (pod.is_executor, int(number.group()) if number else -1, pod.name)


class Act(Enum):
    """How far a chapter is."""

    ANNOUNCED = "announced"
    RUNNING = "running"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Scene:
    """The picture at one moment.

    Attributes:
        clock: Seconds since the demo was started.
        took: Seconds since the command was typed.
        notes: Said instead of a chapter, when all are through and the cluster stays.
    """

    clock: float
    number: int
    chapters: int
    title: str
    command: str
    expected: str
    act: Act
    took: float
    snapshot: Snapshot
    notes: tuple[str, ...] = ()


class Audience(Protocol):
    """The receiver of the scenes."""

    def show(self, scene: Scene) -> None:
        """Show one scene; called several times a second."""
