"""Labels and owner references of children."""

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
    """The identity of a FlameCluster, as its children name it. A recreated FlameCluster of the same name has another uid."""

    name: str
    namespace: str
    uid: str

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name, the key in the workqueue and the indexes."""
        return (self.namespace, self.name)

    def owner_reference(self) -> dict[str, Any]:
        """Return the controller reference that each child has; only this reference makes it a child."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def labels(self, component: str) -> dict[str, str]:
        """Return the labels of a component's child; an object of no component has a word of its own, such as `lock`."""
        return {
            CLUSTER_LABEL: self.name,
            NAME_LABEL: "flame",
            INSTANCE_LABEL: self.name,
            COMPONENT_LABEL: component,
            MANAGED_BY_LABEL: MANAGED_BY,
        }

    def retained_labels(self, component: str) -> dict[str, str]:
        """Return the labels of an object without an owner, which outlives the FlameCluster.

        Argo CD takes an object with `app.kubernetes.io/instance` and no owner for one of the application of that name, and would
        prune it, because no repository has it.
        """
        return {key: value for key, value in self.labels(component).items() if key != INSTANCE_LABEL}

    def selector(self, component: str) -> dict[str, str]:
        """Return the labels with which Services and the scale subresource select a component's Pods."""
        return {APP_LABEL: f"flame-{component}", CLUSTER_LABEL: self.name}

    def metadata(self, name: str, component: str) -> dict[str, Any]:
        """Return the metadata of a child that is not a Pod."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels(component),
            "ownerReferences": [self.owner_reference()],
        }
