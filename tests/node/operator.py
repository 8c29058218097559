"""The operator in its own image, installed as its users install it."""

import json
from typing import Any

from tools.controlplane import Plane
from tools.controlplane.waiting import wait_until
from tools.installation import NAMESPACE, ROOT, wait_for_crd

DEPLOYMENT = "flamectl-operator"
LEASE = "flamectl-operator"
SELECTOR = "app.kubernetes.io/name=flamectl-operator"


def install(plane: Plane) -> None:
    """Install the operator by kustomize for the whole cluster, and wait until both replicas are ready."""
    new = not plane.kubectl("get", "crd", "flameclusters.flame.xflops.io", "--ignore-not-found").stdout
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(ROOT / "config" / "default"))
    wait_for_crd(plane)
    if new:
        # The garbage collector looks for new kinds every 30 s only; a fresh one looks at once.
        plane.restart("kube-controller-manager")
    rolled_out(plane)


def rolled_out(plane: Plane) -> None:
    """Wait until all replicas run the present version, and no other is left."""
    plane.kubectl("rollout", "status", f"deployment/{DEPLOYMENT}", "-n", NAMESPACE, "--timeout=150s")
    wait_until(lambda: len(pods(plane)) == replicas(plane), "replicas of the version before to be gone", interval=0.5)


def restart(plane: Plane) -> None:
    """Replace all replicas by new ones, whose containers the kubelet restarts without a delay when they end once."""
    plane.kubectl("rollout", "restart", f"deployment/{DEPLOYMENT}", "-n", NAMESPACE)
    rolled_out(plane)


def is_installed(plane: Plane) -> bool:
    """Return whether the operator is installed by kustomize or by Helm, and complete."""
    command = ("get", "deployment", DEPLOYMENT, "-n", NAMESPACE, "--ignore-not-found", "-o", "json")
    found = plane.kubectl(*command).stdout
    if not found.strip():
        return False
    deployment = json.loads(found)
    return bool(deployment["status"].get("readyReplicas", 0) == deployment["spec"]["replicas"])


def replicas(plane: Plane) -> int:
    """Return how many replicas there should be."""
    command = ("get", "deployment", DEPLOYMENT, "-n", NAMESPACE, "-o", "jsonpath={.spec.replicas}")
    return int(plane.kubectl(*command).stdout)


def pods(plane: Plane) -> list[dict[str, Any]]:
    """Return the operator's Pods, terminating ones included."""
    found = plane.kubectl("get", "pods", "-n", NAMESPACE, "-l", SELECTOR, "-o", "json").stdout
    items: list[dict[str, Any]] = json.loads(found)["items"]
    return items


def leader(plane: Plane) -> str:
    """Return the name of the Pod that leads, once there is one."""

    def holder() -> str:
        command = ("get", "lease", LEASE, "-n", NAMESPACE, "-o", "jsonpath={.spec.holderIdentity}")
        found = plane.kubectl(*command, check=False).stdout
        names = [pod["metadata"]["name"] for pod in pods(plane)]
        return next((name for name in names if found.startswith(name)), "")

    return wait_until(holder, "one of the replicas to lead", interval=0.3)
