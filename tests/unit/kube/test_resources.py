from __future__ import annotations

import pytest

from flamectl_operator.kube.resources import PODS, Resource
from flamectl_operator.observed.flame_cluster import FlameClusterView

FLAME_CLUSTERS = Resource("flame.xflops.io/v1alpha1", "FlameCluster", "flameclusters", FlameClusterView)


def test_paths_of_the_core_api() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("ns") == "/api/v1/namespaces/ns/pods"
    assert PODS.path("ns", "a") == "/api/v1/namespaces/ns/pods/a"


def test_paths_of_a_group() -> None:
    path = "/apis/flame.xflops.io/v1alpha1/namespaces/ns/flameclusters/a/status"
    assert FLAME_CLUSTERS.path("ns", "a", "status") == path


def test_names_cannot_leave_their_place_in_the_path() -> None:
    assert PODS.path("a/b", "../c") == "/api/v1/namespaces/a%2Fb/pods/..%2Fc"


@pytest.mark.parametrize("parts", [(None, "a", None), ("ns", None, "status"), ("ns", "", None), ("", None, None)])
def test_path_to_another_object_is_refused(parts: tuple[str | None, str | None, str | None]) -> None:
    with pytest.raises(ValueError, match="name"):
        PODS.path(*parts)
