"""The Pods of a FlameCluster: operator's defaults, under the author's podTemplate, under what the operator must set.

Three layers, each merged over the one before:

1. defaults, which a podTemplate may override: security context, probes, grace period, writable directories;
2. the `podTemplate`;
3. what Flame and the operator depend on: names, image, arguments, configuration mount, own environment variables, labels,
   owner and annotations.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flamectl_operator.api.constants import (
    BACKEND_PORT,
    CONFIG_DIRECTORY,
    CONFIG_PATH,
    CONFIG_VOLUME,
    EXECUTOR_MANAGER,
    FLAME_CONFIG_VARIABLE,
    FRONTEND_PORT,
    LOG_VARIABLE,
    OBJECT_CACHE_PORT,
    OBJECT_CACHE_VARIABLE,
    OWN_VOLUME_PREFIX,
    REBOUND_ANNOTATION,
    RENDERED_ANNOTATION,
    REVISION_ANNOTATION,
    SESSION_MANAGER,
    SESSION_MANAGER_ANNOTATION,
    SESSION_MANAGER_VARIABLE,
    WAIT_CONTAINER,
)
from flamectl_operator.desired import names, revision
from flamectl_operator.desired.qos import keep_guaranteed
from flamectl_operator.desired.shapes import as_object, entries, entry
from flamectl_operator.desired.strategic_merge import strategic_merge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel

    from flamectl_operator.api.flamecluster import ExecutorManagerSpec, FlameClusterSpec, SessionManagerSpec
    from flamectl_operator.desired.metadata import Identity
    from flamectl_operator.settings import FlameSettings

#: The session manager's scheduler plugins log ten lines a second at `info`.
SESSION_MANAGER_LOG = "info,flame_session_manager::scheduler::plugins=warn"
EXECUTOR_LOG = "info"

#: Directories that Flame 0.6 writes, which in its images belong to root: as emptyDirs (with `fsGroup`) any user can write
#: them. Flame 0.5 works in `/usr/local/flame/work` and finds its migrations there, so nothing may be mounted over that.
SESSION_MANAGER_DIRECTORIES = {
    f"{OWN_VOLUME_PREFIX}logs": "/usr/local/flame/logs",
    f"{OWN_VOLUME_PREFIX}events": "/usr/local/flame/events",
    f"{OWN_VOLUME_PREFIX}session": "/var/lib/flame/session",
}
EXECUTOR_DIRECTORIES = {
    f"{OWN_VOLUME_PREFIX}work": "/usr/local/flame/work",
    f"{OWN_VOLUME_PREFIX}apps": "/usr/local/flame/data/apps",
    f"{OWN_VOLUME_PREFIX}data-cache": "/usr/local/flame/data/cache",
    f"{OWN_VOLUME_PREFIX}logs": "/usr/local/flame/logs",
    f"{OWN_VOLUME_PREFIX}tmp": "/tmp/flame",  # noqa: S108 - a path in the container, fixed by Flame
    f"{OWN_VOLUME_PREFIX}var": "/var/flame",
}
NOT_IN_0_5 = {f"{OWN_VOLUME_PREFIX}work"}

#: The object cache's directory is mounted only where it cannot hide something of the image's.
_OBJECT_CACHE_ROOTS = ("/var/", "/data/", "/mnt/", "/srv/", "/cache/", "/tmp/")  # noqa: S108 - paths in the container

#: What fits the restricted Pod Security level as far as that does not need to know the image.
_CONTAINER_SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@dataclass(frozen=True)
class PodTemplate:
    """A component's Pods but for what differs from one to the next.

    Args:
        manifest: The Pod without `metadata.name`.
        revision: Hash of what the author asked for.
        rendered: Hash of the manifest, which the operator's version and settings change as well.
    """

    manifest: dict[str, Any]
    revision: str
    rendered: str

    def pod(self, name: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
        """The manifest of one Pod.

        Args:
            name: `metadata.name`.
            annotations: Annotations of this Pod alone; they are in no hash.
        """
        metadata = self.manifest["metadata"]
        return self.manifest | {
            "metadata": metadata
            | {"name": name, "annotations": metadata["annotations"] | self._hashes() | (annotations or {})}
        }

    def _hashes(self) -> dict[str, str]:
        return {REVISION_ANNOTATION: self.revision, RENDERED_ANNOTATION: self.rendered}


def session_manager_pod(owner: Identity, spec: FlameClusterSpec, settings: FlameSettings) -> PodTemplate:
    """The session manager. Its container may restart in place (restartPolicy Always); executors follow then."""
    component = spec.session_manager
    probe = {"tcpSocket": {"port": FRONTEND_PORT}, "timeoutSeconds": 2}
    container = {
        "name": SESSION_MANAGER,
        "env": [{"name": LOG_VARIABLE, "value": SESSION_MANAGER_LOG}],
        "ports": [
            {"name": "http", "containerPort": FRONTEND_PORT, "protocol": "TCP"},
            {"name": "backend", "containerPort": BACKEND_PORT, "protocol": "TCP"},
        ],
        # Flame speaks gRPC without its health service: that the port is open is all there is to know.
        "startupProbe": probe | {"periodSeconds": 1, "failureThreshold": 120},
        "readinessProbe": probe | {"periodSeconds": 5, "failureThreshold": 2},
        "livenessProbe": probe | {"periodSeconds": 10, "failureThreshold": 3},
    }
    defaults = _defaults(settings, container, _directories(SESSION_MANAGER_DIRECTORIES, spec))
    musts = {
        "restartPolicy": "Always",
        "volumes": [_config_volume(owner)],
        "containers": [
            _own_container(
                SESSION_MANAGER,
                component,
                _arguments(spec),
                {OBJECT_CACHE_VARIABLE: _address(names.object_cache(owner.name), OBJECT_CACHE_PORT, owner, settings)},
            )
        ],
    }
    return _template(
        owner, SESSION_MANAGER, component, (defaults, musts), revision.session_manager_revision(owner.name, spec)
    )


def executor_pod(owner: Identity, spec: FlameClusterSpec, settings: FlameSettings) -> PodTemplate:
    """An executor manager.

    Never restarted in place (that breaks the node in Flame: a new Pod under a new name takes over), and without a network
    probe, for the process listens on nothing. It connects to the session manager once, at its start, and gives up if that
    is not there: hence the init container that waits.
    """
    component = spec.executor_manager
    session_manager = names.session_manager(owner.name)
    container = {"name": EXECUTOR_MANAGER, "env": [{"name": LOG_VARIABLE, "value": EXECUTOR_LOG}]}
    defaults = _defaults(settings, container, _directories(EXECUTOR_DIRECTORIES, spec) | _object_cache_directory(spec))
    defaults["tolerations"] = [
        {
            "key": f"node.kubernetes.io/{state}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": settings.executor_toleration_seconds,
        }
        for state in ("not-ready", "unreachable")
    ]
    defaults["initContainers"] = [_wait_defaults(settings)]
    backend = _address(session_manager, BACKEND_PORT, owner, settings)
    musts = {
        "restartPolicy": "Never",
        "volumes": [_config_volume(owner)],
        "initContainers": [_wait_command(backend)],
        "containers": [
            _own_container(
                EXECUTOR_MANAGER,
                component,
                _arguments(spec),
                {
                    SESSION_MANAGER_VARIABLE: _address(session_manager, FRONTEND_PORT, owner, settings),
                    OBJECT_CACHE_VARIABLE: _address(names.object_cache(owner.name), OBJECT_CACHE_PORT, owner, settings),
                },
            )
        ],
    }
    return _template(
        owner, EXECUTOR_MANAGER, component, (defaults, musts), revision.executor_revision(owner.name, spec)
    )


def executor_annotations(session_manager_life: str) -> dict[str, str]:
    """The annotation that binds a new executor to one life of the session manager."""
    return {SESSION_MANAGER_ANNOTATION: session_manager_life}


def rebinding_annotations(session_manager_life: str) -> dict[str, str]:
    """The annotations that bind an executor which has not started yet to another life of the session manager."""
    return executor_annotations(session_manager_life) | {REBOUND_ANNOTATION: "true"}


def _template(
    owner: Identity,
    component: str,
    spec: SessionManagerSpec | ExecutorManagerSpec,
    layers: tuple[dict[str, Any], dict[str, Any]],
    author_revision: str,
) -> PodTemplate:
    defaults, musts = layers
    template = spec.pod_template or {}
    metadata = template.get("metadata") or {}
    asked = template.get("spec") or {}
    pod_spec = strategic_merge(strategic_merge(_yielding(defaults, component, spec, asked), asked), musts)
    # With 0 the API server forgets a Pod at once, and the next one would be made while its processes still run.
    if pod_spec.get("terminationGracePeriodSeconds") == 0:
        pod_spec["terminationGracePeriodSeconds"] = 1
    # A list without a merge key would be replaced: a toleration for a GPU node must not lose ours for lost nodes.
    authored = asked.get("tolerations")
    if "tolerations" in defaults and isinstance(authored, list) and all(isinstance(each, dict) for each in authored):
        pod_spec["tolerations"] = _joined_tolerations(authored, defaults["tolerations"])
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": owner.namespace,
            "labels": {**(metadata.get("labels") or {}), **owner.labels(component), **owner.selector(component)},
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": keep_guaranteed(pod_spec, asked) if "initContainers" in defaults else pod_spec,
    }
    return PodTemplate(manifest, author_revision, revision.fingerprint(manifest))


def _yielding(
    defaults: dict[str, Any],
    component: str,
    spec: SessionManagerSpec | ExecutorManagerSpec,
    asked: dict[str, Any],
) -> dict[str, Any]:
    """The defaults without what would get into the way of what the author asks for, though a merge would keep both.

    Those are directories at or below one that the author mounts, which they would hide; a variable that the author sets, whose
    place decides what it may refer to; and what cannot go with `privileged`.
    """
    authored = entry(asked, "containers", component)
    # As the kubelet reads them, to which `data//x`, `/data/x/.` and `/data/x` are the same.
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
    """A container's defaults without `allowPrivilegeEscalation: false` where the author's entry makes it privileged."""
    if as_object(authored.get("securityContext")).get("privileged") is not True:
        return container
    security = {key: value for key, value in container["securityContext"].items() if key != "allowPrivilegeEscalation"}
    return container | {"securityContext": security}


def _defaults(settings: FlameSettings, container: dict[str, Any], directories: dict[str, str]) -> dict[str, Any]:
    mounts = [{"name": volume, "mountPath": path} for volume, path in directories.items()]
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": settings.termination_grace_period_seconds,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container | {"securityContext": _CONTAINER_SECURITY, "volumeMounts": mounts}],
        "volumes": [{"name": volume, "emptyDir": {}} for volume in directories],
    }


def _own_container(
    name: str, component: SessionManagerSpec | ExecutorManagerSpec, args: list[str], addresses: dict[str, str]
) -> dict[str, Any]:
    """What the container must have. The operator's variables come first, so that the author's may refer to them."""
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


def _plain(part: BaseModel) -> dict[str, Any]:
    return part.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _config_volume(owner: Identity) -> dict[str, Any]:
    return {"name": CONFIG_VOLUME, "configMap": {"name": names.config_map(owner.name)}}


def _wait_defaults(settings: FlameSettings) -> dict[str, Any]:
    return {
        "name": WAIT_CONTAINER,
        "image": settings.init_image,
        "resources": {
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "100m", "memory": "32Mi"},
        },
        "securityContext": _CONTAINER_SECURITY | {"readOnlyRootFilesystem": True},
    }


def _wait_command(address: str) -> dict[str, Any]:
    host, port = address.rsplit(":", 1)
    script = f'until nc -z -w 2 {host} {port}; do echo "waiting for {address}"; sleep 1; done'
    return {"name": WAIT_CONTAINER, "command": ["sh", "-c", script]}


def _arguments(spec: FlameClusterSpec) -> list[str]:
    """Flame finds its configuration by this flag alone; the images' entry points are the binaries."""
    return ["--flame-conf" if spec.flame_version == "0.5" else "--config", CONFIG_PATH]


def _address(service: str, port: int, owner: Identity, settings: FlameSettings) -> str:
    return f"{service}.{owner.namespace}.svc.{settings.cluster_domain}:{port}"


def _directories(directories: dict[str, str], spec: FlameClusterSpec) -> dict[str, str]:
    return {
        volume: path
        for volume, path in directories.items()
        if not (spec.flame_version == "0.5" and volume in NOT_IN_0_5)
    }


def _object_cache_directory(spec: FlameClusterSpec) -> dict[str, str]:
    path = posixpath.normpath(spec.object_cache.storage)
    taken: Iterable[str] = (CONFIG_DIRECTORY, *EXECUTOR_DIRECTORIES.values())
    nested = any(path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in taken)
    # Directories right below /var, such as /var/lib, hold more than the cache.
    shallow = path.startswith("/var/") and path.count("/") < 3  # noqa: PLR2004 - as in /var/lib/flame
    if nested or shallow or not path.startswith(_OBJECT_CACHE_ROOTS):
        return {}
    return {f"{OWN_VOLUME_PREFIX}object-cache": path}


def _joined_tolerations(asked: list[dict[str, Any]], ours: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def covered(toleration: dict[str, Any]) -> bool:
        return any(
            other.get("key") in (None, "", toleration["key"]) and other.get("effect") in (None, "", "NoExecute")
            for other in asked
        )

    return [*asked, *(toleration for toleration in ours if not covered(toleration))]
