"""Views of Pods, with the fields that the operator reads."""

from datetime import datetime

import msgspec

from flamectl_operator.kube.views import KubernetesObject, View, parse_time


class ContainerStateWaiting(View, frozen=True):
    """The reason why a container is not running yet."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(View, frozen=True):
    """The start time of a running container."""

    started: str | None = msgspec.field(default=None, name="startedAt")

    @property
    def started_at(self) -> datetime | None:
        """The time when it started, if known."""
        return parse_time(self.started)


class ContainerStateTerminated(View, frozen=True):
    """The exit of a container."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished: str | None = msgspec.field(default=None, name="finishedAt")
    started: str | None = msgspec.field(default=None, name="startedAt")

    @property
    def started_at(self) -> datetime | None:
        """The time when it started, if known."""
        return parse_time(self.started)

    @property
    def finished_at(self) -> datetime | None:
        """The time when it ended, if known."""
        return parse_time(self.finished)


class ContainerState(View, frozen=True):
    """Exactly one of the three is set; none at all means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerResources(View, frozen=True):
    """The requests and limits of a container or a whole Pod; a limit is also the request where there is none."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class DeviceHealth(View, frozen=True):
    """An entry of the `resources` of a `DeviceStatus`: a device, and what its driver says of it."""

    resource_id: str = msgspec.field(default="", name="resourceID")
    health: str = ""
    message: str | None = None


class DeviceStatus(View, frozen=True):
    """An entry of `allocatedResourcesStatus`: the devices that a container has of one resource or ResourceClaim."""

    name: str = ""
    resources: tuple[DeviceHealth, ...] = ()


class ContainerStatus(View, frozen=True):
    """An entry of `containerStatuses` or `initContainerStatuses`.

    Its resources are those that the node gives the container, since Kubernetes 1.33; they are kept of a container that was killed
    for its memory. The health of its devices, since Kubernetes 1.36, is kept where it is bad.
    """

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    image: str = ""
    container_id: str = msgspec.field(default="", name="containerID")
    ready: bool = False
    started: bool | None = None
    resources: ContainerResources | None = None
    allocated_resources_status: tuple[DeviceStatus, ...] = ()


class PodCondition(View, frozen=True):
    """An entry of a Pod's `status.conditions`."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    since: str | None = msgspec.field(default=None, name="lastTransitionTime")

    @property
    def last_transition_time(self) -> datetime | None:
        """The time of the condition's last change, if known."""
        return parse_time(self.since)


class ResizePolicy(View, frozen=True):
    """An entry of a container's `resizePolicy`: what a change of a resource does to the container."""

    restart_policy: str = ""


class Resizable(View, frozen=True, kw_only=True):
    """The fields that all containers of a Pod have. Of a changed Pod, stores keep only images that somebody set later."""

    name: str = ""
    image: str = ""
    resize_policy: tuple[ResizePolicy, ...] = ()

    @property
    def restarts_on_resize(self) -> bool:
        """Whether the kubelet restarts it when one of its resources is resized."""
        return any(each.restart_policy == "RestartContainer" for each in self.resize_policy)


class PodContainer(Resizable, frozen=True):
    """An entry of a Pod's `spec.containers`."""

    resources: ContainerResources | None = None


class InitContainer(Resizable, frozen=True):
    """An entry of a Pod's `spec.initContainers`; with restartPolicy Always it is a sidecar."""

    restart_policy: str = ""


class SchedulingGate(View, frozen=True):
    """An entry of a Pod's `spec.schedulingGates`."""

    name: str = ""


class SchedulingGroup(View, frozen=True):
    """A Pod's `spec.schedulingGroup`: the Pods that a scheduler places at once."""

    pod_group_name: str = ""


class PodResourceClaim(View, frozen=True):
    """An entry of a Pod's `spec.resourceClaims`, which names a ResourceClaim or a template of one."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodResourceClaimStatus(View, frozen=True):
    """An entry of a Pod's `status.resourceClaimStatuses`: the claim that was made from a template, if it needs one."""

    name: str = ""


class ClaimVolume(View, frozen=True):
    """The claim that a volume mounts."""

    claim_name: str = ""


class EphemeralVolume(View, frozen=True):
    """The claim that Kubernetes makes for a volume of one Pod, with the names of both as its name."""


class Volume(View, frozen=True):
    """An entry of a Pod's `spec.volumes`; stores keep those with a claim alone."""

    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    name: str = ""


class PodSpec(View, frozen=True):
    """The fields of a Pod's spec that decisions use.

    Its demands on a node, `containers`, `resources`, `overhead` and `node_selector`, are kept while it has no node,
    and the containers without `resources` in a Pod that was changed after its creation.
    """

    node_name: str = ""
    node_selector: dict[str, str] | None = None
    overhead: dict[str, str] | None = None
    containers: tuple[PodContainer, ...] = ()
    resources: ContainerResources | None = None
    scheduler_name: str = ""
    init_containers: tuple[InitContainer, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    volumes: tuple[Volume, ...] = ()


class PodStatus(View, frozen=True):
    """The fields of a Pod's status that decisions use."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    nominated_node_name: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")


class PodView(KubernetesObject, frozen=True):
    """A Pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def claim_names(self) -> tuple[str, ...]:
        """The names of the PersistentVolumeClaims that it mounts."""
        volumes = [each.persistent_volume_claim for each in self.spec.volumes]
        return tuple(volume.claim_name for volume in volumes if volume is not None)

    @property
    def awaited_claims(self) -> tuple[str, ...]:
        """The names of all claims that it needs, those that Kubernetes makes for its volumes last."""
        made = (f"{self.name}-{each.name}" for each in self.spec.volumes if each.ephemeral is not None)
        return tuple(dict.fromkeys((*self.claim_names, *made)))
