"""Entries of a podTemplate that would be merged into one."""

from typing import Any

import pytest

from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.api.fields.merge_keys import MERGE_KEYS
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.settings.model import OperatorConfig
from tests.unit.builders import OWNER, raw_spec

IN_CONTAINERS = {"env", "ports", "volumeMounts", "volumeDevices"}
DECLARED = {"containers", "initContainers", "volumes", "volumeMounts"}
COMPONENTS = {"sessionManager": "session-manager", "executorManager": "executor-manager"}


def _spec(component: str, field: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    container = {"name": "extra", "image": "x", field: entries}
    spec = {"containers": [container]} if field in IN_CONTAINERS else {field: entries}
    return raw_spec({component: {"podTemplate": {"spec": spec}}})


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("field", sorted(MERGE_KEYS))
def test_entries_that_would_become_one_are_refused_with_their_path(component: str, field: str) -> None:
    keys = {key: 80 if key == "containerPort" else "a" for key in MERGE_KEYS[field]}
    entries: list[dict[str, Any]] = [{"image": "x", "name": "n", **keys} for _ in range(2)]

    with pytest.raises(ValueError, match="podTemplate") as error:
        parse_spec(_spec(component, field, entries), OWNER.name)

    where = f"containers[0].{field}" if field in IN_CONTAINERS else field
    # Lists that the CRD declares are refused as a whole, as the API server does.
    entry = "" if field in DECLARED else "[1]"
    assert f"spec.{component}.podTemplate.spec.{where}{entry}: " in str(error.value)


def test_port_that_repeats_the_default_protocol_is_refused() -> None:
    ports: list[dict[str, Any]] = [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]

    with pytest.raises(ValueError, match="must not have the containerPort and protocol of ports"):
        parse_spec(_spec("sessionManager", "ports", ports), OWNER.name)


@pytest.mark.parametrize(("component", "container"), COMPONENTS.items())
def test_ports_of_one_number_and_two_protocols_stay_beside_those_of_the_operator(
    component: str, container: str
) -> None:
    asked = [
        {"name": "gossip", "containerPort": 7946, "protocol": "TCP"},
        {"name": "gossip-udp", "containerPort": 7946, "protocol": "UDP"},
        {"name": "quic", "containerPort": 8080, "protocol": "UDP"},
    ]
    spec = parse_spec(
        raw_spec({component: {"podTemplate": {"spec": {"containers": [{"name": container, "ports": asked}]}}}}),
        OWNER.name,
    )
    desired = DesiredCluster.of(OWNER, spec, OperatorConfig().flame)

    template = desired.session_manager if component == "sessionManager" else desired.group.template
    ports = template.pod("x")["spec"]["containers"][0]["ports"]
    assert [port for port in ports if port in asked] == asked
    own = {port["containerPort"] for port in ports if port not in asked}
    assert own == ({8080, 8081} if component == "sessionManager" else set())
