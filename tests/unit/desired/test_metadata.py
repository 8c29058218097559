"""Labels and owner references of children."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.builders import OWNER, desired, effective, session_template

if TYPE_CHECKING:
    from flamectl_operator.desired.cluster import DesiredCluster

HLD_REFERENCE = {
    "apiVersion": "flame.xflops.io/v1alpha1",
    "kind": "FlameCluster",
    "name": "my-flame",
    "uid": "owner-uid",
    "controller": True,
    "blockOwnerDeletion": True,
}


def _children(wanted: DesiredCluster) -> list[dict[str, Any]]:
    pods = [wanted.session_manager.pod("a"), wanted.executor.pod("b", {"x": "y"})]
    return [effective().config_map, *wanted.services, *pods]


def test_every_child_is_owned_as_the_documentation_says() -> None:
    for child in _children(desired()):
        assert child["metadata"]["ownerReferences"] == [HLD_REFERENCE]
        assert child["metadata"]["namespace"] == "default"


@pytest.mark.parametrize(
    ("index", "component"),
    [(0, "config"), (1, "session-manager"), (2, "object-cache"), (3, "session-manager"), (4, "executor-manager")],
    ids=["ConfigMap", "session manager Service", "object cache Service", "session manager Pod", "executor Pod"],
)
def test_every_child_carries_the_recommended_labels(index: int, component: str) -> None:
    labels = _children(desired())[index]["metadata"]["labels"]

    assert (
        labels.items()
        >= {
            "flame.xflops.io/cluster": "my-flame",
            "app.kubernetes.io/name": "flame",
            "app.kubernetes.io/instance": "my-flame",
            "app.kubernetes.io/component": component,
            "app.kubernetes.io/managed-by": "flamectl-operator",
        }.items()
    )


def test_pods_carry_the_label_app() -> None:
    wanted = desired()

    assert wanted.session_manager.pod("a")["metadata"]["labels"]["app"] == "flame-session-manager"
    assert wanted.executor.pod("b")["metadata"]["labels"]["app"] == "flame-executor-manager"


def test_pods_have_both_hashes_and_their_own_annotations() -> None:
    wanted = desired()
    pod = wanted.executor.pod("b", {"flame.xflops.io/session-manager": "life"})

    assert pod["metadata"]["annotations"] == {
        "flame.xflops.io/revision": wanted.executor.revision,
        "flame.xflops.io/rendered": wanted.executor.rendered,
        "flame.xflops.io/session-manager": "life",
    }


def test_pod_of_a_template_does_not_change_the_template() -> None:
    wanted = desired()

    wanted.executor.pod("b", {"once": "only"})

    assert "once" not in wanted.executor.pod("c")["metadata"]["annotations"]
    assert "name" not in wanted.executor.manifest["metadata"]


def test_labels_and_annotations_of_the_pod_template_are_added() -> None:
    labels = {"team": "ml", "app.kubernetes.io/part-of": "search"}
    wanted = desired(session_template({}, labels=labels, annotations={"note": "hello"}))
    metadata = wanted.session_manager.pod("a")["metadata"]

    assert metadata["labels"].items() > labels.items()
    assert metadata["annotations"]["note"] == "hello"
    assert metadata["labels"]["app"] == "flame-session-manager"


def test_an_owner_is_known_by_namespace_and_name() -> None:
    assert OWNER.key == ("default", "my-flame")
