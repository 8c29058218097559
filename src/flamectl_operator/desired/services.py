"""The two Services through which Flame's processes find each other."""

from typing import Any

from flamectl_operator.api.constants import (
    BACKEND_PORT,
    EXECUTOR_MANAGER,
    FRONTEND_PORT,
    OBJECT_CACHE,
    OBJECT_CACHE_PORT,
    SESSION_MANAGER,
)
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.desired import names, tls
from flamectl_operator.desired.metadata import Identity

#: The protocol that meshes and gateways use for a port (`appProtocol`). gRPC is HTTP/2; Kubernetes has a name for HTTP/2 without
#: TLS.
APP_PROTOCOL = "kubernetes.io/h2c"
#: Meshes and gateways share no name for gRPC over TLS. `https`, which IANA registered, makes a gateway open TLS, in which it
#: negotiates HTTP/2, and makes a mesh pass the encrypted bytes on.
APP_PROTOCOL_TLS = "https"


def session_manager_service(owner: Identity, spec: FlameClusterSpec) -> dict[str, Any]:
    """Return the session manager's Service: port 8080 for clients, and port 8081 where executors register."""
    secure = tls.cluster_is_secure(spec)
    return _service(
        owner,
        names.session_manager(owner.name),
        component=SESSION_MANAGER,
        selects=SESSION_MANAGER,
        ports=[_port("http", FRONTEND_PORT, secure=secure), _port("backend", BACKEND_PORT, secure=secure)],
    )


def object_cache_service(owner: Identity, spec: FlameClusterSpec) -> dict[str, Any]:
    """Return the Service of the object cache. Where the operator runs none, it may run in the executors' Pods."""
    return _service(
        owner,
        names.object_cache(owner.name),
        component=OBJECT_CACHE,
        selects=EXECUTOR_MANAGER if spec.object_cache.image is None else OBJECT_CACHE,
        ports=[_port("grpc", OBJECT_CACHE_PORT, secure=tls.cache_is_secure(spec))],
    )


def _port(name: str, port: int, *, secure: bool) -> dict[str, Any]:
    return {
        "name": name,
        "port": port,
        "targetPort": port,
        "protocol": "TCP",
        "appProtocol": APP_PROTOCOL_TLS if secure else APP_PROTOCOL,
    }


def _service(
    owner: Identity, name: str, *, component: str, selects: str, ports: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owner.metadata(name, component),
        "spec": {"type": "ClusterIP", "selector": owner.selector(selects), "ports": ports},
    }
