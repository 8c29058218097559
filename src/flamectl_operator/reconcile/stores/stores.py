"""The stores that the operator keeps equal to the API server, one per resource, and the answers of session managers.

`keys_of` finds the FlameClusters that a change of an object affects.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flamectl_operator.api.constants import API_VERSION, CLAIM_ANNOTATION, CLUSTER_LABEL, KIND, PLURAL
from flamectl_operator.flame.watcher import Flame
from flamectl_operator.kube.cache.changes import Change, ChangeCount
from flamectl_operator.kube.cache.contradictions import Doubts
from flamectl_operator.kube.cache.index import Key
from flamectl_operator.kube.cache.store import Store
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import CLAIMS, CONFIG_MAPS, NETWORK_POLICIES, PODS, SERVICES, Resource
from flamectl_operator.kube.views import KubernetesObject, PersistentVolumeClaimView
from flamectl_operator.observed.flame_cluster import FlameClusterView, WholeFlameClusterView
from flamectl_operator.planning import children
from flamectl_operator.reconcile.stores.claim_reservations import ClaimReservations
from flamectl_operator.reconcile.stores.transform import (
    bounded,
    bounded_config_map,
    bounded_network_policy,
    bounded_pod,
    bounded_service,
)
from flamectl_operator.runtime.lazy import cached_property
from flamectl_operator.runtime.slow_start import Acceptances

T = TypeVar("T", bound=KubernetesObject)

FLAME_CLUSTERS: Resource[FlameClusterView] = Resource(API_VERSION, KIND, PLURAL, FlameClusterView)
#: The same with their large specs, which no store holds.
WHOLE_FLAME_CLUSTERS: Resource[WholeFlameClusterView] = Resource(API_VERSION, KIND, PLURAL, WholeFlameClusterView)
#: The resources of children that are watched.
CHILD_RESOURCES: tuple[Resource[Any], ...] = (
    PODS,
    CLAIMS,
    *dict.fromkeys(child.resource for child in children.CHILDREN),
)
#: Children that are found by their FlameCluster, because they may have any name.
_INDEXED = frozenset({PODS, CLAIMS})
#: The functions that reduce children whose content users can make large; `bounded` reduces all others.
_BOUNDED: dict[Resource[Any], Callable[[Any], Any]] = {
    CONFIG_MAPS: bounded_config_map,
    NETWORK_POLICIES: bounded_network_policy,
    PODS: bounded_pod,
    SERVICES: bounded_service,
}


def kept(resource: Resource[T], obj: T) -> T:
    """Return what a store keeps of an object, so that an answer equals what the watch brought of the same state."""
    transform: Callable[[T], T] = _BOUNDED.get(resource, bounded)
    return transform(obj)


@dataclass(frozen=True)
class Stores:
    """The stores, which watches and the responses to the operator's own writes keep current."""

    flame_clusters: Store[FlameClusterView]
    children: Mapping[str, Store[Any]]
    #: The changes of all stores with child objects: while their number is the same, all children are.
    changes: ChangeCount
    flame: Flame
    claim_reservations: ClaimReservations = field(default_factory=ClaimReservations)
    doubts: Doubts = field(default_factory=Doubts)
    #: Namespaces in which executors were created lately, and for which FlameCluster.
    executors_accepted: Acceptances = field(default_factory=Acceptances)

    @classmethod
    def empty(cls, flame: Flame | None = None) -> "Stores":
        """Return empty stores. Pods and claims are indexed by the FlameCluster in their label, and Pods by their claim."""
        changes = ChangeCount()
        return cls(
            flame_clusters=Store(transform=bounded),
            children={
                each.kind: Store(
                    _cluster_of if each in _INDEXED else lambda _child: None,  # found by its name
                    selects=lambda child: CLUSTER_LABEL in child.labels,  # as the watches do
                    transform=_BOUNDED.get(each, bounded),
                    changes=changes,
                    uses=_claim_of if each is PODS else None,
                )
                for each in CHILD_RESOURCES
            },
            changes=changes,
            flame=flame or Flame(),
        )

    def of(self, resource: Resource[T]) -> Store[T]:
        """Return the store of a resource; raise KeyError if no store holds it."""
        return self.flame_clusters if resource is FLAME_CLUSTERS else self.children[resource.kind]  # type: ignore[return-value]

    @cached_property
    def pods(self) -> Store[PodView]:
        """The store of Pods."""
        return self.of(PODS)

    @cached_property
    def claims(self) -> Store[PersistentVolumeClaimView]:
        """The store of PersistentVolumeClaims."""
        return self.of(CLAIMS)


def _cluster_of(child: KubernetesObject) -> Key | None:
    """Return the key of the FlameCluster whose label an object carries."""
    name = child.labels.get(CLUSTER_LABEL)
    return None if name is None else (child.namespace, name)


def _claim_of(child: KubernetesObject) -> Key | None:
    """Return the namespace and the uid of the claim that a Pod mounts for the data of its component."""
    uid = child.annotations.get(CLAIM_ANNOTATION)
    return None if uid is None else (child.namespace, uid)


def keys_of(change: Change[Any], keys: Callable[[KubernetesObject], list[Key]]) -> list[Key]:
    """Return the keys that a change affects, in order."""
    return sorted({key for each in (change.old, change.new) if each is not None for key in keys(each)})


def own_key(cluster: KubernetesObject) -> list[Key]:
    """Return the key of a FlameCluster."""
    return [(cluster.namespace, cluster.name)]


def keys_of_child(child: KubernetesObject) -> list[Key]:
    """Return the keys of the FlameClusters that a child affects: its owner, and the one in its label, whose name it may take."""
    owner, label = child.controller, child.labels.get(CLUSTER_LABEL)
    names = (owner.name if owner is not None and owner.kind == KIND else None, label)
    return [(child.namespace, name) for name in names if name is not None]
