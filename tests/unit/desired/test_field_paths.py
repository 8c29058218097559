"""The API server's paths of a Pod's fields, as paths of a FlameCluster's fields."""

from __future__ import annotations

import pytest

from tests.unit.builders import desired, merged

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
        ("spec.containers[0].env[3].name", "spec.executorManager.env"),
        ("spec.containers[7].image", "spec.executorManager.podTemplate.spec.containers[7].image"),
        (
            "spec.initContainers[0].tty",
            "spec.executorManager.podTemplate.spec.initContainers[name=wait-for-session-manager].tty",
        ),
        ("spec.tolerations[0].effect", "spec.executorManager.podTemplate.spec.tolerations[0].effect"),
    ],
)
def test_a_path_of_a_pod_becomes_the_path_of_the_flame_cluster(path: str, authored: str) -> None:
    template = desired(TEMPLATE).executor

    assert template.explain(f'unknown field "{path}"') == f'executor manager: unknown field "{authored}"'


def test_the_session_manager_has_paths_of_its_own() -> None:
    template = desired(merged({}, {})).session_manager

    assert template.explain('Pod "x" is invalid: spec.hostPID: bad') == (
        'session manager: Pod "x" is invalid: spec.sessionManager.podTemplate.spec.hostPID: bad'
    )


@pytest.mark.parametrize(
    "words", ["metadata.labels: Invalid value", "exceeded quota: q, used: pods=9", "spec: Required"]
)
def test_other_words_stay_as_they_are(words: str) -> None:
    assert desired().executor.explain(words) == f"executor manager: {words}"
