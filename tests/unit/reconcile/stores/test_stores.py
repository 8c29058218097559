"""The stores of a process."""

from typing import Any

import pytest

from flamectl_operator.kube.resources import CLAIMS, PODS, Resource
from flamectl_operator.kube.views import ObjectMeta, PersistentVolumeClaimView
from flamectl_operator.planning import children
from flamectl_operator.reconcile.stores.stores import CHILD_RESOURCES, Stores


def test_there_is_a_store_of_each_resource_of_children() -> None:
    assert set(CHILD_RESOURCES) == {PODS, CLAIMS, *(each.resource for each in children.CHILDREN)}
    assert Stores.empty().children.keys() == {each.kind for each in CHILD_RESOURCES}


@pytest.mark.parametrize("resource", CHILD_RESOURCES, ids=[each.plural for each in CHILD_RESOURCES])
def test_changes_move_when_a_child_appears_changes_or_goes(resource: Resource[Any]) -> None:
    stores = Stores.empty()
    store = stores.of(resource)
    seen = [stores.changes.total]
    for version in ("5", "6"):
        labels = {"flame.xflops.io/cluster": "flame"}
        meta = ObjectMeta(name="a", namespace="ns", uid="u", resource_version=version, labels=labels)
        store.replace([resource.view(metadata=meta)], version)
        seen.append(stores.changes.total)
    store.replace([], "7")
    seen.append(stores.changes.total)

    assert len(set(seen)) == 4


def test_changes_stay_when_a_list_brings_nothing_new() -> None:
    stores = Stores.empty()
    meta = ObjectMeta(name="a", namespace="ns", uid="u", resource_version="5")
    stores.claims.replace([PersistentVolumeClaimView(metadata=meta)], "5")
    before = stores.changes.total

    stores.claims.replace([PersistentVolumeClaimView(metadata=meta)], "6")

    assert stores.changes.total == before
