"""Specs of a tenant who writes what costs most."""

import json
from collections.abc import Callable
from typing import Any

from flamectl_operator.api.constants import API_VERSION, CLUSTER_LABEL, KIND
from tests.e2e.namespace import E2ENamespace

#: Bytes of a hostile spec, just below what the API server stores.
SIZE = 1_200_000
#: Bytes of the large part of one of a thousand objects. Without the bounds, the operator would take more than it may.
MODERATE = 24_000


def hostile_overrides(depth: int) -> dict[str, Any]:
    """Lists within each other, as many as fit, and a letter that takes the slow way of rendering.

    Args:
        depth: How many lists are within each other.
    """
    nested: Any = "é"
    for _ in range(depth):
        nested = [nested]
    return {"x": [nested] * (SIZE // (len(json.dumps(nested, ensure_ascii=False).encode()) + 1))}


def in_state(world: E2ENamespace, state: str) -> set[str]:
    """Names of the FlameClusters in a state, from the table that the API server prints: the objects may have megabytes.

    Args:
        state: Of `status.state`.
    """
    rows = [line.split() for line in world.kubectl("get", "flameclusters", "--no-headers").splitlines()]
    return {row[0] for row in rows if row[1:2] == [state]}


def largest_objects(number: int) -> list[dict[str, Any]]:
    """One object of each kind that a tenant may write, with the operator's label and as much as the API server stores.

    Args:
        number: What tells their names from others'.
    """
    name = f"large-{number}"
    owner = {"apiVersion": "no.such/v1", "kind": "Thing", "name": "n" * SIZE, "uid": "1"}
    metadata = {"name": name, "labels": {CLUSTER_LABEL: "large"}}
    owned = {**metadata, "ownerReferences": [owner]}
    selector = {f"key-{each}": "v" * 60 for each in range(9000)}
    container = {"name": "main", "image": "x"}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "d" * 1_000_000}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": selector, "ports": [{"port": 1}]},
        },
        {"apiVersion": "v1", "kind": "Pod", "metadata": owned, "spec": {"nodeName": "none", "containers": [container]}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": owned, "spec": claim},
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": owned,
            "spec": {"podSelector": {}},
        },
    ]


def unwelcome_objects(number: int) -> list[dict[str, Any]]:
    """One object of each kind that the operator watches, in which one part is much larger than the operator keeps.

    Args:
        number: What tells their names from others', and decides which part is large. Many keys cost the API server most, so few
            objects have them.
    """
    many_keys = number % 20 == 0
    part = _OF_MANY_KEYS[number % 3] if many_keys else _LONG[number % 2]
    found = []
    for body in _bodies(_entries() if many_keys else {"a": "b"}):
        metadata = part()
        labels = {**metadata.get("labels", {}), CLUSTER_LABEL: "large"}
        found.append({**body, "metadata": {**metadata, "name": f"unwelcome-{number}", "labels": labels}})
    return found


def _entries() -> dict[str, str]:
    return {f"key-{each}": f"{each:060d}" for each in range(MODERATE // 80)}


def _owner(name: str, uid: str) -> dict[str, str]:
    return {"apiVersion": "no.such/v1", "kind": "Thing", "name": name, "uid": uid}


_LONG: tuple[Callable[[], dict[str, Any]], ...] = (
    lambda: {"ownerReferences": [_owner("n" * MODERATE, "1")]},
    lambda: {"annotations": {f"key-{each}": "a" * (MODERATE // 4) for each in range(4)}},
)
_OF_MANY_KEYS: tuple[Callable[[], dict[str, Any]], ...] = (
    lambda: {"ownerReferences": [_owner(f"n{each}", f"{each:064d}") for each in range(MODERATE // 128)]},
    lambda: {"labels": _entries()},
    lambda: {"annotations": _entries()},
)


def _bodies(selector: dict[str, str]) -> list[dict[str, Any]]:
    managers = {"sessionManager": {"image": "x"}, "executorManager": {"image": "x"}}
    pod = {"schedulerName": "none", "containers": [{"name": "main", "image": "x"}]}
    size = {"requests": {"storage": "1Gi"}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": "none"}
    policy = {"podSelector": {"matchLabels": selector}}
    return [
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "spec": {**managers, "paused": True, "configOverrides": {"x": "d" * MODERATE}},
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "d" * MODERATE}},
        {"apiVersion": "v1", "kind": "Service", "spec": {"selector": selector, "ports": [{"port": 1}]}},
        {"apiVersion": "v1", "kind": "Pod", "spec": pod},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": claim},
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": policy},
    ]
