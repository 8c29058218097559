"""The keys of the FlameClusters that a change of an object affects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flamectl_operator.api.constants import CLUSTER_LABEL, KIND
from flamectl_operator.kube.cache.changes import Change
from flamectl_operator.kube.cache.index import Key
from flamectl_operator.kube.views import KubernetesObject


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
