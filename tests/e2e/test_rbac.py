"""The operator runs under the permissions of config/rbac, needs every one of them, and has no others."""

from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.namespace import E2ENamespace, condition, flame_cluster
from tests.e2e.volumes import add_volumes
from tools.installation import NAMESPACE, RBAC, ROLE, SERVICE_ACCOUNT, OperatorProcess, allow_in

CONFIG = "my-flame-config"
MANAGER = "my-flame-session-manager"
CLUSTER_LABEL = "flame.xflops.io/cluster"

#: A permission: API group, resource with its subresource, verb.
Permission = tuple[str, str, str]

#: Used without a request: the API server asks for it when a child is made that blocks the deletion of its owner.
FINALIZERS = ("flame.xflops.io", "flameclusters/finalizers", "update")


def _rules() -> list[dict[str, Any]]:
    """The rules of the operator's ClusterRole."""
    text = (RBAC / "operator.yaml").read_text(encoding="utf-8")
    roles = {each["metadata"]["name"]: each for each in yaml.safe_load_all(text) if each["kind"] == "ClusterRole"}
    rules: list[dict[str, Any]] = roles[ROLE]["rules"]
    return rules


def _permissions(rules: list[dict[str, Any]]) -> Iterator[Permission]:
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield (group, resource, verb)


def test_role_grants_exactly_the_used_permissions(world: E2ENamespace, operator: OperatorProcess) -> None:
    def is_labelled(kind: str, name: str) -> bool:
        found = world.get(kind, name)
        return found is not None and found["metadata"]["labels"].get(CLUSTER_LABEL) == "my-flame"

    # A Service that is in the way is read, and made once it is gone.
    theirs = {"metadata": {"name": "my-flame-object-cache"}, "spec": {"ports": [{"port": 80}]}}
    world.apply({"apiVersion": "v1", "kind": "Service"} | theirs)
    persistence = {"size": "1Gi", "storageClassName": add_volumes(world, 2)}
    cache = {"image": "xflops/flame-object-cache:v0.6.0", "replicas": 2, "persistence": persistence}
    world.apply(flame_cluster(replicas=2, objectCache=cache, networkPolicy={}))
    world.wait("the foreign Service to be reported", lambda: world.events("ServiceConflict"))
    world.kubectl("delete", "service", "my-flame-object-cache")
    world.wait_running(executors=2)

    # Without the label the watch does not show them: they are asked for by name, and repaired.
    claim = ("persistentvolumeclaim", "my-flame-object-cache-0")
    policy = ("networkpolicy", "my-flame-network-policy")
    for kind, name in (("configmap", CONFIG), ("service", MANAGER), ("pod", MANAGER), claim, policy):
        world.patch(kind, name, {"metadata": {"labels": {CLUSTER_LABEL: None}}})
        world.wait(f"the label of {kind} {name}", partial(is_labelled, kind, name))

    # The same again: the event of the first time counts up.
    world.patch("configmap", CONFIG, {"metadata": {"labels": {CLUSTER_LABEL: None}}})
    world.wait("a repeated event", lambda: [event for event in world.events("ConfigMapUpdated") if event["count"] > 1])

    # Objects that cannot be repaired are deleted, and surplus objects as well.
    world.patch("configmap", CONFIG, {"immutable": True, "data": {"flame-cluster.yaml": "{}"}})
    world.wait("a new ConfigMap", lambda: not (world.get("configmap", CONFIG) or {"immutable": True}).get("immutable"))
    world.kubectl("scale", "flamecluster/my-flame", "--replicas=1")
    world.patch("flamecluster", "my-flame", {"spec": {"objectCache": {"replicas": 1}, "networkPolicy": None}})
    world.wait_running(executors=1)
    world.wait("the NetworkPolicy to go", lambda: world.get(*policy) is None)
    world.wait("the second claim to go", lambda: len(world.all("persistentvolumeclaim")) == 1)

    # No volume is left, and the events of the claim say so.
    storage = {"storage": "fs:///var/lib/flame/session", "persistence": persistence}
    world.patch("flamecluster", "my-flame", {"spec": {"sessionManager": storage}})
    world.wait("the claim", lambda: condition(world.status(), "Degraded").get("reason") == "ClaimNotBound")
    world.patch("flamecluster", "my-flame", {"spec": {"sessionManager": {"storage": None, "persistence": None}}})
    world.wait_running(executors=1)
    world.wait_at_rest()

    requests = world.operator_requests()
    assert [request for request in requests if request.code == HTTPStatus.FORBIDDEN] == []
    used = {(request.group, request.resource, request.verb) for request in requests}
    assert used == set(_permissions(_rules())) - {FINALIZERS}


def test_missing_permission_on_finalizers_is_reported_until_it_is_granted(world: E2ENamespace, tmp_path: Path) -> None:
    def grant(permissions: set[Permission]) -> None:
        rules = [
            {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
            for group, resource, verb in sorted(permissions)
        ]
        metadata = {"name": "less", "namespace": world.namespace}
        world.apply(
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules}
        )

    complete = set(_permissions(_rules()))
    grant(complete - {FINALIZERS})
    kubeconfig = allow_in(world.plane, world.namespace)
    world.kubectl("delete", "rolebinding", SERVICE_ACCOUNT)
    account = f"--serviceaccount={world.namespace}:{SERVICE_ACCOUNT}"
    world.kubectl("create", "rolebinding", SERVICE_ACCOUNT, "--role=less", account)
    world.wait_forbidden("update", "flameclusters/finalizers")

    with OperatorProcess(kubeconfig, tmp_path / "operator.log", ["--namespace", world.namespace]):
        world.apply(flame_cluster(replicas=1))
        degraded = world.wait(
            "Degraded",
            lambda: (found := condition(world.status(), "Degraded")).get("status") == "True" and found,
        )
        assert degraded["reason"] == "PermissionDenied"
        assert f'configmaps "{CONFIG}" is forbidden' in degraded["message"]
        assert "can't set finalizers on" in degraded["message"]
        world.wait("an event", partial(world.events, "PermissionDenied"))
        assert world.all("pod") == []
        assert world.all("service") == []

        grant(complete)
        world.wait_running(executors=1, timeout=240)


def test_cluster_wide_installation_has_its_permissions_in_every_namespace(world: E2ENamespace) -> None:
    wanted = set(_permissions(_rules()))
    # Each version of Kubernetes allows every service account something else, such as to ask for its own permissions.
    of_everybody = _granted(world, "somebody")

    for each in sorted(wanted - _granted(world)):  # the role may have been bound a moment ago
        world.wait(f"{each} to be granted", partial(_is_granted, world, each))
    assert _granted(world) - of_everybody == wanted


def _is_granted(world: E2ENamespace, permission: Permission) -> bool:
    return permission in _granted(world)


def _granted(world: E2ENamespace, account: str = SERVICE_ACCOUNT) -> set[Permission]:
    user = f"--as=system:serviceaccount:{NAMESPACE}:{account}"
    table = world.kubectl("auth", "can-i", "--list", user).splitlines()
    granted: set[Permission] = set()
    for line in table[1:]:
        resource, _, rest = line.partition(" ")
        verbs = rest[rest.rindex("[") + 1 : rest.rindex("]")].split()
        if not resource:
            continue  # a URL, which everybody may read
        name, _, group = resource.partition(".")
        name, slash, subresource = name.partition("/")
        if "/" in group:
            group, slash, subresource = group.partition("/")
        granted |= {(group, name + slash + subresource, verb) for verb in verbs}
    return granted
