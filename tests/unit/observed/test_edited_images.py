"""Images that somebody changed in a Pod, and those that a webhook put there when the Pod was created."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from flamectl_operator.api.constants import EXECUTOR_MANAGER, REVISION_ANNOTATION
from flamectl_operator.kube.http import wire
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed.edited_images import is_stale
from flamectl_operator.observed.executor import Executor
from flamectl_operator.reconcile.stores.transform import bounded_pod
from tests.unit.builders import desired

TEMPLATE = desired({"executorManager": {"image": "flame/executor:v1"}}).group.template
OPERATOR, KUBECTL = "flamectl-operator", "kubectl-set"


def _owner(manager: str, *containers: str, of: str = "f:image", kind: str = "f:containers") -> dict[str, Any]:
    fields: dict[str, Any] = {f'k:{{"name":"{name}"}}': {".": {}, "f:name": {}, of: {}} for name in containers}
    fields_v1 = {"f:metadata": {"f:labels": {}}, "f:spec": {kind: fields, "f:nodeName": {}}}
    return {"manager": manager, "operation": "Update", "time": "2025-06-01T12:00:00Z", "fieldsV1": fields_v1}


def _pod(
    *owners: dict[str, Any],
    generation: int = 2,
    node: str = "node-1",
    name: str = EXECUTOR_MANAGER,
    inits: Sequence[dict[str, Any]] = (),
    created: str = "2025-06-01T11:00:00Z",
) -> PodView:
    metadata = {
        "name": "my-flame-executor-manager-0",
        "generation": generation,
        "creationTimestamp": created,
        "annotations": {REVISION_ANNOTATION: TEMPLATE.revision},
        "managedFields": list(owners),
    }
    main = {"name": name, "image": "mirror.example/executor:v2"}
    spec = {"nodeName": node, "containers": [main], "initContainers": list(inits)}
    return bounded_pod(wire.decode(PodView, wire.encode({"metadata": metadata, "spec": spec})))


def _is_stale(pod: PodView) -> bool:
    return is_stale(Executor(pod, EXECUTOR_MANAGER), TEMPLATE)


@pytest.mark.parametrize("node", ["node-1", ""], ids=["placed", "pending"])
def test_image_that_somebody_else_owns_makes_a_pod_stale(node: str) -> None:
    owners = (_owner(OPERATOR, EXECUTOR_MANAGER, of="f:args"), _owner(KUBECTL, EXECUTOR_MANAGER))

    assert _is_stale(_pod(*owners, node=node))
    assert is_stale(Executor(_pod(node=node), EXECUTOR_MANAGER), replace(TEMPLATE, revision="another"))


@pytest.mark.parametrize("node", ["node-1", ""], ids=["placed", "pending"])
@pytest.mark.parametrize(
    "owners",
    [
        (_owner(OPERATOR, EXECUTOR_MANAGER), _owner("vpa-updater", EXECUTOR_MANAGER, of="f:resources")),
        (_owner(OPERATOR, EXECUTOR_MANAGER), _owner("kubectl", EXECUTOR_MANAGER)),
        (_owner("ancient-changes", EXECUTOR_MANAGER),),
        (_owner("before-first-apply", EXECUTOR_MANAGER), _owner("kubectl", EXECUTOR_MANAGER, of="f:args")),
        (_owner(KUBECTL, "injected"),),
        (),
    ],
    ids=[
        "webhook and resize",
        "same image applied",
        "many managers",
        "managers cleared",
        "another container",
        "nothing known",
    ],
)
def test_image_that_the_operator_owns_makes_no_pod_stale_whatever_a_webhook_put_there(
    owners: tuple[dict[str, Any], ...], node: str
) -> None:
    assert not _is_stale(_pod(*owners, node=node))


@pytest.mark.parametrize(("created", "stale"), [("2025-06-01T11:59:51Z", False), ("2025-06-01T11:59:50Z", True)])
def test_program_that_changes_each_new_pod_makes_none_stale(created: str, *, stale: bool) -> None:
    assert _is_stale(_pod(_owner("flattener", EXECUTOR_MANAGER), created=created)) is stale


def test_pod_that_was_not_changed_since_its_creation_is_not_stale() -> None:
    """As one that was restored from a backup, whose tool owns all fields."""
    assert not _is_stale(_pod(_owner("velero", EXECUTOR_MANAGER), generation=1))


@pytest.mark.parametrize(("policy", "stale"), [("Always", True), (None, False)], ids=["sidecar", "init container"])
def test_image_of_a_native_sidecar_counts_and_that_of_an_ended_init_container_does_not(
    policy: str | None, *, stale: bool
) -> None:
    container = {"name": "proxy", "image": "proxy:1"} | ({"restartPolicy": policy} if policy else {})
    pod_template = {"spec": {"initContainers": [container]}}
    template = desired({"executorManager": {"podTemplate": pod_template}}).group.template
    found = _pod(_owner(KUBECTL, "proxy", kind="f:initContainers"), inits=[container | {"image": "proxy:2"}])

    assert is_stale(Executor(found, EXECUTOR_MANAGER, known_revision=template.revision), template) is stale


def test_container_that_a_webhook_added_may_get_any_image() -> None:
    assert not _is_stale(_pod(_owner(KUBECTL, "injected"), name="injected"))


def test_stores_keep_no_owned_fields_of_pods() -> None:
    pod = _pod(_owner(KUBECTL, EXECUTOR_MANAGER))

    assert [(each.manager, each.fields) for each in pod.metadata.managed_fields] == [(KUBECTL, None)]
    assert bounded_pod(pod) == pod
