"""The patches that existing children need."""

from __future__ import annotations

from typing import Any

import pytest

from flamectl_operator.kube.views import ConfigMapView, ServiceView
from flamectl_operator.planning.drift import config_map_patch, metadata_patch, service_patch
from tests.unit.builders import desired, effective, merged, session_manager, view
from tests.unit.support import rfc_7386

CONFIG_MAP = effective().config_map
SERVICE = desired().services[0]
OURS = CONFIG_MAP["metadata"]["ownerReferences"][0]
CLUSTER_IP = {"type": "ClusterIP", "loadBalancerSourceRanges": None}
RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
THEIRS = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "node-uid"}


def _config_map(changes: dict[str, Any]) -> dict[str, Any] | None:
    return config_map_patch(view(ConfigMapView, merged(CONFIG_MAP, changes)), CONFIG_MAP)


def _service(changes: dict[str, Any]) -> dict[str, Any] | None:
    return service_patch(view(ServiceView, merged(SERVICE, changes)), SERVICE)


def _metadata(**changes: Any) -> dict[str, Any]:
    return {"metadata": changes}


# --- Nothing to write --------------------------------------------------------------------------------------------------

HARMLESS = [
    pytest.param({}, id="as it was made"),
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
        pytest.param({"spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}}, id="clusterIP"),
        pytest.param({"spec": {"sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}}, id="defaults"),
        pytest.param({"spec": {"publishNotReadyAddresses": False}}, id="a default written down"),
        pytest.param({"status": {"loadBalancer": {}}}, id="status"),
    ],
)
def test_fields_set_by_the_api_server_cause_no_patch(changes: dict[str, Any]) -> None:
    assert _service(changes) is None


# --- Something to write ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "patch"),
    [
        pytest.param(
            {"data": {"flame-cluster.yaml": "edited"}},
            {"data": {"flame-cluster.yaml": CONFIG_MAP["data"]["flame-cluster.yaml"]}},
            id="edited",
        ),
        pytest.param({"data": {"more": "x"}}, {"data": {"more": None}}, id="a key too many"),
        pytest.param({"data": None}, {"data": CONFIG_MAP["data"]}, id="emptied"),
        pytest.param({"binaryData": {"x": "eA=="}}, {"binaryData": None}, id="binary content"),
        pytest.param(
            _metadata(annotations={"flame.xflops.io/config-generation": "9"}),
            _metadata(annotations={"flame.xflops.io/config-generation": "1"}),
            id="another number",
        ),
        pytest.param(
            _metadata(labels={"flame.xflops.io/cluster": "other"}),
            _metadata(labels={"flame.xflops.io/cluster": "my-flame"}),
            id="another label",
        ),
    ],
)
def test_config_map_drift_is_patched(changes: dict[str, Any], patch: dict[str, Any]) -> None:
    assert _config_map(changes) == merged(patch, _metadata(resourceVersion="1"))


@pytest.mark.parametrize(
    ("changes", "patch"),
    [
        pytest.param({"spec": {"type": "NodePort"}}, {"spec": CLUSTER_IP}, id="type"),
        pytest.param(
            {"spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0/8"]}},
            {"spec": CLUSTER_IP},
            id="type, with source ranges",
        ),
        pytest.param(
            {"spec": {"type": "LoadBalancer"}, **_metadata(annotations={RANGES: "10.0.0.0/8", "note": "x"})},
            {"spec": CLUSTER_IP, **_metadata(annotations={RANGES: None})},
            id="type, with source ranges in an annotation",
        ),
        pytest.param(
            {"spec": {"selector": {"extra": "x"}}}, {"spec": {"selector": {"extra": None}}}, id="selects less"
        ),
        pytest.param(
            {"spec": {"selector": {"app": "other"}}},
            {"spec": {"selector": {"app": "flame-session-manager"}}},
            id="selects else",
        ),
        pytest.param(
            {"spec": {"selector": None}}, {"spec": {"selector": SERVICE["spec"]["selector"]}}, id="selects nothing"
        ),
        pytest.param(
            {"spec": {"ports": SERVICE["spec"]["ports"][:1]}},
            {"spec": {"ports": SERVICE["spec"]["ports"]}},
            id="a port less",
        ),
        pytest.param(
            {
                "spec": {
                    "ports": [*SERVICE["spec"]["ports"], {"name": "x", "port": 1, "targetPort": 1, "protocol": "TCP"}]
                }
            },
            {"spec": {"ports": SERVICE["spec"]["ports"]}},
            id="a port more",
        ),
        pytest.param(
            {"spec": {"ports": [{**port, "targetPort": "web"} for port in SERVICE["spec"]["ports"]]}},
            {"spec": {"ports": SERVICE["spec"]["ports"]}},
            id="another target",
        ),
        pytest.param(
            {"spec": {"publishNotReadyAddresses": True}},
            {"spec": {"publishNotReadyAddresses": False}},
            id="unready too",
        ),
    ],
)
def test_service_drift_is_patched(changes: dict[str, Any], patch: dict[str, Any]) -> None:
    assert _service(changes) == merged(patch, _metadata(resourceVersion="1"))


@pytest.mark.parametrize(
    "changes",
    [
        {
            "data": {"flame-cluster.yaml": "edited", "more": "x"},
            "metadata": {"labels": {"flame.xflops.io/cluster": "x", "team": "ml"}},
        },
        {
            "data": None,
            "metadata": {
                "annotations": {"flame.xflops.io/config-hash": "x", "note": "y"},
                "ownerReferences": [THEIRS, OURS],
            },
        },
    ],
    ids=["edited", "emptied"],
)
def test_patched_child_needs_no_patch_and_keeps_foreign_fields(changes: dict[str, Any]) -> None:
    edited = merged(CONFIG_MAP, changes)
    patch = config_map_patch(view(ConfigMapView, edited), CONFIG_MAP)
    repaired = rfc_7386(edited, patch)

    assert config_map_patch(view(ConfigMapView, repaired), CONFIG_MAP) is None
    for part in ("labels", "annotations"):
        kept = {key: value for key, value in edited["metadata"][part].items() if not key.startswith("flame.xflops.io/")}
        assert kept.items() <= repaired["metadata"][part].items()
    assert len(repaired["metadata"]["ownerReferences"]) == len(edited["metadata"]["ownerReferences"])


def test_patch_has_the_resource_version_of_the_observed_object() -> None:
    observed = view(ConfigMapView, merged(CONFIG_MAP, {"data": {"more": "x"}}), resourceVersion="41")
    patch = config_map_patch(observed, CONFIG_MAP)

    assert patch is not None
    assert patch["metadata"]["resourceVersion"] == "41"


# --- Pods --------------------------------------------------------------------------------------------------------------


def test_pod_patch_changes_only_labels() -> None:
    manifest = desired().session_manager.pod("my-flame-session-manager")
    labels = manifest["metadata"]["labels"]
    found = session_manager(labels={"team": "ml"}, annotations={"flame.xflops.io/revision": "old"})

    assert metadata_patch(session_manager(), manifest) is None
    assert metadata_patch(session_manager(annotations={}), manifest) is None
    assert metadata_patch(found, manifest) == _metadata(labels=labels, resourceVersion="1")
