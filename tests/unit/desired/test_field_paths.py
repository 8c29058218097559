"""The API server's paths of a Pod's fields, as paths of a FlameCluster's fields."""

import pytest

from tests.unit.builders import desired, merged, template_of

SIDECAR = {"name": "sidecar", "image": "example.com/sidecar:1"}
TEMPLATE = {
    "executorManager": {
        "podTemplate": {"spec": {"containers": [SIDECAR, {"name": "executor-manager", "volumeMounts": []}]}}
    }
}


@pytest.mark.parametrize(
    ("path", "authored"),
    [
        ("spec.nodeSelectr", "spec.executorManager.podTemplate.spec.nodeSelectr"),
        ("spec.containers[0].volumMounts", "spec.executorManager.podTemplate.spec.containers[1].volumMounts"),
        ("spec.containers[1].imge", "spec.executorManager.podTemplate.spec.containers[0].imge"),
        ("spec.containers[0].image", "spec.executorManager.image"),
        ("spec.containers[0].resources.limits[memory]", "spec.executorManager.resources.limits[memory]"),
        ("spec.resources.containers[0][memory].limits", "spec.executorManager.resources.limits[memory]"),
        ("spec.resources.containers[1][hugepages-2Mi].limits",
         "spec.executorManager.podTemplate.spec.containers[0].resources.limits[hugepages-2Mi]"),
        ("spec.containers[0].env[3].name", "spec.executorManager.env"),
        ("spec.containers[7].image", "spec.containers[7].image"),
        (
            "spec.initContainers[0].tty",
            "spec.executorManager.podTemplate.spec.initContainers[name=wait-for-session-manager].tty",
        ),
        ("spec.containers[0].volumeMounts[2].mountPath",
         "spec.executorManager.podTemplate.spec.containers[1].volumeMounts.mountPath"),
        ("spec.tolerations[0].effect", "spec.executorManager.podTemplate.spec.tolerations.effect"),
    ],
)  # fmt: skip
def test_a_path_of_a_pod_becomes_the_path_of_the_flame_cluster(path: str, authored: str) -> None:
    template = desired(TEMPLATE).group.template

    assert template.explain(f'unknown field "{path}"') == f'executor manager: unknown field "{authored}"'


def test_entries_of_a_list_keep_the_places_that_their_author_gave_them() -> None:
    mount = {"name": "nosuch", "mountPath": "/data"}
    main = {"name": "executor-manager", "volumeMounts": [mount], "ports": [{"containerPort": 99999}]}
    spec = {"containers": [main], "volumes": [{"name": "nosuch", "secret": {"secretName": "a"}}]}
    template = desired({"executorManager": {"podTemplate": {"spec": spec}}}).group.template
    pod = template.manifest["spec"]
    (container,) = pod["containers"]
    place = f"spec.containers[0].volumeMounts[{container['volumeMounts'].index(mount)}].name"
    assert place != "spec.containers[0].volumeMounts[0].name"
    prefix = "executor manager: spec.executorManager.podTemplate.spec"
    assert template.explain(place) == f"{prefix}.containers[0].volumeMounts[0].name"
    volume = next(at for at, each in enumerate(pod["volumes"]) if each["name"] == "nosuch")
    assert volume > 0
    assert template.explain(f"spec.volumes[{volume}].secret") == f"{prefix}.volumes[0].secret"
    # The operator's own entry is in no list of the author.
    assert template.explain("spec.volumes[0].configMap") == f"{prefix}.volumes.configMap"


def test_the_session_manager_has_paths_of_its_own() -> None:
    template = desired(merged({}, {})).session_manager

    assert template.explain('Pod "x" is invalid: spec.hostPID: bad') == (
        'session manager: Pod "x" is invalid: spec.sessionManager.podTemplate.spec.hostPID: bad'
    )


@pytest.mark.parametrize(
    "words", ["metadata.labels: Invalid value", "exceeded quota: q, used: pods=9", "spec: Required"]
)
def test_other_words_stay_as_they_are(words: str) -> None:
    assert desired().group.template.explain(words) == f"executor manager: {words}"


@pytest.mark.parametrize("component", ["sessionManager", "executorManager", "objectCache"])
def test_a_path_of_the_metadata_of_a_pod_names_where_its_author_wrote_it(component: str) -> None:
    part = {"image": "any", "podTemplate": {"metadata": {"annotations": {"a/b": "c"}, "labels": {"d": "e"}}}}
    template = template_of(desired({component: part}), component)
    place = f"spec.{component}.podTemplate.metadata"

    said = template.explain('[metadata.annotations[a/b]: Invalid value: "c", metadata.labels[f]: Invalid value: "g"]')
    assert said.partition(": ")[2] == (
        f'[{place}.annotations[a/b]: Invalid value: "c", spec.commonLabels[f]: Invalid value: "g"]'
    )
    assert template.explain("metadata.annotations[h]: Forbidden").endswith(": spec.commonAnnotations[h]: Forbidden")
    assert template.explain("metadata.annotations: Too long").endswith(": metadata.annotations: Too long")
    assert "object.metadata.labels[d]" in template.explain("failed expression: object.metadata.labels[d] == 'x'")
