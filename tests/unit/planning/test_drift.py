"""The patches that existing children need."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from flamectl_operator.kube.views import ConfigMapView, ServicePort, ServiceSpec, ServiceView
from flamectl_operator.planning.drift import config_map_patch, metadata_patch, service_patch
from tests.service_fields import PORT_FIELDS, SPEC_FIELDS, Owner
from tests.unit.builders import desired, effective, merged, session_manager, view
from tests.unit.support import rfc_7386

CONFIG_MAP = effective().config_map
SERVICE = desired().session_manager_service
OURS = CONFIG_MAP["metadata"]["ownerReferences"][0]
CLUSTER_IP = {"type": "ClusterIP"}
RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
#: An edit of each field of the operator that its manifests leave out.
EDITS_OF_OURS = {
    "externalIPs": ["192.0.2.1"],
    "externalName": "elsewhere.example",
    "publishNotReadyAddresses": True,
    "sessionAffinity": "ClientIP",
    "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
    "trafficDistribution": "PreferClose",
    "internalTrafficPolicy": "Local",
    "externalTrafficPolicy": "Local",
    "healthCheckNodePort": 30001,
    "allocateLoadBalancerNodePorts": False,
    "loadBalancerClass": "example.com/lb",
    "loadBalancerIP": "192.0.2.1",
    "loadBalancerSourceRanges": ["10.0.0.0/8"],
}
EDITS_OF_PORTS = {
    "name": "web",
    "port": 1,
    "targetPort": 1,
    "protocol": "UDP",
    "appProtocol": "http",
    "nodePort": 30002,
}
#: Fields that others may set, with the values of another cluster.
EDITS_OF_OTHERS = {
    "clusterIP": "10.0.0.1",
    "clusterIPs": ["10.0.0.1", "fd00::1"],
    "ipFamilies": ["IPv4", "IPv6"],
    "ipFamilyPolicy": "PreferDualStack",
}
THEIRS = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "node-uid"}


def _config_map(changes: dict[str, Any]) -> dict[str, Any] | None:
    return config_map_patch(view(ConfigMapView, merged(CONFIG_MAP, changes)), CONFIG_MAP)


def _service(changes: dict[str, Any]) -> dict[str, Any] | None:
    return service_patch(view(ServiceView, merged(SERVICE, changes)), SERVICE)


def _metadata(**changes: Any) -> dict[str, Any]:
    return {"metadata": changes}


# --- Nothing to write --------------------------------------------------------------------------------------------------

HARMLESS = [
    pytest.param({}, id="unchanged"),
    pytest.param(_metadata(labels={"team": "ml"}), id="labels of others"),
    pytest.param(_metadata(annotations={"note": "x"}), id="annotations of others"),
    pytest.param(_metadata(ownerReferences=[OURS, THEIRS]), id="owners of others"),
    pytest.param(_metadata(ownerReferences=[{**OURS, "blockOwnerDeletion": False}]), id="our reference, edited"),
    pytest.param(_metadata(finalizers=["a/b"], resourceVersion="77", generation=4), id="the API server's own"),
]


@pytest.mark.parametrize("changes", HARMLESS)
def test_foreign_labels_and_annotations_cause_no_patch(changes: dict[str, Any]) -> None:
    assert _config_map(changes) is None
    assert _service(changes) is None


@pytest.mark.parametrize(
    "changes",
    [
        *(pytest.param({"spec": {field: value}}, id=field) for field, value in EDITS_OF_OTHERS.items()),
        pytest.param({"spec": {"clusterIP": "None", "clusterIPs": ["None"]}}, id="headless"),
        pytest.param({"spec": {"sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}}, id="defaults"),
        pytest.param({"spec": {"publishNotReadyAddresses": False}}, id="a default written down"),
        pytest.param({"status": {"loadBalancer": {}}}, id="status"),
    ],
)
def test_fields_set_by_the_api_server_cause_no_patch(changes: dict[str, Any]) -> None:
    assert _service(changes) is None


# --- The table of a Service's fields -----------------------------------------------------------------------------------


def _fields_of(table: Mapping[str, Owner], owner: Owner) -> set[str]:
    return {field for field, who in table.items() if who is owner}


def test_views_have_exactly_the_fields_of_the_operator() -> None:
    for view_of, table in ((ServiceSpec, SPEC_FIELDS), (ServicePort, PORT_FIELDS)):
        seen = {field.encode_name for field in msgspec.structs.fields(view_of)}
        assert seen == _fields_of(table, Owner.OPERATOR)


def test_each_field_of_the_table_has_an_edit() -> None:
    assert EDITS_OF_OURS.keys() | {"type", "selector", "ports"} == _fields_of(SPEC_FIELDS, Owner.OPERATOR)
    assert EDITS_OF_OTHERS.keys() == _fields_of(SPEC_FIELDS, Owner.OTHERS)
    assert EDITS_OF_PORTS.keys() == PORT_FIELDS.keys()


def test_fields_of_others_survive_the_repair_of_all_other_fields() -> None:
    ports = [{**port, **EDITS_OF_PORTS} for port in SERVICE["spec"]["ports"]]
    spec = {**EDITS_OF_OURS, **EDITS_OF_OTHERS, "type": "LoadBalancer", "selector": {"app": "web"}, "ports": ports}

    patch = service_patch(view(ServiceView, {**SERVICE, "spec": spec}), SERVICE)

    assert patch is not None
    assert rfc_7386(spec, patch["spec"]) == SERVICE["spec"] | EDITS_OF_OTHERS


# --- Something to write ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "patch"),
    [
        pytest.param({"data": {"flame-cluster.yaml": "edited"}},
            {"data": {"flame-cluster.yaml": CONFIG_MAP["data"]["flame-cluster.yaml"]}}, id="edited"),
        pytest.param({"data": {"more": "x"}}, {"data": {"more": None}}, id="a key too many"),
        pytest.param({"data": None}, {"data": CONFIG_MAP["data"]}, id="emptied"),
        pytest.param({"binaryData": {"x": "eA=="}}, {"binaryData": None}, id="binary content"),
        pytest.param(_metadata(annotations={"flame.xflops.io/config-generation": "9"}),
            _metadata(annotations={"flame.xflops.io/config-generation": "1"}), id="another number"),
        pytest.param(_metadata(labels={"flame.xflops.io/cluster": "other"}),
            _metadata(labels={"flame.xflops.io/cluster": "my-flame"}), id="another label"),
    ],
)  # fmt: skip
def test_config_map_drift_is_patched(changes: dict[str, Any], patch: dict[str, Any]) -> None:
    assert _config_map(changes) == merged(patch, _metadata(resourceVersion="1"))


@pytest.mark.parametrize(
    ("changes", "patch"),
    [
        pytest.param({"spec": {"type": "NodePort"}}, {"spec": CLUSTER_IP}, id="type"),
        pytest.param({"spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8"]}},
            {"spec": CLUSTER_IP | {"loadBalancerSourceRanges": None}}, id="type, with source ranges"),
        pytest.param({"spec": {"type": "LoadBalancer"}, **_metadata(annotations={RANGES: "10.0.0.0/8", "note": "x"})},
            {"spec": CLUSTER_IP, **_metadata(annotations={RANGES: None})}, id="type, with source ranges in an annotation"),
        pytest.param({"spec": {"selector": {"extra": "x"}}}, {"spec": {"selector": {"extra": None}}}, id="selects less"),
        pytest.param({"spec": {"selector": {"app": "other"}}}, {"spec": {"selector": {"app": "flame-session-manager"}}},
            id="selects else"),
        pytest.param({"spec": {"selector": None}}, {"spec": {"selector": SERVICE["spec"]["selector"]}}, id="selects nothing"),
        pytest.param({"spec": {"ports": SERVICE["spec"]["ports"][:1]}}, {"spec": {"ports": SERVICE["spec"]["ports"]}},
            id="a port less"),
        pytest.param(
            {
                "spec": {
                    "ports": [*SERVICE["spec"]["ports"], {"name": "x", "port": 1, "targetPort": 1, "protocol": "TCP"}]
                }
            },
            {"spec": {"ports": SERVICE["spec"]["ports"]}},
            id="a port more",
        ),
        pytest.param({"spec": {"ports": [{**port, "targetPort": "web"} for port in SERVICE["spec"]["ports"]]}},
            {"spec": {"ports": SERVICE["spec"]["ports"]}}, id="another target"),
        *(pytest.param({"spec": {field: value}}, {"spec": {field: None}}, id=field) for field,
            value in EDITS_OF_OURS.items()),
        *(
            pytest.param(
                {"spec": {"ports": [{**port, field: value} for port in SERVICE["spec"]["ports"]]}},
                {"spec": {"ports": SERVICE["spec"]["ports"]}},
                id=f"ports {field}",
            )
            for field, value in EDITS_OF_PORTS.items()
        ),
    ],
)  # fmt: skip
def test_service_drift_is_patched(changes: dict[str, Any], patch: dict[str, Any]) -> None:
    assert _service(changes) == merged(patch, _metadata(resourceVersion="1"))


# --- Pods --------------------------------------------------------------------------------------------------------------


def test_pod_patch_changes_only_labels() -> None:
    manifest = desired().session_manager.pod("my-flame-session-manager")
    labels = manifest["metadata"]["labels"]
    found = session_manager(labels={"team": "ml"}, annotations={"flame.xflops.io/revision": "old"})

    assert metadata_patch(session_manager(), manifest) is None
    assert metadata_patch(session_manager(annotations={}), manifest) is None
    assert metadata_patch(found, manifest) == _metadata(labels=labels, resourceVersion="1")
