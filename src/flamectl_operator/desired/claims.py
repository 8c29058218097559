"""The PersistentVolumeClaims that a FlameCluster asks for."""

from dataclasses import dataclass
from typing import Any

from flamectl_operator.api.constants import OBJECT_CACHE, SESSION_MANAGER
from flamectl_operator.api.fields.persistence import Persistence
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.desired import names
from flamectl_operator.desired.metadata import Identity

_ACCESS_MODES = ("ReadWriteOnce",)


@dataclass(frozen=True)
class DesiredClaim:
    """A claim that should exist, and the field of the spec that asks for it, which has a size."""

    owner: Identity
    name: str
    component: str
    persistence: Persistence

    @property
    def retained(self) -> bool:
        """Whether the claim stays when it is no longer needed."""
        return self.persistence.deletion_policy == "Retain"

    @property
    def size(self) -> int | str:
        """The size that the claim should have."""
        return self.persistence.size if self.persistence.size is not None else 0

    @property
    def access_modes(self) -> tuple[str, ...]:
        """The access modes that the claim should have."""
        return self.persistence.access_modes or _ACCESS_MODES

    def manifest(self) -> dict[str, Any]:
        """Return the claim's manifest. A claim that is retained has no owner, so that the garbage collector leaves it."""
        metadata = self.owner.metadata(self.name, self.component)
        if self.retained:
            del metadata["ownerReferences"]
            metadata["labels"] = self.owner.retained_labels(self.component)
        spec: dict[str, Any] = {
            "accessModes": list(self.access_modes),
            "resources": {"requests": {"storage": self.size}},
        }
        if self.persistence.storage_class_name is not None:
            spec["storageClassName"] = self.persistence.storage_class_name
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def session_manager_claim(owner: Identity, spec: FlameClusterSpec) -> DesiredClaim | None:
    """Return the session manager's claim; None when it has none, or an existing one."""
    return _claim(owner, names.session_manager(owner.name), SESSION_MANAGER, spec.session_manager.persistence)


def object_cache_claim(owner: Identity, spec: FlameClusterSpec, ordinal: int) -> DesiredClaim | None:
    """Return the claim of an object cache; None when it has none, or an existing one."""
    name = names.object_cache_replica(owner.name, ordinal)
    return _claim(owner, name, OBJECT_CACHE, spec.object_cache.persistence)


def _claim(owner: Identity, name: str, component: str, persistence: Persistence | None) -> DesiredClaim | None:
    if persistence is None or persistence.existing_claim is not None:
        return None
    return DesiredClaim(owner, name, component, persistence)
