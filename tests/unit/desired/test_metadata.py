"""Labels and owner references of children."""

from tests.unit.builders import OWNER, desired, session_template


def test_pods_have_both_hashes_and_their_own_annotations() -> None:
    wanted = desired()
    pod = wanted.group.template.pod("b", {"flame.xflops.io/session-manager": "incarnation"})

    assert pod["metadata"]["annotations"] == {
        "flame.xflops.io/revision": wanted.group.template.revision,
        "flame.xflops.io/rendered": wanted.group.template.rendered,
        "flame.xflops.io/session-manager": "incarnation",
    }


def test_pod_of_a_template_does_not_change_the_template() -> None:
    wanted = desired()

    wanted.group.template.pod("b", {"once": "only"})

    assert "once" not in wanted.group.template.pod("c")["metadata"]["annotations"]
    assert "name" not in wanted.group.template.manifest["metadata"]


def test_labels_and_annotations_of_the_pod_template_are_added() -> None:
    labels = {"team": "ml", "app.kubernetes.io/part-of": "search"}
    wanted = desired(session_template({}, labels=labels, annotations={"note": "hello"}))
    metadata = wanted.session_manager.pod("a")["metadata"]

    assert metadata["labels"].items() > labels.items()
    assert metadata["annotations"]["note"] == "hello"
    assert metadata["labels"]["app"] == "flame-session-manager"


def test_an_owner_is_known_by_namespace_and_name() -> None:
    assert OWNER.key == ("default", "my-flame")
