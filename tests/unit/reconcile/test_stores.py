"""The stores of a process."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from flamectl_operator.kube.cache.store import Store
from flamectl_operator.kube.views import (
    ConfigMapView,
    NetworkPolicyView,
    ObjectMeta,
    PersistentVolumeClaimView,
    PodView,
    ServiceView,
)
from flamectl_operator.reconcile.stores import Stores

CHILDREN: dict[str, Any] = {
    "pods": PodView,
    "services": ServiceView,
    "config_maps": ConfigMapView,
    "claims": PersistentVolumeClaimView,
    "network_policies": NetworkPolicyView,
}


def test_each_store_of_children_is_known_here() -> None:
    stores = Stores.empty()
    names = {each.name for each in fields(Stores) if isinstance(getattr(stores, each.name), Store)}

    assert names - {"flame_clusters"} == CHILDREN.keys()


@pytest.mark.parametrize("name", CHILDREN)
def test_changes_move_when_a_child_appears_changes_or_goes(name: str) -> None:
    stores = Stores.empty()
    store = getattr(stores, name)
    seen = [stores.changes]
    for version in ("5", "6"):
        labels = {"flame.xflops.io/cluster": "flame"}
        meta = ObjectMeta(name="a", namespace="ns", uid="u", resource_version=version, labels=labels)
        store.replace([CHILDREN[name](metadata=meta)], version)
        seen.append(stores.changes)
    store.replace([], "7")
    seen.append(stores.changes)

    assert len(set(seen)) == 4


def test_changes_stay_when_a_list_brings_nothing_new() -> None:
    stores = Stores.empty()
    meta = ObjectMeta(name="a", namespace="ns", uid="u", resource_version="5")
    stores.claims.replace([PersistentVolumeClaimView(metadata=meta)], "5")
    before = stores.changes

    stores.claims.replace([PersistentVolumeClaimView(metadata=meta)], "6")

    assert stores.changes == before
