"""The CustomResourceDefinition of FlameCluster, generated from the models. `make generate` writes the file."""

import sys
from typing import Any

import yaml

from flamectl_operator.api.constants import (
    CATEGORIES,
    GROUP,
    KIND,
    LIST_KIND,
    NAME_MAX_LENGTH,
    NAME_PATTERN,
    PLURAL,
    SHORT_NAME,
    SINGULAR,
    VERSION,
)
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.api.schema import structural
from flamectl_operator.api.status import FlameClusterStatus

_HEADER = "# The CustomResourceDefinition of this version, as `flamectl-operator crd` prints it.\n"
_WIDTH = 120

#: The status of a FlameCluster that no operator has written: the API server shows it in place of none.
NOT_OBSERVED = {
    "state": "Pending",
    "reason": "NotObserved",
    "message": "No operator has looked at this FlameCluster yet. If this stays, none works or none serves the namespace: see"
    " the Pods and the log of flamectl-operator",
    "observedGeneration": 0,
}


def _column(name: str, kind: str, path: str, description: str, *, wide: bool = False) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return {**column, "priority": 1} if wide else column


def _columns() -> list[dict[str, Any]]:
    return [
        _column("State", "string", ".status.state", "State of the cluster."),
        _column("Reason", "string", ".status.reason", "Most important fact about the cluster in one word."),
        _column("Session", "integer", ".status.sessionManager.ready", "Ready session managers."),
        _column("Executors", "integer", ".status.executorManager.ready", "Ready executors."),
        _column("Desired", "integer", ".status.executorManager.replicas", "Wanted executors."),
        _column("Age", "date", ".metadata.creationTimestamp", "Time since the resource was created."),
        _column("Config", "integer", ".status.configGeneration", "Generation of flame-cluster.yaml.", wide=True),
        _column("Generation", "integer", ".metadata.generation", "Generation of the resource.", wide=True),
        _column(
            "Observed",
            "integer",
            ".status.observedGeneration",
            "Generation that the status is about; while it stays behind, no operator works.",
            wide=True,
        ),
        _column("Endpoint", "string", ".status.sessionManager.endpoint", "Address for clients.", wide=True),
        _column("Message", "string", ".status.message", "Most important fact about the cluster.", wide=True),
    ]


def _schema() -> dict[str, Any]:
    spec = structural(FlameClusterSpec)
    status = {**structural(FlameClusterStatus, defaults=False), "default": NOT_OBSERVED}
    return {
        "description": "A Flame cluster: one session manager, its executor managers and their object cache.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": f"Version of the schema: {GROUP}/{VERSION}.", "type": "string"},
            "kind": {"description": f"Kind of the resource: {KIND}.", "type": "string"},
            "metadata": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": NAME_MAX_LENGTH, "pattern": NAME_PATTERN}},
            },
            "spec": spec,
            "status": status,
        },
    }


def custom_resource_definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition as plain data."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": LIST_KIND,
                "plural": PLURAL,
                "singular": SINGULAR,
                "shortNames": [SHORT_NAME],
                "categories": list(CATEGORIES),
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _schema()},
                    "additionalPrinterColumns": _columns(),
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.executorManager.replicas",
                            "statusReplicasPath": ".status.executorManager.current",
                            "labelSelectorPath": ".status.executorManager.selector",
                        },
                    },
                }
            ],
        },
    }


class _Dumper(yaml.SafeDumper):
    """Writes shared parts in full, because anchors would be confusing in a manifest."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def render() -> str:
    """Return the CustomResourceDefinition as YAML."""
    return _HEADER + yaml.dump(custom_resource_definition(), Dumper=_Dumper, sort_keys=False, width=_WIDTH)


if __name__ == "__main__":
    sys.stdout.write(render())
