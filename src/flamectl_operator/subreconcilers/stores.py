"""What is known of the Kubernetes cluster, by kind of object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flamectl_operator.api.constants import API_VERSION, CLUSTER_LABEL, KIND, PLURAL
from flamectl_operator.kube.resources import Resource
from flamectl_operator.kube.store import Store
from flamectl_operator.kube.views import FlameClusterView

if TYPE_CHECKING:
    from flamectl_operator.kube.index import Key
    from flamectl_operator.kube.views import ConfigMapView, KubernetesObject, PodView, ServiceView

FLAME_CLUSTERS: Resource[FlameClusterView] = Resource(API_VERSION, KIND, PLURAL, FlameClusterView)


@dataclass(frozen=True)
class Stores:
    """What is known of the Kubernetes cluster, kept current by watches and by our own writes."""

    flame_clusters: Store[FlameClusterView]
    pods: Store[PodView]
    services: Store[ServiceView]
    config_maps: Store[ConfigMapView]

    @classmethod
    def empty(cls) -> Stores:
        """Stores of which nothing is known yet. Pods are indexed by the FlameCluster that their label names."""
        return cls(
            flame_clusters=Store(),
            pods=Store(_cluster_of, selects=_is_labelled),
            services=Store(selects=_is_labelled),
            config_maps=Store(selects=_is_labelled),
        )


def _cluster_of(pod: PodView) -> Key | None:
    """By which FlameCluster's label a Pod is found."""
    name = pod.labels.get(CLUSTER_LABEL)
    return None if name is None else (pod.namespace, name)


def _is_labelled(child: KubernetesObject) -> bool:
    """Whether the watches, which ask for our label, show it."""
    return CLUSTER_LABEL in child.labels
