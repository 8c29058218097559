"""The common part of all components' Pods: three layers, each merged over the previous one.

1. defaults, which a podTemplate may override: security context, probes, grace period, writable directories;
2. the `podTemplate`;
3. fields that Flame and the operator depend on: names, image, arguments, configuration mount, own environment variables, labels,
   owner and annotations.
"""

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from flamectl_operator.api.constants import (
    COMPONENT_FIELDS,
    CONFIG_DIRECTORY,
    CONFIG_PATH,
    CONFIG_VOLUME,
    FLAME_CONFIG_VARIABLE,
    GRACE_ANNOTATION,
    OWN_VOLUME_PREFIX,
    RENDERED_ANNOTATION,
    REVISION_ANNOTATION,
    WAIT_CONTAINER,
)
from flamectl_operator.api.flamecluster import ComponentSpec, FlameClusterSpec
from flamectl_operator.desired import names, revision
from flamectl_operator.desired.field_paths import authored_metadata, authored_paths
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.desired.strategic_merge import strategic_merge
from flamectl_operator.desired.unvalidated import as_object, entries, entry
from flamectl_operator.desired.wait_resources import with_wait_resources
from flamectl_operator.settings.model import FlameSettings

#: Volumes that Flame 0.5 must not have, because it works in `/usr/local/flame/work` and finds its migrations there.
NOT_IN_0_5 = {f"{OWN_VOLUME_PREFIX}work"}

#: A directory that the author names is mounted only where the mount cannot hide something of the image's.
_MOUNTABLE_ROOTS = ("/var/", "/data/", "/mnt/", "/srv/", "/cache/", "/tmp/")  # noqa: S108 - paths in the container

#: The fields of the restricted Pod Security level that are independent of the image.
CONTAINER_SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@dataclass(frozen=True)
class ComponentTemplate:
    """The common manifest of a component's Pods.

    Args:
        manifest: The Pod without `metadata.name`.
        revision: The hash of the spec that the author wrote.
        rendered: The hash of the manifest, which also changes with the operator's version and settings.
        asked: The spec of the author's podTemplate.
        claim_volume: Name of the volume for which each Pod has a claim of its own, named like the Pod; empty without one.
        number: The field of the component that says how many of its Pods there are.
    """

    manifest: dict[str, Any]
    revision: str
    rendered: str
    component: str
    asked: dict[str, Any]
    claim_volume: str = ""
    number: str = "replicas"

    def explain(self, message: str) -> str:
        """Return what the API server says about a Pod, with the component and the paths of the FlameCluster."""
        words = authored_paths(message, self.component, self.manifest["spec"], self.asked)
        words = authored_metadata(words, f"{self.field}.podTemplate.metadata", self.manifest["metadata"])
        return f"{self.component.replace('-', ' ')}: {words}"

    @property
    def field(self) -> str:
        """The field of the FlameCluster that describes the component."""
        return COMPONENT_FIELDS[self.component]

    @property
    def claim_names(self) -> set[str]:
        """The names of the claims that each of its Pods mounts, without the claim that each Pod has of its own."""
        return _claims_of(self.pod("")["spec"])

    @property
    def asked_claims(self) -> set[str]:
        """The names of the claims that the author's podTemplate mounts."""
        return _claims_of(self.asked)

    @property
    def container_names(self) -> set[str]:
        """The names of the containers and init containers that its Pods have unless a webhook adds more."""
        spec = self.manifest["spec"]
        return {str(each.get("name")) for kind in ("containers", "initContainers") for each in entries(spec, kind)}

    def container_field(self, name: str) -> str:
        """Return the field of the FlameCluster that describes a container."""
        if name == self.component:
            return self.field
        init = any(each["name"] == name for each in self.manifest["spec"].get("initContainers", ()))
        return f"{self.field}.podTemplate.spec.{'initContainers' if init else 'containers'}[name={name}]"

    def pod(self, name: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
        """Return the manifest of one Pod. No hash includes these annotations, which only this Pod has."""
        metadata = self.manifest["metadata"]
        hashes = {REVISION_ANNOTATION: self.revision, RENDERED_ANNOTATION: self.rendered}
        pod = self.manifest | {
            "metadata": metadata | {"name": name, "annotations": metadata["annotations"] | hashes | (annotations or {})}
        }
        if self.claim_volume:
            own = claim_volume(self.claim_volume, name)
            volumes = [own if each["name"] == self.claim_volume else each for each in pod["spec"]["volumes"]]
            pod["spec"] = pod["spec"] | {"volumes": volumes}
        return pod


def _claims_of(spec: dict[str, Any]) -> set[str]:
    sources = (as_object(each.get("persistentVolumeClaim")) for each in entries(spec, "volumes"))
    return {str(each.get("claimName", "")) for each in sources} - {""}


def template_of(
    owner: Identity,
    component: str,
    spec: ComponentSpec,
    layers: tuple[dict[str, Any], dict[str, Any]],
    author_revision: str,
    hook_seconds: int = 0,
) -> ComponentTemplate:
    """Return the template of a component's Pods, merged from three layers.

    Args:
        layers: The operator's defaults below the podTemplate, and the fields above it that the operator must set.
        hook_seconds: The most seconds that the preStop hook takes, which are added to the grace period. An annotation has the
            grace period without them, for deletions that do not wait for the hook.
    """
    defaults, musts = layers
    template = spec.pod_template or {}
    metadata = template.get("metadata") or {}
    asked = template.get("spec") or {}
    pod_spec = strategic_merge(strategic_merge(_yielding(defaults, component, spec, asked), asked), musts)
    # With 0 the API server removes a Pod at once, and the next one would be created while its processes still run.
    if pod_spec.get("terminationGracePeriodSeconds") == 0:
        pod_spec["terminationGracePeriodSeconds"] = 1
    own_annotations = {}
    if hook_seconds and isinstance(grace := pod_spec["terminationGracePeriodSeconds"], int):
        pod_spec["terminationGracePeriodSeconds"] = grace + hook_seconds
        own_annotations[GRACE_ANNOTATION] = str(grace)
    # A list without a merge key is replaced, but a toleration for a GPU node must not remove ours for lost nodes.
    authored = asked.get("tolerations")
    if "tolerations" in defaults and isinstance(authored, list) and all(isinstance(each, dict) for each in authored):
        pod_spec["tolerations"] = _joined_tolerations(authored, defaults["tolerations"])
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": owner.namespace,
            "labels": {**(metadata.get("labels") or {}), **owner.labels(component), **owner.selector(component)},
            "annotations": {**(metadata.get("annotations") or {}), **own_annotations},
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": with_wait_resources(pod_spec) if "initContainers" in defaults else pod_spec,
    }
    return ComponentTemplate(manifest, author_revision, revision.fingerprint(manifest), component, asked)


def pod_defaults(settings: FlameSettings, container: dict[str, Any], directories: dict[str, str]) -> dict[str, Any]:
    """Return the part of a PodSpec that a podTemplate may override; the directories are mount paths by volume."""
    mounts = [{"name": volume, "mountPath": path} for volume, path in directories.items()]
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": settings.termination_grace_period_seconds,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container | {"securityContext": CONTAINER_SECURITY, "volumeMounts": mounts}],
        "volumes": [{"name": volume, "emptyDir": {}} for volume in directories],
    }


def own_container(name: str, component: ComponentSpec, args: list[str], addresses: dict[str, str]) -> dict[str, Any]:
    """Return the fields that the container must have. The author's variables come last, because they may refer to the others."""
    own = {FLAME_CONFIG_VARIABLE: CONFIG_PATH} | addresses
    container: dict[str, Any] = {
        "name": name,
        "image": component.image,
        "args": args,
        "env": [{"name": variable, "value": value} for variable, value in own.items()]
        + [_plain(variable) for variable in component.env],
        "volumeMounts": [{"name": CONFIG_VOLUME, "mountPath": CONFIG_DIRECTORY, "readOnly": True}],
    }
    if component.image_pull_policy is not None:
        container["imagePullPolicy"] = component.image_pull_policy
    if resources := _plain(component.resources):
        container["resources"] = resources
    return container


def port_probes(port: int, *, start_seconds: int) -> dict[str, Any]:
    """Return the probes of a server that opens its port within `start_seconds`. Flame's gRPC has no health service."""
    probe = {"tcpSocket": {"port": port}, "timeoutSeconds": 2}
    return {
        "startupProbe": probe | {"periodSeconds": 1, "failureThreshold": start_seconds},
        "readinessProbe": probe | {"periodSeconds": 5, "failureThreshold": 2},
        "livenessProbe": probe | {"periodSeconds": 10, "failureThreshold": 3},
    }


def claim_volume(volume: str, claim: str) -> dict[str, Any]:
    """Return a volume that mounts a PersistentVolumeClaim."""
    return {"name": volume, "persistentVolumeClaim": {"claimName": claim}}


def config_volume(owner: Identity) -> dict[str, Any]:
    """Return the volume with flame-cluster.yaml."""
    return {"name": CONFIG_VOLUME, "configMap": {"name": names.config_map(owner.name)}}


def arguments(spec: FlameClusterSpec) -> list[str]:
    """Return the arguments: the flag for the configuration, because the images' entry points are the binaries."""
    return ["--flame-conf" if spec.flame_version == "0.5" else "--config", CONFIG_PATH]


def address(service: str, port: int, owner: Identity, settings: FlameSettings) -> str:
    """Return the host and port of a Service, which resolves in every namespace."""
    return f"{service}.{owner.namespace}.svc.{settings.cluster_domain}:{port}"


def directories_for(directories: dict[str, str], spec: FlameClusterSpec) -> dict[str, str]:
    """Return the directories that the cluster's version of Flame writes."""
    return {
        volume: path
        for volume, path in directories.items()
        if not (spec.flame_version == "0.5" and volume in NOT_IN_0_5)
    }


def mountable_directory(volume: str, directory: str, taken: Iterable[str]) -> dict[str, str]:
    """Return the directory that the author names, by its volume; nothing when a mount there could hide other files.

    Args:
        taken: Directories that have mounts of their own.
    """
    path = posixpath.normpath(directory)
    others = (CONFIG_DIRECTORY, *taken)
    nested = any(path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in others)
    # Directories right below /var, such as /var/lib, hold more than the cache.
    shallow = path.startswith("/var/") and path.count("/") < 3  # noqa: PLR2004 - as in /var/lib/flame
    return {} if nested or shallow or not path.startswith(_MOUNTABLE_ROOTS) else {volume: path}


def _plain(part: BaseModel) -> dict[str, Any]:
    return part.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _yielding(defaults: dict[str, Any], component: str, spec: ComponentSpec, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults without fields that contradict the author's but would survive the merge.

    Directories at or below a directory that the author mounts are left out, because they would hide it. Variables that the author
    sets are left out, because their position decides which variables they may refer to. So are fields that conflict with
    `privileged`.
    """
    authored = entry(asked, "containers", component)
    # Normalised as the kubelet does: `data//x`, `/data/x/.` and `/data/x` are the same path.
    mounted = [str(mount.get("mountPath", "")).lstrip("/") for mount in entries(authored, "volumeMounts")]
    paths = [posixpath.normpath(f"/{path}").rstrip("/") for path in mounted]
    variables = {variable.name for variable in spec.env}
    [container] = defaults["containers"]
    container = container | {
        "env": [entry for entry in container["env"] if entry["name"] not in variables],
        "volumeMounts": [
            mount
            for mount in container["volumeMounts"]
            if not any(path and f"{mount['mountPath']}/".startswith(f"{path}/") for path in paths)
        ],
    }
    yielding = defaults | {"containers": [_privileged_or_not(container, authored)]}
    if "initContainers" in defaults:
        [wait] = defaults["initContainers"]
        yielding["initContainers"] = [_privileged_or_not(wait, entry(asked, "initContainers", WAIT_CONTAINER))]
    return yielding


def _privileged_or_not(container: dict[str, Any], authored: dict[str, Any]) -> dict[str, Any]:
    """Return a container's defaults, without `allowPrivilegeEscalation: false` if the author makes it privileged."""
    if as_object(authored.get("securityContext")).get("privileged") is not True:
        return container
    security = {key: value for key, value in container["securityContext"].items() if key != "allowPrivilegeEscalation"}
    return container | {"securityContext": security}


def _joined_tolerations(asked: list[dict[str, Any]], ours: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def covered(toleration: dict[str, Any]) -> bool:
        return any(
            other.get("key") in (None, "", toleration["key"]) and other.get("effect") in (None, "", "NoExecute")
            for other in asked
        )

    return [*asked, *(toleration for toleration in ours if not covered(toleration))]
