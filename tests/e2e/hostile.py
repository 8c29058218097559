"""Specs of a tenant who writes what costs most."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from flamectl_operator.api.constants import CLUSTER_LABEL

if TYPE_CHECKING:
    from tests.e2e.namespace import E2ENamespace

#: Bytes of a hostile spec, just below what the API server stores.
SIZE = 1_200_000


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
        world: The namespace.
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
