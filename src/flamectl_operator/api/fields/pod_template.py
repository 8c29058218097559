"""`podTemplate`: additions to a component's Pods, and rules that protect the fields that the operator depends on.

Only the fields that a rule checks are declared. All other fields pass through to the Pod, where the API server checks them,
because CEL does not see undeclared fields and a copy of the whole PodSpec would be outdated with the next Kubernetes release. A
container with the name of one of the operator's containers is merged with it, under these rules (`pod_template_rules`):

- fields that the resource has itself are set only there: image, imagePullPolicy, env, resources;
- `command` and `args` belong to the operator, because they name the configuration file;
- nothing is mounted at or below /etc/flame, and no volume has a name of the operator's volumes;
- neither the kubelet nor a restart rule of another container restarts an executor in place;
- Flame's node name stays the Pod's name;
- all other fields (securityContext, volumeMounts, envFrom, lifecycle, probes, ports ...) may be added.

Fields that need an administrator's permission (hostPath, privileged ...) are subject to the operator's `podPolicy`, not to this
API.
"""

from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue

from flamectl_operator.api.constants import (
    EXECUTOR_MANAGER,
    OBJECT_CACHE,
    RESTARTED_AT_ANNOTATION,
    SESSION_MANAGER,
    WAIT_CONTAINER,
)
from flamectl_operator.api.fields.pod_template_rules import (
    NO_OWN_ANNOTATIONS,
    NO_OWN_LABELS,
    NO_OWN_VOLUME,
    ONLY_RESTART,
    QUALIFIED_KEYS,
    LabelValue,
    needs_image,
    only_additional,
    own_container_rules,
    taken,
    unset,
)
from flamectl_operator.api.model import Atomic, Flag, MapKey, Model, OpenModel, Text


class PodTemplateMetadata(Model):
    """Labels and annotations to add."""

    labels: Annotated[dict[str, LabelValue], Field(max_length=64), NO_OWN_LABELS, QUALIFIED_KEYS] = Field(
        {}, description="Labels to add to the Pods."
    )
    creation_timestamp: Annotated[str, Field(max_length=0)] | None = Field(
        None, description="Must be null, as kubectl create --dry-run prints it.", json_schema_extra={"nullable": True}
    )
    annotations: Annotated[dict[str, str], Field(max_length=64), NO_OWN_ANNOTATIONS, QUALIFIED_KEYS] = Field(
        {},
        description="Annotations to add to the Pods. To restart them, change "
        f"{RESTARTED_AT_ANNOTATION} to any other text, such as the time.",
    )


class VolumeMount(OpenModel):
    """A mount of a volume in a container."""

    name: Text = Field(description="Name of the volume.")
    mount_path: Text = Field(description="Path in the container.")


class ContainerRestartRule(OpenModel):
    """A rule that restarts a container of a Pod whose other containers are not restarted."""

    action: Annotated[Text, ONLY_RESTART] | None = Field(
        None, description="What the rule does; only Restart is allowed."
    )


_T = TypeVar("_T")
#: A list of containers, whose names are unique.
_Containers = Annotated[tuple[_T, ...], Field(max_length=16), MapKey("name")]
#: The schema has a type, because CEL does not see a field without one. The API server refuses another type in the Pod.
_OBJECT: JsonSchemaValue = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class ContainerResources(OpenModel):
    """Resources of a container."""

    limits: Annotated[Any, WithJsonSchema(_OBJECT)] = Field(None, description="Limits.")
    requests: Annotated[Any, WithJsonSchema(_OBJECT)] = Field(None, description="Requests.")
    claims: Annotated[Any, WithJsonSchema({"type": "array", "items": _OBJECT, "x-kubernetes-list-type": "atomic"})] = (
        Field(None, description="Dynamically allocated resources.")
    )

    @property
    def empty(self) -> bool:
        """Whether nothing is set."""
        return self.limits is None and self.requests is None and self.claims is None


class Container(OpenModel):
    """A container of the Pod: one of the operator's own, by its name, or an additional one."""

    name: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        description="Name of the container; an entry with the name of one of the operator's containers is merged with it."
    )
    image: Text | None = Field(None, description="Image of an additional container.")
    image_pull_policy: Text | None = Field(None, description="Pull policy of the image of an additional container.")
    command: Atomic[str] | None = Field(None, description="Entry point of an additional container.")
    args: Atomic[str] | None = Field(None, description="Arguments of an additional container.")
    env: Atomic[dict[str, Any]] | None = Field(None, description="Environment variables of an additional container.")
    resources: ContainerResources | None = Field(
        None, description="Resources of an additional container. {} is the same as none."
    )
    restart_policy: Text | None = Field(
        None, description="Restart policy; Always makes an additional init container a sidecar."
    )
    # Pods have at most 20 rules a container, since Kubernetes 1.34.
    restart_policy_rules: Annotated[Atomic[ContainerRestartRule], Field(max_length=20)] | None = Field(
        None, description="Restart rules of an additional container, by exit code."
    )
    volume_mounts: Annotated[tuple[VolumeMount, ...], Field(max_length=64), MapKey("mountPath")] | None = Field(
        None, description="Volumes to mount."
    )


class SessionManagerContainer(Container):
    """A container of the session manager's Pod."""

    rules: ClassVar = own_container_rules(SESSION_MANAGER, "spec.sessionManager")


class SessionManagerInitContainer(Container):
    """An init container of the session manager's Pod."""

    rules: ClassVar = (taken(SESSION_MANAGER, "containers"), needs_image())


class ExecutorManagerContainer(Container):
    """A container of an executor's Pod."""

    rules: ClassVar = (
        *own_container_rules(EXECUTOR_MANAGER, "spec.executorManager"),
        taken(WAIT_CONTAINER, "initContainers"),
    )


class ExecutorManagerInitContainer(Container):
    """An init container of an executor's Pod. The wait container's resources and security context may be changed."""

    rules: ClassVar = (
        *(
            only_additional(WAIT_CONTAINER, attribute, "the operator sets it")
            for attribute in ("image", "image_pull_policy", "command", "args", "restart_policy", "restart_policy_rules")
        ),
        taken(EXECUTOR_MANAGER, "containers"),
        needs_image(WAIT_CONTAINER),
    )


class ObjectCacheContainer(Container):
    """A container of an object cache's Pod."""

    rules: ClassVar = own_container_rules(OBJECT_CACHE, "spec.objectCache")


class ObjectCacheInitContainer(Container):
    """An init container of an object cache's Pod."""

    rules: ClassVar = (taken(OBJECT_CACHE, "containers"), needs_image())


class Volume(OpenModel):
    """A volume of the Pod."""

    rules: ClassVar = (NO_OWN_VOLUME,)

    name: Annotated[str, Field(min_length=1, max_length=63)] = Field(description="Name of the volume.")


_NODE_NAME = "Flame knows a node by its hostname, which is the name of the Pod"


class PodTemplateSpec(OpenModel):
    """Part of a PodSpec."""

    rules: ClassVar = (
        unset("restart_policy", "the operator decides what is restarted and what is replaced"),
        unset("hostname", _NODE_NAME),
        unset("subdomain", _NODE_NAME),
        unset("hostname_override", _NODE_NAME),
        unset("host_network", _NODE_NAME, harmless=False),
        unset("set_hostname_as_fqdn", _NODE_NAME, field="setHostnameAsFQDN", harmless=False),
    )

    restart_policy: str | None = Field(None, description="Must not be set.")
    hostname: str | None = Field(None, description="Must not be set.")
    subdomain: str | None = Field(None, description="Must not be set.")
    hostname_override: str | None = Field(None, description="Must not be set.")
    host_network: Flag | None = Field(None, description="Must not be true.")
    set_hostname_as_fqdn: Flag | None = Field(None, alias="setHostnameAsFQDN", description="Must not be true.")
    volumes: Annotated[tuple[Volume, ...], Field(max_length=64), MapKey("name")] | None = Field(
        None, description="Volumes to add."
    )


class SessionManagerPodSpec(PodTemplateSpec):
    """Part of the session manager's PodSpec."""

    containers: _Containers[SessionManagerContainer] | None = Field(
        None, description=f"Containers to add, and additions to {SESSION_MANAGER}."
    )
    init_containers: _Containers[SessionManagerInitContainer] | None = Field(
        None, description="Init containers to add."
    )


class ExecutorManagerPodSpec(PodTemplateSpec):
    """Part of an executor's PodSpec."""

    containers: _Containers[ExecutorManagerContainer] | None = Field(
        None, description=f"Containers to add, and additions to {EXECUTOR_MANAGER}."
    )
    init_containers: _Containers[ExecutorManagerInitContainer] | None = Field(
        None, description=f"Init containers to add, and additions to {WAIT_CONTAINER}."
    )


class ObjectCachePodSpec(PodTemplateSpec):
    """Part of an object cache's PodSpec."""

    containers: _Containers[ObjectCacheContainer] | None = Field(
        None, description=f"Containers to add, and additions to {OBJECT_CACHE}."
    )
    init_containers: _Containers[ObjectCacheInitContainer] | None = Field(None, description="Init containers to add.")


_MERGED = "Partial PodSpec, merged with the operator's as a strategic merge patch."


class PodTemplate(Model):
    """A partial Pod template."""

    #: The name of the operator's container among `containers`.
    own: ClassVar[str]

    metadata: PodTemplateMetadata | None = Field(None, description="Labels and annotations to add to the Pods.")


class SessionManagerPodTemplate(PodTemplate):
    """A partial template of the session manager's Pod."""

    own: ClassVar = SESSION_MANAGER

    spec: SessionManagerPodSpec | None = Field(None, description=_MERGED)


class ExecutorManagerPodTemplate(PodTemplate):
    """A partial template of the executors' Pods."""

    own: ClassVar = EXECUTOR_MANAGER

    spec: ExecutorManagerPodSpec | None = Field(None, description=_MERGED)


class ObjectCachePodTemplate(PodTemplate):
    """A partial template of the object caches' Pods."""

    own: ClassVar = OBJECT_CACHE

    spec: ObjectCachePodSpec | None = Field(None, description=_MERGED)
