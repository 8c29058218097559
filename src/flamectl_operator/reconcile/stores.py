"""The stores that the operator keeps equal to the API server, one per resource, and what session managers said."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from flamectl_operator.api.constants import API_VERSION, CLUSTER_LABEL, KIND, PLURAL
from flamectl_operator.flame.watcher import NotAsked
from flamectl_operator.kube.cache.contradictions import Doubts
from flamectl_operator.kube.cache.store import Store
from flamectl_operator.kube.resources import CLAIMS, CONFIG_MAPS, NETWORK_POLICIES, PODS, SERVICES, Resource
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.observed.flame_cluster import FlameClusterView, WholeFlameClusterView
from flamectl_operator.reconcile.claim_reservations import ClaimReservations
from flamectl_operator.reconcile.transform import (
    keep,
    keep_config_map,
    keep_network_policy,
    keep_pod,
    keep_service,
)

if TYPE_CHECKING:
    from flamectl_operator.flame.watcher import Flame
    from flamectl_operator.kube.cache.index import Key
    from flamectl_operator.kube.views import (
        ConfigMapView,
        NetworkPolicyView,
        PersistentVolumeClaimView,
        PodView,
        ServiceView,
    )

T = TypeVar("T", bound=KubernetesObject)

FLAME_CLUSTERS: Resource[FlameClusterView] = Resource(API_VERSION, KIND, PLURAL, FlameClusterView)
#: The same with their large specs, which no store holds.
WHOLE_FLAME_CLUSTERS: Resource[WholeFlameClusterView] = Resource(API_VERSION, KIND, PLURAL, WholeFlameClusterView)
#: The resources of children that are watched.
CHILDREN: tuple[Resource[Any], ...] = (PODS, SERVICES, CONFIG_MAPS, CLAIMS, NETWORK_POLICIES)


@dataclass(frozen=True)
class Stores:
    """The stores, which watches and the responses to the operator's own writes keep current."""

    flame_clusters: Store[FlameClusterView]
    pods: Store[PodView]
    services: Store[ServiceView]
    config_maps: Store[ConfigMapView]
    claims: Store[PersistentVolumeClaimView]
    network_policies: Store[NetworkPolicyView]
    flame: Flame
    claim_reservations: ClaimReservations = field(default_factory=ClaimReservations)
    doubts: Doubts = field(default_factory=Doubts)

    @classmethod
    def empty(cls, flame: Flame | None = None) -> Stores:
        """Return empty stores. Pods and claims are indexed by the FlameCluster in their label.

        Args:
            flame: The knowledge about the session managers; None when they are not polled.
        """
        return cls(
            flame_clusters=Store(transform=keep),
            pods=Store(_cluster_of, selects=_is_labelled, transform=keep_pod),
            services=Store(selects=_is_labelled, transform=keep_service),
            config_maps=Store(selects=_is_labelled, transform=keep_config_map),
            claims=Store(_cluster_of, selects=_is_labelled, transform=keep),
            network_policies=Store(selects=_is_labelled, transform=keep_network_policy),
            flame=flame or NotAsked(),
        )

    @property
    def changes(self) -> tuple[int, ...]:
        """The number of changes of each store with child objects. While these stay the same, so does every child."""
        return tuple([store.changes for store in self._of_children])

    def of(self, resource: Resource[T]) -> Store[T]:
        """Return the store of a resource.

        Raises:
            KeyError: No store holds this resource.
        """
        return self._by_kind[resource.kind]

    @cached_property
    def _of_children(self) -> tuple[Store[Any], ...]:
        return tuple(self.of(resource) for resource in CHILDREN)

    @cached_property
    def _by_kind(self) -> dict[str, Store[Any]]:
        return {
            FLAME_CLUSTERS.kind: self.flame_clusters,
            PODS.kind: self.pods,
            SERVICES.kind: self.services,
            CONFIG_MAPS.kind: self.config_maps,
            CLAIMS.kind: self.claims,
            NETWORK_POLICIES.kind: self.network_policies,
        }


def _cluster_of(child: KubernetesObject) -> Key | None:
    """Return the key of the FlameCluster whose label an object carries."""
    name = child.labels.get(CLUSTER_LABEL)
    return None if name is None else (child.namespace, name)


def _is_labelled(child: KubernetesObject) -> bool:
    """Return whether the watches, which select the operator's label, show an object."""
    return CLUSTER_LABEL in child.labels
