"""TLS and the configuration for clients, as the API server stores them."""

from __future__ import annotations

from typing import Any

import yaml

from tests.e2e.namespace import E2ENamespace, flame_cluster
from tools.installation import OperatorProcess


def _file(world: E2ENamespace, config_map: str, file: str) -> Any:
    return yaml.safe_load(world.existing("configmap", config_map)["data"][file])


def test_foreign_secret_is_rejected_with_the_field_and_the_setting(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(tls={"secretName": "database"}))

    status = world.wait("the refusal", lambda: (found := world.status()).get("state") == "Failed" and found)

    assert "spec.tls.secretName" in status["message"]
    assert "flame.podPolicy.secrets" in status["message"]
    assert world.all("pod") == []


def test_client_configuration_is_created_repaired_and_removed(world: E2ENamespace, operator: OperatorProcess) -> None:
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
