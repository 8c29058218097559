"""The two Services."""

from typing import Any

import pytest

from tests.unit.builders import desired


def test_services_select_their_pods_and_none_of_the_other_component() -> None:
    wanted = desired()
    pods = [wanted.session_manager.pod("a"), wanted.group.template.pod("b")]
    services = (wanted.session_manager_service, wanted.object_cache_service)
    selectors = [service["spec"]["selector"].items() for service in services]

    selected = [[selector <= pod["metadata"]["labels"].items() for pod in pods] for selector in selectors]
    assert selected == [[True, False], [False, True]]


H2C, TLS = "kubernetes.io/h2c", "https"
SECRET = {"secretName": "certificate"}


@pytest.mark.parametrize(
    ("changes", "manager", "cache"),
    [
        pytest.param({}, H2C, H2C, id="no TLS"),
        pytest.param({"tls": SECRET}, TLS, H2C, id="TLS of the session manager"),
        pytest.param({"objectCache": {"tls": SECRET}}, H2C, TLS, id="TLS of the object cache"),
        pytest.param({"flameVersion": "0.7", "tls": SECRET | {"trustDomain": "example.org"}}, TLS, TLS,
            id="one certificate for both"),
    ],
)  # fmt: skip
def test_each_port_names_the_protocol_that_flame_serves_on_it(
    changes: dict[str, Any], manager: str, cache: str
) -> None:
    wanted = desired(changes)
    services = (wanted.session_manager_service, wanted.object_cache_service)
    found = {port["name"]: port["appProtocol"] for service in services for port in service["spec"]["ports"]}

    assert found == {"http": manager, "backend": manager, "grpc": cache}
