"""What the operator reads of each Kubernetes object, and nothing more.

A Pod is some five kilobytes of JSON of which a pass looks at a few hundred bytes. Each struct here names just the fields
that are read: decoding skips the rest, which is an order of magnitude faster and smaller than dictionaries and two orders
than generated model classes. The structs are frozen: a store hands the same object to everyone. What is *written* is plain
data, built in the `desired` room.

Times that others than the API server write stay text until they are asked for. The API server accepts times that `datetime`
cannot hold, such as the year 0, and one such object must not end the list, or the watch, of all.
"""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, datetime
from typing import Any

import msgspec


class View(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all views: immutable, camelCase on the wire, unknown fields skipped."""


def parse_time(text: str | None) -> datetime | None:
    """A time as somebody wrote it; None when it is not known, or next to an end of what a `datetime` can be."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None and MINYEAR < time.year < MAXYEAR else None


class OwnerReference(View, frozen=True):
    """An entry of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ManagedFieldsEntry(View, frozen=True):
    """An entry of `metadata.managedFields`, of which only the time is of use: when somebody last wrote."""

    written: str | None = msgspec.field(default=None, name="time")

    @property
    def time(self) -> datetime | None:
        """When somebody last wrote, if that is known."""
        return parse_time(self.written)


class ObjectMeta(View, frozen=True):
    """The part of `metadata` that any object has and some decision needs."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    managed_fields: tuple[ManagedFieldsEntry, ...] = ()

    @property
    def last_written(self) -> datetime | None:
        """When the object was last changed, as the API server recorded it."""
        times = [entry.time for entry in self.managed_fields]
        return max((time for time in times if time is not None), default=self.creation_timestamp)


class KubernetesObject(View, frozen=True):
    """Base of all views of whole objects."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """`metadata.namespace`."""
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        """`metadata.uid`: what tells an object from a later one of the same name."""
        return self.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        """`metadata.labels`, empty where there are none."""
        return self.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        """`metadata.annotations`, empty where there are none."""
        return self.metadata.annotations or {}

    @property
    def terminating(self) -> bool:
        """Whether its deletion has been accepted by the API server."""
        return self.metadata.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference with `controller: true`, of which there is at most one."""
        return next((ref for ref in self.metadata.owner_references if ref.controller), None)

    def controlled_by(self, uid: str) -> bool:
        """Whether its controller owner reference carries this uid: the only kind of ownership that counts."""
        ref = self.controller
        return ref is not None and ref.uid == uid


class FlameClusterView(KubernetesObject, frozen=True):
    """A FlameCluster. Its spec stays plain data until pydantic validates it, so that a bad one fails alone."""

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class ConfigMapView(KubernetesObject, frozen=True):
    """A ConfigMap."""

    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None
    immutable: bool | None = None


class ServicePort(View, frozen=True):
    """An entry of a Service's `spec.ports`."""

    name: str = ""
    port: int = 0
    target_port: int | str | None = None
    protocol: str = "TCP"


class ServiceSpec(View, frozen=True):
    """The part of a Service's spec that the operator sets."""

    type: str = "ClusterIP"
    selector: dict[str, str] | None = None
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready_addresses: bool = False
    session_affinity: str = "None"
    internal_traffic_policy: str = "Cluster"


class ServiceView(KubernetesObject, frozen=True):
    """A Service."""

    spec: ServiceSpec = ServiceSpec()


class LeaseSpec(View, frozen=True):
    """Who holds a Lease, for how long, and whether anybody ever said when; the API server checks none of it."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseView(KubernetesObject, frozen=True):
    """A Lease."""

    spec: LeaseSpec = LeaseSpec()


class ContainerStateWaiting(View, frozen=True):
    """Why a container is not running yet."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(View, frozen=True):
    """Since when a container runs."""

    started: str | None = msgspec.field(default=None, name="startedAt")

    @property
    def started_at(self) -> datetime | None:
        """Since when it runs, if that is known."""
        return parse_time(self.started)


class ContainerStateTerminated(View, frozen=True):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished: str | None = msgspec.field(default=None, name="finishedAt")
    started: str | None = msgspec.field(default=None, name="startedAt")

    @property
    def started_at(self) -> datetime | None:
        """When it began to run, if that is known."""
        return parse_time(self.started)

    @property
    def finished_at(self) -> datetime | None:
        """When it ended, if that is known."""
        return parse_time(self.finished)


class ContainerState(View, frozen=True):
    """Exactly one of the three is set; none at all means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(View, frozen=True):
    """An entry of `containerStatuses` or `initContainerStatuses`."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodCondition(View, frozen=True):
    """An entry of a Pod's `status.conditions`."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    since: str | None = msgspec.field(default=None, name="lastTransitionTime")

    @property
    def last_transition_time(self) -> datetime | None:
        """When the condition last changed, if that is known."""
        return parse_time(self.since)


class PodSpec(View, frozen=True):
    """The part of a Pod's spec that decisions look at."""

    node_name: str = ""


class PodStatus(View, frozen=True):
    """The part of a Pod's status that decisions look at."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class PodView(KubernetesObject, frozen=True):
    """A Pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
