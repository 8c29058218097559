"""The two Services through which Flame's processes find each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flamectl_operator.api.constants import (
    BACKEND_PORT,
    EXECUTOR_MANAGER,
    FRONTEND_PORT,
    OBJECT_CACHE,
    OBJECT_CACHE_PORT,
    SESSION_MANAGER,
)
from flamectl_operator.desired import names

if TYPE_CHECKING:
    from flamectl_operator.api.flamecluster import FlameClusterSpec
    from flamectl_operator.desired.metadata import Identity


def services(owner: Identity, spec: FlameClusterSpec) -> tuple[dict[str, Any], ...]:
    """Return all Services of a FlameCluster, in the order of creation."""
    return (session_manager_service(owner), object_cache_service(owner, spec))


def session_manager_service(owner: Identity) -> dict[str, Any]:
    """Return the session manager's Service: port 8080 for clients, and port 8081 where executors register."""
    return _service(
        owner,
        names.session_manager(owner.name),
        component=SESSION_MANAGER,
        selects=SESSION_MANAGER,
        ports=[_port("http", FRONTEND_PORT), _port("backend", BACKEND_PORT)],
    )


def object_cache_service(owner: Identity, spec: FlameClusterSpec) -> dict[str, Any]:
    """Return the Service of the object cache. Where the operator runs none, it may run in the executors' Pods."""
    return _service(
        owner,
        names.object_cache(owner.name),
        component=OBJECT_CACHE,
        selects=EXECUTOR_MANAGER if spec.object_cache.image is None else OBJECT_CACHE,
        ports=[_port("grpc", OBJECT_CACHE_PORT)],
    )


def _port(name: str, port: int) -> dict[str, Any]:
    return {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}


def _service(
    owner: Identity, name: str, *, component: str, selects: str, ports: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owner.metadata(name, component),
        "spec": {"type": "ClusterIP", "selector": owner.selector(selects), "ports": ports},
    }
