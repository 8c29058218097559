"""The keys of the FlameClusters that a change of an object affects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flamectl_operator.api.constants import CLUSTER_LABEL, KIND
from flamectl_operator.kube.cache.changes import Change
from flamectl_operator.kube.cache.index import Key
from flamectl_operator.kube.views import KubernetesObject


def keys_of(change: Change[Any], keys: Callable[[KubernetesObject], Iterator[Key]]) -> list[Key]:
    """Return the keys that a change affects, in order."""
    return sorted({key for each in (change.old, change.new) if each is not None for key in keys(each)})


def own_key(cluster: KubernetesObject) -> Iterator[Key]:
    """Yield the key of a FlameCluster."""
    yield (cluster.namespace, cluster.name)


def keys_of_child(child: KubernetesObject) -> Iterator[Key]:
    """Return the keys of the FlameClusters that a child affects: its owner, and the one in its label, whose name it may take."""
    owner = child.controller
    if owner is not None and owner.kind == KIND:
        yield (child.namespace, owner.name)
    if (label := child.labels.get(CLUSTER_LABEL)) is not None:
        yield (child.namespace, label)
