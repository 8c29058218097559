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
    from flamectl_operator.desired.metadata import Identity


def services(owner: Identity) -> tuple[dict[str, Any], ...]:
    """All Services of a FlameCluster, in the order in which they are made."""
    return (session_manager_service(owner), object_cache_service(owner))


def session_manager_service(owner: Identity) -> dict[str, Any]:
    """Port 8080 is for clients; on 8081 the executors register, and without it no cluster works."""
    return _service(
        owner,
        names.session_manager(owner.name),
        component=SESSION_MANAGER,
        selects=SESSION_MANAGER,
        ports=[_port("http", FRONTEND_PORT), _port("backend", BACKEND_PORT)],
    )


def object_cache_service(owner: Identity) -> dict[str, Any]:
    """The object cache lives beside the executors."""
    return _service(
        owner,
        names.object_cache(owner.name),
        component=OBJECT_CACHE,
        selects=EXECUTOR_MANAGER,
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
