"""Refusals of the API server are reported once in its own words, retried slowly, and resolved when the request is allowed."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.namespace import E2ENamespace, Object, condition, flame_cluster, operator_with, uids
from tools.installation import ROLE, SERVICE_ACCOUNT, OperatorProcess

NOT_ROOT = {"podTemplate": {"spec": {"securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000}}}}


def degraded(world: E2ENamespace, reason: str, *words: str) -> Object | None:
    """The status once it is degraded for this reason, in these words."""
    status = world.status()
    found = condition(status, "Degraded")
    as_expected = found.get("status") == "True" and found["reason"] == reason
    return status if as_expected and all(word in found["message"] for word in words) else None


def allow_everything_but(world: E2ENamespace, resource: str, verb: str) -> None:
    """Take one permission from the operator of this namespace."""
    role: Object = yaml.safe_load(world.plane.kubectl("get", "clusterrole", ROLE, "-o", "yaml").stdout)
    rules: list[dict[str, Any]] = []
    for rule in role["rules"]:
        others = [each for each in rule["resources"] if each != resource]
        rules += [rule | {"resources": others}] if others else []
        if len(others) < len(rule["resources"]):
            rules.append(rule | {"resources": [resource], "verbs": [each for each in rule["verbs"] if each != verb]})
    api = "rbac.authorization.k8s.io"
    world.apply(
        {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": {"name": "less"}, "rules": rules},
        {
            "apiVersion": f"{api}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "less"},
            "roleRef": {"apiGroup": api, "kind": "Role", "name": "less"},
            "subjects": [{"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": world.namespace}],
        },
    )
    world.kubectl("delete", "rolebinding", SERVICE_ACCOUNT)
    world.wait_forbidden(verb, resource)


def allow_again(world: E2ENamespace) -> None:
    account = f"--serviceaccount={world.namespace}:{SERVICE_ACCOUNT}"
    world.kubectl("create", "rolebinding", SERVICE_ACCOUNT, f"--clusterrole={ROLE}", account)


@contextmanager
def webhook_that_does_not_answer(world: E2ENamespace) -> Iterator[None]:
    """Register a webhook for Pods of this namespace that never answers."""
    kind = "ValidatingWebhookConfiguration"
    webhook = {
        "name": "absent.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
    }
    api = "admissionregistration.k8s.io/v1"
    manifest = {"apiVersion": api, "kind": kind, "metadata": {"name": world.namespace}, "webhooks": [webhook]}
    world.plane.kubectl("create", "-f", "-", input=yaml.safe_dump(manifest))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"}}
    pod["spec"] = {"containers": [{"name": "main", "image": "any"}]}
    create = ("--namespace", world.namespace, "create", "--dry-run=server", "-f", "-")

    def asked() -> bool:
        return "failed calling webhook" in world.plane.kubectl(*create, input=yaml.safe_dump(pod), check=False).stderr

    try:
        world.wait("the webhook to be asked", asked)
        yield
    finally:
        world.plane.kubectl("delete", kind, world.namespace)


@pytest.mark.long
def test_unresponsive_webhook_is_reported_after_a_while_until_removed(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    with webhook_that_does_not_answer(world):
        world.apply(flame_cluster(replicas=2))
        words = ("failed calling webhook", "absent.example.com", "connection refused")
        world.wait("the status to say so", partial(degraded, world, "RequestsFailing", *words))
        assert "failed calling webhook" in world.status()["message"]
        assert world.get("configmap", "my-flame-config") is not None, "what works is done"

    world.wait_running(executors=2, timeout=240)
    assert condition(world.status(), "Degraded")["status"] == "False"
    assert sum(event["count"] for event in world.events("RequestsFailing")) <= 3


def test_pod_that_may_not_be_deleted_does_not_block_other_replacements(world: E2ENamespace, tmp_path: Path) -> None:
    with operator_with(world, tmp_path, terminalPodRetentionSeconds=1):
        world.apply(flame_cluster(replicas=3))
        world.wait_running(executors=3)
        allow_everything_but(world, "pods", "delete")
        world.patch_status("my-flame-executor-manager-0", phase="Failed")
        world.wait(
            "its removal to be refused", partial(degraded, world, "PermissionDenied", 'cannot delete resource "pods"')
        )

        world.delete_without_waiting("pod", "my-flame-executor-manager-1")
        world.wait("three executors again", lambda: world.status()["executorManager"]["ready"] == 3)
        three = {f"my-flame-executor-manager-{number}" for number in (2, 3, 4)}
        world.wait("two new ones beside an old one", lambda: uids(world.live_executors()).keys() == three)
        world.wait("the failed one to be all that is left beside them", lambda: world.has_executors(4))

        allow_again(world)
        world.wait("the failed one to be removed", lambda: world.has_executors(3), timeout=240)
        world.wait_running(executors=3)


def test_executors_start_under_a_limit_range_that_their_own_container_meets(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.limit_containers(
        min={"cpu": "200m", "memory": "500Mi"}, max={"cpu": "2"}, maxLimitRequestRatio={"cpu": "1", "memory": "1"}
    )
    limits = {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}

    world.apply(flame_cluster(replicas=2, sessionManager=limits, executorManager=limits))

    world.wait_running(executors=2)


def test_rejected_pod_template_costs_no_pod(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=4))
    world.wait_running(executors=4)
    before = uids(world.all("pod"))

    for component, strategy in (("sessionManager", "RollingUpdate"), ("executorManager", "Recreate")):
        world.change(executorManager={"updateStrategy": {"type": strategy}})
        world.change(**{component: {"podTemplate": {"spec": {"nodeSelectr": {"disk": "fast"}}}}})
        field = f'unknown field "spec.{component}.podTemplate.spec.nodeSelectr"'
        world.wait("the status to name the field", partial(degraded, world, "Rejected", field))
        assert uids(world.all("pod")) == before

        world.change(**{component: {"podTemplate": None}})
        world.wait_running(executors=4)
        assert uids(world.all("pod")) == before
