"""Views: the fields of each Kubernetes object that the operator reads.

A Pod has about five kilobytes of JSON, and a pass reads a few hundred bytes of it. Each struct names only the fields that are
read, because skipping the rest makes decoding ten times as fast and small as dictionaries and a hundred times as generated model
classes. The structs are frozen, because a store returns the same object to every caller. Manifests to *write* are plain data from
the `desired` room.

Times that clients write stay text until they are read. The API server accepts times that `datetime` cannot hold, such as the year
0, and one such object must not fail a whole list or watch.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from datetime import MAXYEAR, MINYEAR, datetime
from typing import Any, Literal

import msgspec


class View(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all views: immutable, camelCase on the wire, unknown fields skipped."""


def parse_time(text: str | None) -> datetime | None:
    """Return a time from its text; None when it is unknown or close to the limits of `datetime`."""
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
    block_owner_deletion: bool | None = None

    @property
    def names(self) -> tuple[str, str, str]:
        """The API group, the kind and the name. Another version of a resource is the same kind."""
        return self.api_version.partition("/")[0], self.kind, self.name


#: A key among the labels or the annotations of an object that is larger than what is kept of it: others were left out. No object
#: can have an empty key.
REDUCED = ""
#: Stands for the owners of an object that is larger than what is kept of it. No object can have it, and it is nobody's.
TOO_LARGE_OWNER = (OwnerReference(controller=True),)


class OwnedContainer(View, frozen=True):
    """The fields of a container that a manager set."""

    image: dict[str, Any] | None = msgspec.field(default=None, name="f:image")


class OwnedSpec(View, frozen=True):
    """The containers of a Pod of which a manager set fields, by keys such as `k:{"name":"main"}`. No two have one name."""

    containers: dict[str, OwnedContainer] | None = msgspec.field(default=None, name="f:containers")
    init_containers: dict[str, OwnedContainer] | None = msgspec.field(default=None, name="f:initContainers")


class OwnedFields(View, frozen=True):
    """The fields of an object that a manager set."""

    spec: OwnedSpec | None = msgspec.field(default=None, name="f:spec")


class ManagedFieldsEntry(View, frozen=True):
    """An entry of `metadata.managedFields`: its writer, the last time, and the fields, which stores do not keep of Pods."""

    written: str | None = msgspec.field(default=None, name="time")
    manager: str = ""
    fields: OwnedFields | None = msgspec.field(default=None, name="fieldsV1")

    @property
    def image_owners(self) -> Iterator[str]:
        """The keys of the containers whose image the manager set."""
        if self.fields is None or (spec := self.fields.spec) is None:
            return iter(())
        owned = (*(spec.containers or {}).items(), *(spec.init_containers or {}).items())
        return (key for key, container in owned if container.image is not None)

    @property
    def time(self) -> datetime | None:
        """The time of the manager's last write, if known."""
        return parse_time(self.written)


class ObjectMeta(View, frozen=True):
    """The fields of `metadata` that decisions use."""

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
        """The time of the last change, as the API server recorded it."""
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
        """`metadata.uid`, which tells an object from a later one of the same name."""
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
        """Whether the API server has accepted its deletion."""
        return self.metadata.deletion_timestamp is not None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference with `controller: true`; there is at most one."""
        for reference in self.metadata.owner_references:
            if reference.controller:
                return reference
        return None

    @property
    def too_large(self) -> bool:
        """Whether a part that decides about the object was too large to be kept, so that the object counts as foreign."""
        return self.metadata.owner_references == TOO_LARGE_OWNER

    def controlled_by(self, uid: str) -> bool:
        """Return whether its controller owner reference has this uid; no other ownership counts."""
        ref = self.controller
        return ref is not None and ref.uid == uid


class ConfigMapView(KubernetesObject, frozen=True):
    """A ConfigMap."""

    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None
    immutable: bool | None = None


class ConfigMapKeysView(KubernetesObject, frozen=True):
    """The keys of a ConfigMap."""

    data: dict[str, msgspec.Raw] | None = None
    binary_data: dict[str, msgspec.Raw] | None = None

    @property
    def keys(self) -> AbstractSet[str]:
        """The keys of its texts and of its binary data."""
        return (self.data or {}).keys() | (self.binary_data or {}).keys()


class ServicePort(View, frozen=True):
    """An entry of a Service's `spec.ports`."""

    name: str = ""
    port: int = 0
    target_port: int | str | None = None
    protocol: str = "TCP"
    app_protocol: str = ""
    node_port: int = 0


class ServiceSpec(View, frozen=True):
    """The fields of a Service's spec that belong to the operator, with Kubernetes' defaults.

    They decide which Pods the Service leads to, or from where and with which protocol clients reach them.
    """

    type: str = "ClusterIP"
    selector: dict[str, str] | None = None
    ports: tuple[ServicePort, ...] = ()
    external_ips: tuple[str, ...] = msgspec.field(default=(), name="externalIPs")
    external_name: str = ""
    external_traffic_policy: str = ""
    internal_traffic_policy: str = "Cluster"
    health_check_node_port: int = 0
    allocate_load_balancer_node_ports: bool | None = None
    load_balancer_class: str = ""
    load_balancer_ip: str = msgspec.field(default="", name="loadBalancerIP")
    load_balancer_source_ranges: tuple[str, ...] = ()
    publish_not_ready_addresses: bool = False
    session_affinity: str = "None"
    session_affinity_config: dict[str, Any] | None = None
    traffic_distribution: str = ""


class ServiceView(KubernetesObject, frozen=True):
    """A Service."""

    spec: ServiceSpec = ServiceSpec()


class NetworkPolicyView(KubernetesObject, frozen=True):
    """A NetworkPolicy, whose spec stays encoded until a pass compares it."""

    raw_spec: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"{}"), name="spec")

    def __post_init__(self) -> None:
        """Copy the encoded spec, because a slice would keep the whole response of the API server in memory."""
        msgspec.structs.force_setattr(self, "raw_spec", self.raw_spec.copy())

    @property
    def spec(self) -> Any:
        """The spec as JSON data, decoded at each call."""
        return msgspec.json.decode(self.raw_spec)


class PersistentVolumeClaimResources(View, frozen=True):
    """How large a claim is meant to be."""

    requests: dict[str, int | str] | None = None


class PersistentVolumeClaimSpec(View, frozen=True):
    """The part of a claim's spec that the operator sets, and the mode of its volume."""

    access_modes: tuple[str, ...] = ()
    storage_class_name: str | None = None
    resources: PersistentVolumeClaimResources = PersistentVolumeClaimResources()
    volume_mode: str = ""


class Storage(View, frozen=True):
    """How large a volume is, or is asked to become."""

    storage: int | str | None = None


class ResizeStatus(View, frozen=True):
    """How far the growth of a volume has come, such as `ControllerResizeInfeasible`; empty when it does not grow."""

    storage: str = ""


class ClaimCondition(View, frozen=True):
    """An entry of a claim's `status.conditions`."""

    type: str = ""
    status: str = "Unknown"


class PersistentVolumeClaimStatus(View, frozen=True):
    """The part of a claim's status that decisions look at."""

    phase: str = "Pending"
    capacity: Storage = Storage()
    allocated_resources: Storage = Storage()
    allocated_resource_statuses: ResizeStatus = ResizeStatus()
    conditions: tuple[ClaimCondition, ...] = ()


class PersistentVolumeClaimView(KubernetesObject, frozen=True):
    """A PersistentVolumeClaim."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def size(self) -> int | str | None:
        """The size that the claim asks for."""
        return (self.spec.resources.requests or {}).get("storage")


#: The type of an Event.
EventKind = Literal["Normal", "Warning"]


class EventView(KubernetesObject, frozen=True):
    """An event that somebody else wrote."""

    reason: str = ""
    message: str = ""


class LeaseSpec(View, frozen=True):
    """The holder of a Lease and its duration; the API server validates none of it."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseView(KubernetesObject, frozen=True):
    """A Lease."""

    spec: LeaseSpec = LeaseSpec()
