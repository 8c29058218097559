"""A FlameCluster with all parts: object cache, persistence, TLS, client configuration and network policy."""

from functools import partial
from http import HTTPStatus
from typing import Any

import pytest
import yaml

from tests.e2e.namespace import E2ENamespace, flame_cluster, is_ready, uids
from tests.e2e.volumes import add_volumes
from tools.installation import OperatorProcess

MANAGER = "my-flame-session-manager"
CLUSTER_TLS, CACHE_TLS = "/etc/flame-tls/cluster", "/etc/flame-tls/cache"
CERTIFICATE = ["ca.crt", "tls.crt", "tls.key"]
CLUSTER_LABEL = "flame.xflops.io/cluster"
EXECUTORS = {"app": "flame-executor-manager", CLUSTER_LABEL: "my-flame"}
CACHES = {"app": "flame-object-cache", CLUSTER_LABEL: "my-flame"}
CLIENT = {"podSelector": {"matchLabels": {"flame-client": "true"}}}
#: Named after the FlameCluster, so that they need no permission.
CLUSTER_SECRET, CACHE_SECRET = "my-flame-flame-tls", "my-flame-flame-cache-tls"
USER = {"spec": {"securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000}}}
#: Objects that an operator makes, and that are compared by their names.
KINDS = ("pod", "service", "configmap", "lease", "networkpolicy", "persistentvolumeclaim")


def _everything(world: E2ENamespace, policy: str) -> dict[str, Any]:
    # Each of these claims takes a volume, and a volume that a deleted claim had is not used again.
    persistence = {"size": "1Gi", "storageClassName": add_volumes(world, 4), "deletionPolicy": policy}
    return flame_cluster(
        replicas=2,
        sessionManager={
            "podTemplate": USER,
            "storage": "fs:///var/lib/flame/session",
            "persistence": persistence,
        },
        executorManager={"podTemplate": USER},
        objectCache={
            "image": "xflops/flame-object-cache:v0.6.0",
            "podTemplate": USER,
            "persistence": persistence,
            "tls": {"secretName": CACHE_SECRET},
        },
        tls={"secretName": CLUSTER_SECRET},
        clientConfig={},
        networkPolicy={"clients": [CLIENT]},
    )


def _claims(world: E2ENamespace) -> dict[str, str]:
    return uids(world.all("persistentvolumeclaim"))


def _cache_names(count: int) -> set[str]:
    return {f"my-flame-object-cache-{ordinal}" for ordinal in range(count)}


def _has_caches(world: E2ENamespace, count: int) -> bool:
    pods = [pod for pod in world.all("pod") if pod["metadata"]["labels"].get("app") == "flame-object-cache"]
    return {pod["metadata"]["name"] for pod in pods} == _cache_names(count) and all(map(is_ready, pods))


def _has_claims(world: E2ENamespace, caches: int) -> bool:
    return _claims(world).keys() == {MANAGER, *_cache_names(caches)}


def _mounted(pod: dict[str, Any]) -> dict[str, tuple[str, list[str]]]:
    """The Secret and its files in each directory of a Pod's main container."""
    secrets = {volume["name"]: volume["secret"] for volume in pod["spec"]["volumes"] if "secret" in volume}
    [container] = pod["spec"]["containers"]
    return {
        mount["mountPath"]: (secret["secretName"], sorted(item["path"] for item in secret["items"]))
        for mount in container["volumeMounts"]
        if (secret := secrets.get(mount["name"])) is not None
    }


def _file(world: E2ENamespace, config_map: str, file: str) -> Any:
    return yaml.safe_load(world.existing("configmap", config_map)["data"][file])


def _check_certificates(world: E2ENamespace) -> None:
    """Servers have their own key, executors only authorities, and each endpoint the scheme of TLS."""
    assert _mounted(world.existing("pod", MANAGER)) == {CLUSTER_TLS: (CLUSTER_SECRET, CERTIFICATE)}
    assert _mounted(world.existing("pod", "my-flame-object-cache-0")) == {CACHE_TLS: (CACHE_SECRET, CERTIFICATE)}
    for executor in world.executors():
        assert _mounted(executor) == {
            CLUSTER_TLS: (CLUSTER_SECRET, ["ca.crt"]),
            CACHE_TLS: (CACHE_SECRET, ["ca.crt"]),
        }
    config = _file(world, "my-flame-config", "flame-cluster.yaml")
    assert config["cluster"]["endpoint"] == "https://my-flame-session-manager:8080"
    assert config["cache"]["endpoint"] == "grpcs://my-flame-object-cache:9090"
    assert world.status()["sessionManager"]["endpoint"] == config["cluster"]["endpoint"]
    [context] = _file(world, "my-flame-client", "flame.yaml")["contexts"]
    for service, directory in (("cluster", CLUSTER_TLS), ("cache", CACHE_TLS)):
        assert config[service]["tls"] == {
            "cert_file": f"{directory}/tls.crt",
            "key_file": f"{directory}/tls.key",
            "ca_file": f"{directory}/ca.crt",
        }
        assert context[service] == {
            "endpoint": config[service]["endpoint"],
            "tls": {"ca_file": config[service]["tls"]["ca_file"]},
        }
    described = world.kubectl("describe", "flamecluster", "my-flame")
    for service in ("session-manager", "object-cache"):
        assert f"my-flame-{service}.{world.namespace}.svc.cluster.local" in described


def _check_network_policy(world: E2ENamespace) -> None:
    spec = world.existing("networkpolicy", "my-flame-network-policy")["spec"]
    labels = {key: {pod["metadata"]["labels"].get(key) for pod in world.all("pod")} for key in ("app", CLUSTER_LABEL)}
    assert {CLUSTER_LABEL: {"my-flame"}, "app": set(spec["podSelector"]["matchExpressions"][0]["values"])} == labels
    assert [(rule["from"], [port["port"] for port in rule["ports"]]) for rule in spec["ingress"]] == [
        ([{"podSelector": {"matchLabels": EXECUTORS}}], [8080, 8081, 9090]),
        ([CLIENT], [8080, 9090]),
        ([{"podSelector": {"matchLabels": CACHES}}], [8080]),
    ]


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
def test_everything_works_together_in_a_restricted_namespace_and_leaves_what_is_retained(
    world: E2ENamespace, operator: OperatorProcess, policy: str
) -> None:
    world.enforce("restricted")
    others = {kind: uids(world.all(kind)).keys() for kind in KINDS}
    world.apply(_everything(world, policy))
    world.wait_running(executors=2)
    assert _has_caches(world, 1)
    _check_certificates(world)
    _check_network_policy(world)

    claims, executors, manager = _claims(world), uids(world.executors()), world.session_manager()["metadata"]["uid"]
    assert claims.keys() == {MANAGER, *_cache_names(1)}
    world.kubectl("delete", "pod", MANAGER)
    world.wait("another session manager", lambda: uids(world.all("pod")).get(MANAGER) not in {None, manager})
    world.wait_running(executors=2)
    assert uids(world.executors()) == executors
    assert _claims(world) == claims

    for caches, kept in ((3, 3), (1, 1 if policy == "Delete" else 3)):
        world.patch("flamecluster", "my-flame", {"spec": {"objectCache": {"replicas": caches}}})
        world.wait(f"{caches} object caches", partial(_has_caches, world, caches))
        world.wait(f"{kept} of their claims", partial(_has_claims, world, kept))
        world.wait_running(executors=2)
        assert _claims(world).items() >= claims.items()
    assert uids(world.executors()) == executors

    left = {kind: set(others[kind]) for kind in KINDS}
    if policy == "Retain":
        left["persistentvolumeclaim"] |= _claims(world).keys()
    world.kubectl("delete", "flamecluster/my-flame")
    world.wait(
        "the garbage collector", lambda: {kind: uids(world.all(kind)).keys() for kind in KINDS} == left, timeout=240
    )
    requests = world.operator_requests()
    assert [request for request in requests if request.code == HTTPStatus.FORBIDDEN] == []
    assert {request for request in requests if request.resource == "secrets"} == set()


def test_network_policy_and_client_configuration_come_are_repaired_and_go_with_their_fields(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    name, client = "my-flame-network-policy", "my-flame-client"
    world.apply(flame_cluster(replicas=1, networkPolicy={"clients": [CLIENT]}))
    world.wait_running(executors=1)
    assert world.get("configmap", client) is None
    pods, wanted = uids(world.all("pod")), world.existing("networkpolicy", name)["spec"]

    world.patch("flamecluster", "my-flame", {"spec": {"clientConfig": {"package": {"excludes": ["*.log"]}}}})
    world.wait("the ConfigMap", lambda: world.get("configmap", client))
    [context] = _file(world, client, "flame.yaml")["contexts"]
    assert context["package"] == {"excludes": ["*.log"]}
    world.patch("configmap", client, {"data": {"flame.yaml": "edited"}})
    world.wait("the repair", lambda: _file(world, client, "flame.yaml") != "edited")

    world.patch("networkpolicy", name, {"spec": {"ingress": [{}]}})
    world.wait("the repair", lambda: world.existing("networkpolicy", name)["spec"] == wanted)
    world.kubectl("delete", "networkpolicy", name)
    world.wait("another policy", lambda: (world.get("networkpolicy", name) or {}).get("spec") == wanted)

    world.patch("flamecluster", "my-flame", {"spec": {"networkPolicy": None, "clientConfig": None}})
    world.wait("the end of the policy", lambda: world.get("networkpolicy", name) is None)
    world.wait("the end of the ConfigMap", lambda: world.get("configmap", client) is None)
    world.wait_running(executors=1)
    assert uids(world.all("pod")) == pods
