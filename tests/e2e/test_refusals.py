"""Refusals of the API server are reported once in its own words, retried slowly, and resolved when the request is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import pairwise
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


def seconds_between(times: list[str]) -> list[float]:
    moments = [datetime.fromisoformat(time) for time in times]
    return [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]


def test_quota_refusal_is_reported_once_retried_slowly_and_resolved_when_raised(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.limit_pods(3)
    world.apply(flame_cluster(replicas=5))

    words = ("exceeded quota: tight", "limited: pods=3")
    status = world.wait("the status to say so", partial(degraded, world, "QuotaExceeded", *words))
    assert "exceeded quota: tight" in status["message"]
    world.wait("two of five executors to work", lambda: world.status()["executorManager"]["ready"] == 2)
    assert world.status()["state"] == "Running"

    def slow() -> bool:
        waits = [wait for wait in seconds_between(world.refusals("pods", "create")) if wait > 0.3]
        # Two in a row: a machine that stands still for a moment makes one of any length.
        return len(waits) > 1 and waits[-2] > 1.4 and waits[-1] > 3

    world.wait("the wait between two attempts to have grown", slow)
    # Passes that Pods becoming ready brought about may have tried as well; a hundred attempts would be a storm.
    assert len(world.refusals("pods", "create")) < 25
    assert sum(event["count"] for event in world.events("QuotaExceeded")) <= 3

    world.limit_pods(10)
    world.wait_running(executors=5, timeout=240)
    assert condition(world.status(), "Degraded")["status"] == "False"
    assert uids(world.executors()).keys() == {f"my-flame-executor-manager-{number}" for number in range(5)}


def test_missing_permission_is_reported_and_resolved_when_granted(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    allow_everything_but(world, "pods", "create")
    world.apply(flame_cluster(replicas=2))
    who = f"system:serviceaccount:{world.namespace}:{SERVICE_ACCOUNT}"
    words = ("pods is forbidden", f'User "{who}" cannot create resource "pods"')
    status = world.wait(
        "the status to say so", partial(degraded, world, "PermissionDenied", *words, "the permissions of its version")
    )
    assert status["state"] == "Pending"
    assert world.get("configmap", "my-flame-config") is not None, "what is allowed is done"
    assert world.get("service", "my-flame-session-manager") is not None

    allow_again(world)
    world.wait_running(executors=2, timeout=240)
    assert condition(world.status(), "Degraded")["status"] == "False"


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


def test_restricted_namespace_names_the_violation_and_admits_corrected_pods(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.enforce("restricted")
    world.apply(flame_cluster(replicas=2))
    words = ('violates PodSecurity "restricted:latest"', "runAsNonRoot != true")
    status = world.wait(
        "the status to say so", partial(degraded, world, "PodSecurity", *words, "podTemplate.spec.securityContext")
    )
    assert status["message"].startswith("session manager: violates PodSecurity")
    assert sum(event["count"] for event in world.events("PodSecurity")) <= 3

    world.change(sessionManager=NOT_ROOT | {"storage": "none"}, executorManager=NOT_ROOT)
    world.wait_running(executors=2)
    assert condition(world.status(), "Degraded")["status"] == "False"


def test_executors_start_under_a_limit_range_that_their_own_container_meets(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.limit_containers(
        min={"cpu": "200m", "memory": "500Mi"}, max={"cpu": "2"}, maxLimitRequestRatio={"cpu": "1", "memory": "1"}
    )
    limits = {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}

    world.apply(flame_cluster(replicas=2, sessionManager=limits, executorManager=limits))

    world.wait_running(executors=2)


def test_requests_for_the_waiting_container_alone_satisfy_a_limit_range(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.limit_containers(min={"cpu": "600m", "memory": "600Mi"})
    world.apply(flame_cluster(replicas=1, executorManager={"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}))
    field = "spec.executorManager.podTemplate.spec.initContainers[name=wait-for-session-manager].resources"
    world.wait("the status to name it", partial(degraded, world, "AdmissionDenied", f"change {field}, or"))

    asked = {"name": "wait-for-session-manager", "resources": {"requests": {"cpu": "600m", "memory": "600Mi"}}}
    world.change(executorManager={"podTemplate": {"spec": {"initContainers": [asked]}}})
    world.wait_running(executors=1)


@pytest.mark.parametrize(
    ("component", "strategy"), [("sessionManager", "RollingUpdate"), ("executorManager", "Recreate")]
)
def test_rejected_pod_template_costs_no_pod(
    world: E2ENamespace, operator: OperatorProcess, component: str, strategy: str
) -> None:
    world.apply(flame_cluster(replicas=4, executorManager={"updateStrategy": {"type": strategy}}))
    world.wait_running(executors=4)
    before = uids(world.all("pod"))

    world.change(**{component: {"podTemplate": {"spec": {"nodeSelectr": {"disk": "fast"}}}}})
    field = f'unknown field "spec.{component}.podTemplate.spec.nodeSelectr"'
    world.wait("the status to name the field", partial(degraded, world, "Rejected", field))
    assert uids(world.all("pod")) == before

    world.change(**{component: {"podTemplate": None}})
    world.wait_running(executors=4)
    assert uids(world.all("pod")) == before
