"""The Nodes that kwok plays."""

from __future__ import annotations

from typing import Any

# Large enough for thousands of Pods of any size that a test asks for.
_RESOURCES = {"cpu": "1000", "memory": "4Ti", "ephemeral-storage": "100Ti", "pods": "10000"}


def node(number: int) -> dict[str, Any]:
    """Return a Node object."""
    name = f"node-{number}"
    # Apart from the addresses of Services (10.0.0.0/12) and of Pods (10.64.0.0/10).
    address = f"10.128.{number // 250}.{number % 250 + 1}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            # Says to people and to kwok alike that there is no machine behind it.
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "kwok",
            },
        },
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "allocatable": _RESOURCES,
            "capacity": _RESOURCES,
        },
    }


def is_schedulable(node_object: dict[str, Any]) -> bool:
    """Whether Pods can be scheduled to a Node: it is ready, and the taint that says otherwise is gone."""
    conditions = node_object["status"].get("conditions", [])
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not node_object["spec"].get("taints")
