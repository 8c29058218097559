"""The two Services."""

from __future__ import annotations

from flamectl_operator.desired.services import object_cache_service, services, session_manager_service
from tests.unit.builders import OWNER, desired


def test_clients_and_executors_reach_the_session_manager() -> None:
    service = session_manager_service(OWNER)

    assert service["metadata"]["name"] == "my-flame-session-manager"
    assert service["spec"] == {
        "type": "ClusterIP",
        "selector": {"app": "flame-session-manager", "flame.xflops.io/cluster": "my-flame"},
        "ports": [
            {"name": "http", "port": 8080, "targetPort": 8080, "protocol": "TCP"},
            {"name": "backend", "port": 8081, "targetPort": 8081, "protocol": "TCP"},
        ],
    }


def test_the_object_cache_lives_beside_the_executors() -> None:
    service = object_cache_service(OWNER, desired().spec)

    assert service["metadata"]["name"] == "my-flame-object-cache"
    assert service["spec"] == {
        "type": "ClusterIP",
        "selector": {"app": "flame-executor-manager", "flame.xflops.io/cluster": "my-flame"},
        "ports": [{"name": "grpc", "port": 9090, "targetPort": 9090, "protocol": "TCP"}],
    }


def test_services_select_their_pods() -> None:
    wanted = desired()
    pods = [wanted.session_manager.pod("a"), wanted.executor.pod("b")]

    for service, pod in zip(services(OWNER, wanted.spec), pods, strict=True):
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


def test_services_select_no_pod_of_the_other_component() -> None:
    wanted = desired()
    pods = [wanted.executor.pod("b"), wanted.session_manager.pod("a")]

    for service, pod in zip(services(OWNER, wanted.spec), pods, strict=True):
        assert not service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
