"""Strategic merge of Pod specs."""

from copy import deepcopy
from typing import Any

import pytest

from flamectl_operator.api.fields.merge_keys import MERGE_KEYS
from flamectl_operator.desired.strategic_merge import REPLACED_ENTRIES, strategic_merge


def _key(field: str, value: str) -> dict[str, str]:
    return dict.fromkeys(MERGE_KEYS[field], value)


@pytest.mark.parametrize("field", sorted(MERGE_KEYS.keys() - REPLACED_ENTRIES))
def test_entries_of_a_keyed_list_merge_by_its_whole_key(field: str) -> None:
    base = {field: [{**_key(field, "a"), "x": 1, "y": 1}, _key(field, "b")]}
    last = list(MERGE_KEYS[field])[-1]
    other = _key(field, "a") | {last: "c"}

    merged = strategic_merge(base, {field: [{**_key(field, "a"), "x": 2}, other]})

    assert merged == {field: [{**_key(field, "a"), "x": 2, "y": 1}, _key(field, "b"), other]}


@pytest.mark.parametrize("protocol", [{}, {"protocol": "TCP"}])
def test_port_without_a_protocol_is_a_tcp_port(protocol: dict[str, str]) -> None:
    base = {"ports": [{"name": "http", "containerPort": 8080}]}

    merged = strategic_merge(base, {"ports": [{"containerPort": 8080, **protocol, "hostPort": 1}]})

    assert [port["name"] for port in merged["ports"]] == ["http"]


@pytest.mark.parametrize("field", sorted(REPLACED_ENTRIES))
def test_entries_that_are_unions_are_replaced(field: str) -> None:
    base = {field: [{"name": "a", "one": 1}, {"name": "b", "one": 1}]}

    merged = strategic_merge(base, {field: [{"name": "a", "other": 2}]})

    assert merged == {field: [{"name": "a", "other": 2}, {"name": "b", "one": 1}]}


@pytest.mark.parametrize(
    ("field", "keys"),
    [
        ("containers", ("name",)),
        ("initContainers", ("name",)),
        ("ephemeralContainers", ("name",)),
        ("volumes", ("name",)),
        ("imagePullSecrets", ("name",)),
        ("hostAliases", ("ip",)),
        ("topologySpreadConstraints", ("topologyKey", "whenUnsatisfiable")),
        ("schedulingGates", ("name",)),
        ("resourceClaims", ("name",)),
        ("env", ("name",)),
        ("ports", ("containerPort", "protocol")),
        ("volumeMounts", ("mountPath",)),
        ("volumeDevices", ("devicePath",)),
    ],
)
def test_keys_are_those_of_server_side_apply(field: str, keys: tuple[str, ...]) -> None:
    assert tuple(MERGE_KEYS[field]) == keys


@pytest.mark.parametrize(
    ("base", "patch", "merged"),
    [
        pytest.param({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}, id="objects merge"),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="lists without a key are replaced"),
        pytest.param({"a": 1}, {"a": {"y": 2}}, {"a": {"y": 2}}, id="another type replaces"),
        pytest.param({"a": {"y": 2}}, {"a": 1}, {"a": 1}, id="another type replaces, the other way round"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null removes"),
        pytest.param({}, {"a": None}, {}, id="null removes nothing"),
        pytest.param({"containers": [{"name": "a"}]}, {"containers": []}, {"containers": [{"name": "a"}]}, id="empty list"),
        pytest.param({}, {"containers": [{"name": "a"}]}, {"containers": [{"name": "a"}]}, id="new list"),
        pytest.param({"livenessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 5}},
            {"livenessProbe": {"grpc": {"port": 2}}}, {"livenessProbe": {"grpc": {"port": 2}, "periodSeconds": 5}},
            id="a probe's handler is replaced"),
        pytest.param({"livenessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 5}},
            {"livenessProbe": {"periodSeconds": 9}}, {"livenessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 9}},
            id="a probe's numbers merge"),
        pytest.param({"livenessProbe": {"httpGet": {"port": 1, "path": "/x"}}}, {"livenessProbe": {"httpGet": {"port": 2}}},
            {"livenessProbe": {"httpGet": {"port": 2}}}, id="the same handler again starts afresh"),
    ],
)  # fmt: skip
def test_merging(base: dict[str, Any], patch: dict[str, Any], merged: dict[str, Any]) -> None:
    before = deepcopy((base, patch))

    assert strategic_merge(base, patch) == merged
    assert (base, patch) == before
