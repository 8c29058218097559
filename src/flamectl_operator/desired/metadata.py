"""Labels and owner references: how children are found, and whose they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flamectl_operator.api.constants import (
    API_VERSION,
    APP_LABEL,
    CLUSTER_LABEL,
    COMPONENT_LABEL,
    INSTANCE_LABEL,
    KIND,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    NAME_LABEL,
)


@dataclass(frozen=True)
class Identity:
    """Who a FlameCluster is: all that its children's metadata depends on.

    Args:
        name: `metadata.name`.
        namespace: `metadata.namespace`.
        uid: `metadata.uid`: a FlameCluster made again under the same name is another owner.
    """

    name: str
    namespace: str
    uid: str

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name: what the workqueue and the indexes call it."""
        return (self.namespace, self.name)

    def owner_reference(self) -> dict[str, Any]:
        """The controller reference that each child carries, and that alone makes it a child."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def labels(self, component: str) -> dict[str, str]:
        """The labels of a child.

        Args:
            component: `session-manager`, `executor-manager`, `object-cache`, `config` or `lock`.
        """
        return {
            CLUSTER_LABEL: self.name,
            NAME_LABEL: "flame",
            INSTANCE_LABEL: self.name,
            COMPONENT_LABEL: component,
            MANAGED_BY_LABEL: MANAGED_BY,
        }

    def selector(self, component: str) -> dict[str, str]:
        """The labels by which Services, and the scale subresource, select a component's Pods."""
        return {APP_LABEL: f"flame-{component}", CLUSTER_LABEL: self.name}

    def metadata(self, name: str, component: str) -> dict[str, Any]:
        """Metadata of a child that is not a Pod."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels(component),
            "ownerReferences": [self.owner_reference()],
        }
