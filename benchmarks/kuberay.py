"""KubeRay beside this operator: a RayCluster of as many workers as a FlameCluster has executors.

Nothing of KubeRay is part of this project: its operator and its CRDs are given by path. It runs with as many workers as this
operator, and without its limit of requests, so that it is measured at its best. It has a ServiceAccount as this operator has,
because the API server neither authorizes the requests of an administrator nor lets them wait.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from flamectl_operator.kube.resources import Resource
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.settings.model import OperatorConfig
from tools.controlplane import Plane
from tools.controlplane.supervisor import bound_to_this_process
from tools.controlplane.waiting import PATIENCE, wait_until

_IMAGE = "rayproject/ray:2.46.0"
_MOST_WORKERS = 10_000
_ACCOUNT = "kuberay-operator"


class RayClusterView(KubernetesObject, frozen=True):
    """A RayCluster."""

    status: dict[str, Any] = msgspec.field(default_factory=dict)


RAY_CLUSTERS = Resource("ray.io/v1", "RayCluster", "rayclusters", RayClusterView)


@dataclass(frozen=True)
class KubeRay:
    """KubeRay's operator.

    Args:
        crds: A folder with its CustomResourceDefinitions.
    """

    binary: Path
    crds: Path

    def install(self, plane: Plane) -> None:
        """Install the CRDs, and tell the garbage collector of them."""
        plane.kubectl("apply", "--server-side", "-f", str(self.crds))
        plane.kubectl("wait", "--for=condition=Established", "crd/rayclusters.ray.io", "--timeout=120s")
        plane.restart("kube-controller-manager")

    def allow_in(self, plane: Plane, namespace: str) -> Path:
        """Let a ServiceAccount do everything in one namespace, and return a kubeconfig for it."""
        kubectl = partial(plane.kubectl, "-n", namespace)
        kubectl("create", "serviceaccount", _ACCOUNT)
        user = f"{namespace}:{_ACCOUNT}"
        kubectl("create", "rolebinding", _ACCOUNT, "--clusterrole=cluster-admin", f"--serviceaccount={user}")
        asked = ("auth", "can-i", "*", "*", f"--as=system:serviceaccount:{user}")
        wait_until(lambda: kubectl(*asked, check=False).returncode == 0, "the permissions to be in force")
        return plane.kubeconfig_for_service_account(namespace, _ACCOUNT)

    @contextmanager
    def running(self, kubeconfig: Path, namespace: str, log: Path) -> Iterator[int]:
        """Run the operator for one namespace.

        Args:
            log: Where its log goes.

        Yields:
            Its process id.
        """
        with log.open("ab") as file:
            process = subprocess.Popen(
                bound_to_this_process([str(self.binary), *_arguments(kubeconfig, namespace)]),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _arguments(kubeconfig: Path, namespace: str) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--watch-namespace={namespace}",
        f"--reconcile-concurrency={OperatorConfig().controller.workers}",
        "--qps=5000",
        "--burst=10000",
        "--enable-leader-election=false",
        "--metrics-addr=0",
        "--health-probe-bind-address=0",
    ]


def ray_cluster(namespace: str, name: str, workers: int) -> dict[str, Any]:
    """Return the manifest of a RayCluster."""
    return {
        "apiVersion": RAY_CLUSTERS.api_version,
        "kind": RAY_CLUSTERS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": ray_spec(workers),
    }


def ray_spec(workers: int) -> dict[str, Any]:
    """Return the spec of a RayCluster."""
    group = {"groupName": "workers", "replicas": workers, "minReplicas": 0, "maxReplicas": _MOST_WORKERS}
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": _template("ray-head")},
        "workerGroupSpecs": [group | {"rayStartParams": {}, "template": _template("ray-worker")}],
    }


def ray_runs(status: dict[str, Any], workers: int) -> bool:
    """Return whether a RayCluster says that it is ready, with so many workers."""
    return status.get("state") == "ready" and status.get("readyWorkerReplicas", 0) == workers


def _template(container: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": container, "image": _IMAGE}]}}
