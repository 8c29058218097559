"""The Pods of the session manager, the executors and the object caches; `pod_template` builds the common part of all Pods."""

from dataclasses import replace
from typing import Any

from flamectl_operator.api.constants import (
    BACKEND_PORT,
    EXECUTOR_MANAGER,
    FRONTEND_PORT,
    LOG_VARIABLE,
    OBJECT_CACHE,
    OBJECT_CACHE_PORT,
    OBJECT_CACHE_VARIABLE,
    OWN_VOLUME_PREFIX,
    SESSION_MANAGER,
    SESSION_MANAGER_VARIABLE,
)
from flamectl_operator.api.fields.flame_options import RuntimeStorage
from flamectl_operator.api.flamecluster import ExecutorManagerSpec, FlameClusterSpec
from flamectl_operator.desired import names, revision
from flamectl_operator.desired.executor_scripts import termination_hook, wait_command, wait_defaults
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.desired.pod_template import (
    ComponentTemplate,
    address,
    arguments,
    claim_volume,
    config_volume,
    directories_for,
    mountable_directory,
    own_container,
    pod_defaults,
    port_probes,
    template_of,
)
from flamectl_operator.desired.tls import add_authorities, add_cache_files, add_server_files
from flamectl_operator.settings.model import FlameSettings

#: The session manager's scheduler plugins log ten lines per second at `info`.
SESSION_MANAGER_LOG = "info,flame_session_manager::scheduler::plugins=warn"
#: The log level of executors and object caches.
_LOG_LEVEL = "info"

_LOGS = f"{OWN_VOLUME_PREFIX}logs"
#: Directories that Flame 0.6 writes. They belong to root in its images; as emptyDirs (with `fsGroup`) any user can write to them.
OBJECT_CACHE_DIRECTORIES = {_LOGS: "/usr/local/flame/logs"}
SESSION_MANAGER_DIRECTORIES = {
    _LOGS: "/usr/local/flame/logs",
    f"{OWN_VOLUME_PREFIX}events": "/usr/local/flame/events",
    f"{OWN_VOLUME_PREFIX}session": "/var/lib/flame/session",
}
EXECUTOR_DIRECTORIES = {
    f"{OWN_VOLUME_PREFIX}work": "/usr/local/flame/work",
    f"{OWN_VOLUME_PREFIX}apps": "/usr/local/flame/data/apps",
    f"{OWN_VOLUME_PREFIX}data-cache": "/usr/local/flame/data/cache",
    _LOGS: "/usr/local/flame/logs",
    f"{OWN_VOLUME_PREFIX}tmp": "/tmp/flame",  # noqa: S108 - a path in the container, fixed by Flame
    f"{OWN_VOLUME_PREFIX}var": "/var/flame",
}

#: The mount paths of the directories on the session manager's claim, by the name of the directory.
PERSISTENT_DIRECTORIES = {"session": "/var/lib/flame/session", "events": "/usr/local/flame/events"}
CLAIM_VOLUME = f"{OWN_VOLUME_PREFIX}claim"
#: The volume that holds the objects of an object cache: an emptyDir or a claim.
_STORAGE_VOLUME = f"{OWN_VOLUME_PREFIX}storage"


def session_manager_pod(owner: Identity, spec: FlameClusterSpec, settings: FlameSettings) -> ComponentTemplate:
    """Return the session manager's Pod. Its container may restart in place; then its executors are replaced."""
    component = spec.session_manager
    container = {
        "name": SESSION_MANAGER,
        "env": [{"name": LOG_VARIABLE, "value": SESSION_MANAGER_LOG}],
        "ports": [
            {"name": "http", "containerPort": FRONTEND_PORT, "protocol": "TCP"},
            {"name": "backend", "containerPort": BACKEND_PORT, "protocol": "TCP"},
        ],
        **port_probes(FRONTEND_PORT, start_seconds=120),
    }
    persistence = component.persistence
    persistent = {} if persistence is None else PERSISTENT_DIRECTORIES
    directories = {each: path for each, path in SESSION_MANAGER_DIRECTORIES.items() if path not in persistent.values()}
    defaults = pod_defaults(settings, container, directories_for(directories, spec))
    defaults = add_server_files(defaults, spec)
    own = own_container(
        SESSION_MANAGER,
        component,
        arguments(spec),
        {OBJECT_CACHE_VARIABLE: address(names.object_cache(owner.name), OBJECT_CACHE_PORT, owner, settings)},
    )
    own["volumeMounts"] += [
        {"name": CLAIM_VOLUME, "mountPath": path, "subPath": part} for part, path in persistent.items()
    ]
    name = names.session_manager(owner.name)
    claims = [] if persistence is None else [claim_volume(CLAIM_VOLUME, persistence.existing_claim or name)]
    musts = {"restartPolicy": "Always", "volumes": [config_volume(owner), *claims], "containers": [own]}
    return template_of(
        owner, SESSION_MANAGER, component, (defaults, musts), revision.session_manager_revision(owner.name, spec)
    )


def executor_pod(
    owner: Identity, spec: FlameClusterSpec, group: ExecutorManagerSpec, settings: FlameSettings
) -> ComponentTemplate:
    """Return the Pod of an executor manager.

    An executor is never restarted in place, because that breaks the node in Flame: a new Pod under a new name replaces it. It has
    no network probe, because the process listens on no port. The process connects to the session manager once at its start and
    exits if there is none, so an init container waits for the session manager.
    """
    ending = group.drain.on_termination
    return template_of(
        owner,
        EXECUTOR_MANAGER,
        group,
        (_executor_defaults(spec, group, settings), _executor_musts(owner, spec, group, settings)),
        revision.executor_revision(owner.name, spec, group),
        hook_seconds=ending.max_seconds if ending.enabled else 0,
    )


def _executor_defaults(spec: FlameClusterSpec, group: ExecutorManagerSpec, settings: FlameSettings) -> dict[str, Any]:
    container = {"name": EXECUTOR_MANAGER, "env": [{"name": LOG_VARIABLE, "value": _LOG_LEVEL}]}
    defaults = pod_defaults(
        settings, container, directories_for(EXECUTOR_DIRECTORIES, spec) | _object_cache_directory(spec)
    )
    defaults["volumes"] = _stored(defaults["volumes"], group.runtime_storage)
    defaults = add_authorities(defaults, spec)
    defaults["tolerations"] = [
        {
            "key": f"node.kubernetes.io/{state}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": settings.executor_toleration_seconds,
        }
        for state in ("not-ready", "unreachable")
    ]
    defaults["initContainers"] = [wait_defaults(group, settings)]
    return defaults


def _executor_musts(
    owner: Identity, spec: FlameClusterSpec, group: ExecutorManagerSpec, settings: FlameSettings
) -> dict[str, Any]:
    session_manager = names.session_manager(owner.name)
    backend = address(session_manager, BACKEND_PORT, owner, settings)
    addresses = {
        SESSION_MANAGER_VARIABLE: address(session_manager, FRONTEND_PORT, owner, settings),
        OBJECT_CACHE_VARIABLE: address(names.object_cache(owner.name), OBJECT_CACHE_PORT, owner, settings),
    }
    musts: dict[str, Any] = {
        "restartPolicy": "Never",
        "volumes": [config_volume(owner)],
        "initContainers": [wait_command(backend)],
        "containers": [own_container(EXECUTOR_MANAGER, group, arguments(spec), addresses)],
    }
    if group.drain.on_termination.enabled:
        musts["shareProcessNamespace"] = True
        musts["containers"][0] |= termination_hook(backend, group.drain.on_termination)
    return musts


def _stored(volumes: list[dict[str, Any]], storage: RuntimeStorage) -> list[dict[str, Any]]:
    """Return an executor's emptyDirs as `runtimeStorage` says, except for logs, which a restart or a full tmpfs would lose."""
    wanted = {"medium": storage.medium, "sizeLimit": storage.size_limit}
    source = {field: value for field, value in wanted.items() if value is not None}
    stored = EXECUTOR_DIRECTORIES.keys() - {_LOGS}
    return [volume | {"emptyDir": source} if volume["name"] in stored else volume for volume in volumes]


def _object_cache_directory(spec: FlameClusterSpec) -> dict[str, str]:
    """Return the directory of an object cache that the author runs beside the executor manager, in its Pod."""
    cache = spec.object_cache
    taken = EXECUTOR_DIRECTORIES.values()
    return mountable_directory(f"{OWN_VOLUME_PREFIX}object-cache", cache.storage, taken) if cache.image is None else {}


def object_cache_pod(owner: Identity, spec: FlameClusterSpec, settings: FlameSettings) -> ComponentTemplate | None:
    """Return the Pods of the object cache, or None when the operator runs none.

    The container may restart in place (restartPolicy Always): the Pod keeps its address, which object references hold.
    """
    component = spec.object_cache
    if component.image is None:
        return None
    container = {
        "name": OBJECT_CACHE,
        "env": [{"name": LOG_VARIABLE, "value": _LOG_LEVEL}],
        "ports": [{"name": "grpc", "containerPort": OBJECT_CACHE_PORT, "protocol": "TCP"}],
        # At its start the cache reads what its storage holds, which may take a while.
        **port_probes(OBJECT_CACHE_PORT, start_seconds=300),
    }
    # Flame takes a URL for the directory as well.
    persistence, directory = component.persistence, component.storage.removeprefix("fs://").removeprefix("file://")
    mountable = mountable_directory(_STORAGE_VOLUME, directory, OBJECT_CACHE_DIRECTORIES.values())
    directories = OBJECT_CACHE_DIRECTORIES | (mountable if persistence is None else {})
    defaults = add_cache_files(pod_defaults(settings, container, directories), spec)
    own, volumes = own_container(OBJECT_CACHE, component, arguments(spec), {}), [config_volume(owner)]
    if persistence is not None:
        own["volumeMounts"] += [{"name": _STORAGE_VOLUME, "mountPath": directory}]
        volumes += [claim_volume(_STORAGE_VOLUME, persistence.existing_claim or names.object_cache(owner.name))]
    musts = {"restartPolicy": "Always", "volumes": volumes, "containers": [own]}
    template = template_of(
        owner, OBJECT_CACHE, component, (defaults, musts), revision.object_cache_revision(owner.name, spec)
    )
    each_its_own = persistence is not None and persistence.existing_claim is None
    return replace(template, claim_volume=_STORAGE_VOLUME) if each_its_own else template
