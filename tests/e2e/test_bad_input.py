"""The API server refuses invalid specs where it can; the operator reports the others."""

import re
from http import HTTPStatus

import pytest
import yaml

from tests.e2e.namespace import E2ENamespace, Object, condition, flame_cluster
from tests.unit.api.rejections import ACCEPTANCES, OPERATOR_REJECTIONS, REJECTIONS, Acceptance, Rejection
from tools.controlplane import Plane
from tools.controlplane.errors import KubectlError
from tools.installation import OperatorProcess

#: The query of `kubectl apply`, but for storing the result.
_DRY_RUN = "/apis/flame.xflops.io/v1alpha1/namespaces/default/flameclusters?dryRun=All&fieldValidation=Strict"

#: Fields that the operator's podPolicy refuses and the CRD accepts: a change of the spec, and the path of the field.
FORBIDDEN: dict[str, tuple[Object, str]] = {
    "a directory of the host": (
        {
            "executorManager": {
                "podTemplate": {"spec": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}},
            }
        },
        "spec.executorManager.podTemplate.spec.volumes[0].hostPath.path",
    ),
    "somebody's Secret": (
        {
            "sessionManager": {
                "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "theirs", "key": "k"}}}],
            }
        },
        "spec.sessionManager.env[0].valueFrom.secretKeyRef.name",
    ),
    "somebody's service account": (
        {"executorManager": {"podTemplate": {"spec": {"serviceAccountName": "theirs"}}}},
        "spec.executorManager.podTemplate.spec.serviceAccountName",
    ),
    "somebody's certificate": ({"tls": {"secretName": "database"}}, "spec.tls.secretName"),
}


def _plain(path: str) -> str:
    """A path without the brackets around keys of a map, which some messages have and some have not."""
    return re.sub(r"\[([A-Za-z][A-Za-z0-9./-]*)\]", r".\1", path)


@pytest.mark.parametrize("row", REJECTIONS, ids=str)
def test_api_server_rejects_an_invalid_spec_and_names_the_field(installed: Plane, row: Rejection) -> None:
    answer = installed._request("POST", _DRY_RUN, row.manifest)

    assert answer.status in {HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.BAD_REQUEST}, answer.body
    assert (row.server or row.message) in answer.body["message"]
    assert _plain(row.path) in _plain(answer.body["message"])


@pytest.mark.parametrize("row", [*ACCEPTANCES, *OPERATOR_REJECTIONS], ids=str)
def test_api_server_accepts_valid_specs(installed: Plane, row: Acceptance | Rejection) -> None:
    answer = installed._request("POST", _DRY_RUN, row.manifest)

    assert answer.status == HTTPStatus.CREATED, answer.body["message"]


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (flame_cluster("my.flame"), ["metadata.name", "my.flame"]),
        (flame_cluster("a" * 36), ["metadata.name: Too long", " 35"]),
        (flame_cluster(replicas=-1), ["spec.executorManager.replicas", "greater than or equal to 0"]),
        (flame_cluster(sessionManager={"image": None}), ["spec.sessionManager.image: Required value"]),
        (flame_cluster(sessionManager={"slot": "cpu=0.5,mem=1g"}), ["spec.sessionManager.slot", "cpu=1,mem=1g"]),
        (flame_cluster(executorManager={"replica": 3}), ['unknown field "spec.executorManager.replica"']),
    ],
    ids=["dot in the name", "long name", "negative replicas", "no image", "half a core", "unknown field"],
)
def test_kubectl_apply_names_the_wrong_field(installed: Plane, manifest: Object, words: list[str]) -> None:
    with pytest.raises(KubectlError) as refused:
        installed.kubectl("apply", "--dry-run=server", "-f", "-", input=yaml.safe_dump(manifest))

    for word in words:
        assert word in str(refused.value)


def _wait_failed(world: E2ENamespace, name: str, path: str) -> Object:
    """Wait until the status says that the present spec is invalid."""

    def failed() -> Object | None:
        found = world.get("flamecluster", name)
        assert found is not None
        status: Object = found.get("status", {})
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        return status if current and status["state"] == "Failed" else None

    status: Object = world.wait(f"{name} to be Failed", failed)
    assert path in status["message"]
    invalid = condition(status, "ConfigValid")
    assert invalid["status"] == "False"
    assert path in invalid["message"]
    assert condition(status, "Ready")["status"] == "False"
    return status


def test_cluster_with_a_spec_that_only_the_operator_rejects_is_failed(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    rows = [(change, path) for change, path in FORBIDDEN.values()]
    rows += [(row.manifest["spec"], row.path) for row in OPERATOR_REJECTIONS]
    paths = {}
    for number, (change, path) in enumerate(rows):
        manifest = flame_cluster(f"bad-{number}", **change)
        world.apply(manifest)
        paths[manifest["metadata"]["name"]] = path

    for name, path in paths.items():
        _wait_failed(world, name, path)
    assert world.all("pod") == []
    assert world.all("service") == []

    def warned() -> set[str]:
        return {event["involvedObject"]["name"] for event in world.events("InvalidSpec") if event["type"] == "Warning"}

    world.wait("events about all of them", lambda: len(warned()) == len(paths))
    assert warned() == paths.keys()


def test_refused_edit_changes_nothing_and_a_cluster_with_an_invalid_one_keeps_running_until_corrected(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    change, path = FORBIDDEN["a directory of the host"]
    world.apply(flame_cluster(replicas=2), flame_cluster("other", replicas=1))
    world.wait_running(executors=2)
    world.wait_running("other", executors=1)
    before = world.wait_at_rest()

    for refused in ({"executorManager": {"replicas": -1}}, {"sessionManager": {"slot": "cpu=1"}}):
        with pytest.raises(KubectlError):
            world.patch("flamecluster", "my-flame", {"spec": refused})
    with pytest.raises(KubectlError):
        world.kubectl("scale", "flamecluster/my-flame", "--replicas=-1")
    assert world.resource_versions() == before

    world.apply(flame_cluster(replicas=5, **change), flame_cluster("other", replicas=1))
    status = _wait_failed(world, "my-flame", path)
    assert status["executorManager"]["ready"] == 2, "what runs is still counted"
    world.kubectl("scale", "flamecluster/other", "--replicas=2")
    world.wait_running("other", executors=2)

    after = world.wait_at_rest()
    ours = {key for key in before if "my-flame" in key and key.startswith(("pod/", "service/", "configmap/"))}
    assert len(ours) == 6
    assert {key: after.get(key) for key in ours} == {key: before[key] for key in ours}

    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    assert condition(world.status(), "ConfigValid")["status"] == "True"
    healed = world.resource_versions()
    assert {key: healed.get(key) for key in ours} == {key: before[key] for key in ours}, "nothing was replaced for it"
