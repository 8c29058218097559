"""Strategic merge of Pod specs."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from flamectl_operator.desired.strategic_merge import MERGE_KEYS, REPLACED_ENTRIES, strategic_merge


@pytest.mark.parametrize("field", sorted(MERGE_KEYS.keys() - REPLACED_ENTRIES))
def test_entries_of_a_keyed_list_merge_by_its_key(field: str) -> None:
    key = MERGE_KEYS[field]
    base = {field: [{key: "a", "x": 1, "y": 1}, {key: "b"}]}

    merged = strategic_merge(base, {field: [{key: "a", "x": 2}, {key: "c"}]})

    assert merged == {field: [{key: "a", "x": 2, "y": 1}, {key: "b"}, {key: "c"}]}


@pytest.mark.parametrize("field", sorted(REPLACED_ENTRIES))
def test_entries_that_are_unions_are_replaced(field: str) -> None:
    base = {field: [{"name": "a", "one": 1}, {"name": "b", "one": 1}]}

    merged = strategic_merge(base, {field: [{"name": "a", "other": 2}]})

    assert merged == {field: [{"name": "a", "other": 2}, {"name": "b", "one": 1}]}


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("containers", "name"),
        ("initContainers", "name"),
        ("ephemeralContainers", "name"),
        ("volumes", "name"),
        ("imagePullSecrets", "name"),
        ("hostAliases", "ip"),
        ("topologySpreadConstraints", "topologyKey"),
        ("schedulingGates", "name"),
        ("resourceClaims", "name"),
        ("env", "name"),
        ("ports", "containerPort"),
        ("volumeMounts", "mountPath"),
        ("volumeDevices", "devicePath"),
    ],
)
def test_keys_are_those_of_kubernetes(field: str, key: str) -> None:
    assert MERGE_KEYS[field] == key


@pytest.mark.parametrize(
    ("base", "patch", "merged"),
    [
        pytest.param({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}, id="objects merge"),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="lists without a key are replaced"),
        pytest.param({"a": 1}, {"a": {"y": 2}}, {"a": {"y": 2}}, id="another type replaces"),
        pytest.param({"a": {"y": 2}}, {"a": 1}, {"a": 1}, id="another type replaces, the other way round"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null removes"),
        pytest.param({}, {"a": None}, {}, id="null removes nothing"),
        pytest.param(
            {"containers": [{"name": "a"}]}, {"containers": []}, {"containers": [{"name": "a"}]}, id="empty list"
        ),
        pytest.param({}, {"containers": [{"name": "a"}]}, {"containers": [{"name": "a"}]}, id="new list"),
        pytest.param(
            {"livenessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 5}},
            {"livenessProbe": {"grpc": {"port": 2}}},
            {"livenessProbe": {"grpc": {"port": 2}, "periodSeconds": 5}},
            id="a probe's handler is replaced",
        ),
        pytest.param(
            {"livenessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 5}},
            {"livenessProbe": {"periodSeconds": 9}},
            {"livenessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 9}},
            id="a probe's numbers merge",
        ),
        pytest.param(
            {"livenessProbe": {"httpGet": {"port": 1, "path": "/x"}}},
            {"livenessProbe": {"httpGet": {"port": 2}}},
            {"livenessProbe": {"httpGet": {"port": 2}}},
            id="the same handler again starts afresh",
        ),
    ],
)
def test_merging(base: dict[str, Any], patch: dict[str, Any], merged: dict[str, Any]) -> None:
    before = deepcopy((base, patch))

    assert strategic_merge(base, patch) == merged
    assert (base, patch) == before
