"""An operator installed from `config/` or the chart: its Pods and their processes."""

import os
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.kubelet import PodProcess
from tests.e2e.namespace import MISHAPS, Object, flame_cluster
from tools.controlplane import Plane
from tools.installation import ROOT

DEPLOYMENT = "deployment/flamectl-operator"
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")


def pods_of(plane: Plane, namespace: str) -> list[Object]:
    """The Pods of the operator that the API server has taken and the scheduler has placed."""
    plane.kubectl("rollout", "status", DEPLOYMENT, f"--namespace={namespace}", "--timeout=240s")
    found = plane._get(f"/api/v1/namespaces/{namespace}/pods")
    assert found is not None
    pods: list[Object] = found["items"]
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def overlay(folder: Path, base: str, namespace: str, **more: Any) -> str:
    """A kustomization over one of ours, as a user keeps it, for another namespace; its folder."""
    folder.mkdir()
    resource = os.path.relpath(ROOT / "config" / base, folder)
    text = yaml.safe_dump({"namespace": namespace, "resources": [resource], **more})
    (folder / "kustomization.yaml").write_text(text, encoding="utf-8")
    return str(folder)


def assert_well(process: PodProcess) -> None:
    for probe in PROBES:
        process.wait_for(probe)
    status, metrics = process.get("metrics", "/metrics")
    assert status == 200
    assert "# TYPE workqueue_depth gauge" in metrics


def assert_ends_well(process: PodProcess) -> None:
    assert process.terminate() == 0
    assert not [mishap for mishap in MISHAPS if mishap in process.text()]


def restricted(name: str = "my-flame", *, replicas: int = 1) -> Object:
    template = {"spec": {"securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000}}}
    both = {"podTemplate": template}
    return flame_cluster(name, replicas=replicas, sessionManager={**both, "storage": "none"}, executorManager=both)
