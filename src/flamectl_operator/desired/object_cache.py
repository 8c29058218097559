"""The object cache as a component of its own: its Pods, and what flame-cluster.yaml says about it."""

from __future__ import annotations

from dataclasses import replace

from flamectl_operator.api.constants import LOG_VARIABLE, OBJECT_CACHE, OBJECT_CACHE_PORT, OWN_VOLUME_PREFIX
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.desired import names, revision
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.desired.pod_template import (
    ComponentTemplate,
    arguments,
    claim_volume,
    config_volume,
    mountable_directory,
    own_container,
    pod_defaults,
    port_probes,
    template_of,
)
from flamectl_operator.desired.tls import add_cache_files
from flamectl_operator.settings.model import FlameSettings

OBJECT_CACHE_LOG = "info"

#: Directories that the object cache writes besides its storage.
DIRECTORIES = {f"{OWN_VOLUME_PREFIX}logs": "/usr/local/flame/logs"}
STORAGE_VOLUME = f"{OWN_VOLUME_PREFIX}storage"


def object_cache_pod(owner: Identity, spec: FlameClusterSpec, settings: FlameSettings) -> ComponentTemplate | None:
    """Return the Pods of the object cache, or None when the operator runs none.

    The container may restart in place (restartPolicy Always): the Pod keeps its address, which object references hold.
    """
    component = spec.object_cache
    if component.image is None:
        return None
    container = {
        "name": OBJECT_CACHE,
        "env": [{"name": LOG_VARIABLE, "value": OBJECT_CACHE_LOG}],
        "ports": [{"name": "grpc", "containerPort": OBJECT_CACHE_PORT, "protocol": "TCP"}],
        # At its start the cache reads what its storage holds, which may take a while.
        **port_probes(OBJECT_CACHE_PORT, start_seconds=300),
    }
    # Flame takes a URL for the directory as well.
    persistence, directory = component.persistence, component.storage.removeprefix("fs://").removeprefix("file://")
    mountable = mountable_directory(STORAGE_VOLUME, directory, DIRECTORIES.values())
    directories = DIRECTORIES if persistence is not None else DIRECTORIES | mountable
    defaults = add_cache_files(pod_defaults(settings, container, directories), spec)
    own, volumes = own_container(OBJECT_CACHE, component, arguments(spec), {}), [config_volume(owner)]
    if persistence is not None:
        own["volumeMounts"] += [{"name": STORAGE_VOLUME, "mountPath": directory}]
        volumes += [claim_volume(STORAGE_VOLUME, persistence.existing_claim or names.object_cache(owner.name))]
    musts = {"restartPolicy": "Always", "volumes": volumes, "containers": [own]}
    template = template_of(
        owner, OBJECT_CACHE, component, (defaults, musts), revision.object_cache_revision(owner.name, spec)
    )
    each_its_own = persistence is not None and persistence.existing_claim is None
    return replace(template, claim_volume=STORAGE_VOLUME) if each_its_own else template
