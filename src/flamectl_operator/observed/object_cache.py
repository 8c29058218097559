"""The object cache's Pods, by their ordinals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flamectl_operator.desired import names
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed.component import Component


@dataclass(frozen=True)
class ObjectCache(Component):
    """An object cache's Pod, and the number in its name, under which it finds its data again."""

    ordinal: int = -1


@dataclass(frozen=True)
class ObjectCaches:
    """The Pods that have names of object caches, ours and foreign ones, by ordinal."""

    ours: dict[int, ObjectCache]
    foreign: dict[int, PodView]

    def first(self, replicas: int) -> tuple[ObjectCache, ...]:
        """Return those of ours that are wanted, by ordinal."""
        return tuple(cache for ordinal, cache in self.ours.items() if ordinal < replicas)

    @classmethod
    def of(cls, owner: Identity, pods: Iterable[PodView]) -> ObjectCaches:
        """Return the object caches among Pods with the FlameCluster's label."""
        prefix = f"{names.object_cache(owner.name)}-"
        ours: dict[int, ObjectCache] = {}
        foreign: dict[int, PodView] = {}
        for pod in pods:
            if not pod.name.startswith(prefix) or (ordinal := names.object_cache_ordinal(owner.name, pod.name)) is None:
                continue
            if pod.controlled_by(owner.uid):
                ours[ordinal] = ObjectCache(pod, ordinal=ordinal)
            else:
                foreign[ordinal] = pod
        return cls(dict(sorted(ours.items())), foreign)
