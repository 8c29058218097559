"""TLS and the configuration for clients, as the API server stores them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from tests.e2e.world import World, flame_cluster

if TYPE_CHECKING:
    from tools.installation import OperatorProcess

#: Named after the FlameCluster, so that they need no permission.
SECRETS: dict[str, Any] = {
    "tls": {"secretName": "my-flame-flame-tls"},
    "objectCache": {"tls": {"secretName": "my-flame-flame-cache-tls"}},
}
NOT_ROOT = {"podTemplate": {"spec": {"securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000}}}}


def _mounted(pod: dict[str, Any]) -> dict[str, list[str]]:
    """The files of Secrets in a Pod's main container, by directory."""
    secrets = {volume["name"]: volume["secret"] for volume in pod["spec"]["volumes"] if "secret" in volume}
    [container] = pod["spec"]["containers"]
    return {
        mount["mountPath"]: sorted(item["path"] for item in secrets[mount["name"]]["items"])
        for mount in container["volumeMounts"]
        if mount["name"] in secrets
    }


def _file(world: World, config_map: str, file: str) -> Any:
    return yaml.safe_load(world.existing("configmap", config_map)["data"][file])


def test_tls_reaches_pods_configuration_clients_and_status_under_restricted_pod_security(
    world: World, operator: OperatorProcess
) -> None:
    world.kubectl("label", "namespace", world.namespace, "pod-security.kubernetes.io/enforce=restricted")
    world.apply(
        flame_cluster(replicas=2, sessionManager=NOT_ROOT, executorManager=NOT_ROOT, clientConfig={}, **SECRETS)
    )
    status = world.wait_running(executors=2)

    session_manager = world.existing("pod", "my-flame-session-manager")
    assert _mounted(session_manager) == {"/etc/flame-tls/cluster": ["ca.crt", "tls.crt", "tls.key"]}
    for executor in world.executors():
        assert _mounted(executor) == {"/etc/flame-tls/cluster": ["ca.crt"], "/etc/flame-tls/cache": ["ca.crt"]}
    config = _file(world, "my-flame-config", "flame-cluster.yaml")
    assert config["cluster"]["endpoint"] == status["sessionManager"]["endpoint"]
    assert config["cluster"]["endpoint"] == "https://my-flame-session-manager:8080"
    assert config["cache"]["endpoint"] == "grpcs://my-flame-object-cache:9090"
    [context] = _file(world, "my-flame-client", "flame.yaml")["contexts"]
    for service in ("cluster", "cache"):
        assert context[service]["endpoint"] == config[service]["endpoint"]
        assert context[service]["tls"] == {"ca_file": config[service]["tls"]["ca_file"]}
    described = world.kubectl("describe", "flamecluster", "my-flame")
    assert f"my-flame-session-manager.{world.namespace}.svc.cluster.local" in described
    assert f"my-flame-object-cache.{world.namespace}.svc.cluster.local" in described
    assert not [request for request in world.operator_requests() if request.resource.startswith("secrets")]


def test_foreign_secret_is_rejected_with_the_field_and_the_setting(world: World, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(tls={"secretName": "database"}))

    status = world.wait("the refusal", lambda: (found := world.status()).get("state") == "Failed" and found)

    assert "spec.tls.secretName" in status["message"]
    assert "flame.podPolicy.secrets" in status["message"]
    assert world.all("pod") == []


def test_client_configuration_is_created_repaired_and_removed(world: World, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=1))
    world.wait_running(executors=1)
    assert world.get("configmap", "my-flame-client") is None
    pods = {pod["metadata"]["uid"] for pod in world.all("pod")}

    world.patch("flamecluster", "my-flame", {"spec": {"clientConfig": {"package": {"excludes": ["*.log"]}}}})
    world.wait("the ConfigMap", lambda: world.get("configmap", "my-flame-client"))
    [context] = _file(world, "my-flame-client", "flame.yaml")["contexts"]
    assert context["package"] == {"excludes": ["*.log"]}

    world.patch("configmap", "my-flame-client", {"data": {"flame.yaml": "edited"}})
    world.wait("the repair", lambda: _file(world, "my-flame-client", "flame.yaml") != "edited")

    world.patch("flamecluster", "my-flame", {"spec": {"clientConfig": None}})
    world.wait("the end of the ConfigMap", lambda: world.get("configmap", "my-flame-client") is None)
    assert {pod["metadata"]["uid"] for pod in world.all("pod")} == pods
