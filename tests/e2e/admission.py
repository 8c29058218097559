"""The policies of `config/admission` on a control plane."""

import uuid

from tests.e2e.namespace import E2ENamespace, Object, flame_cluster
from tools.controlplane import Plane
from tools.controlplane.waiting import wait_until
from tools.installation import ROOT

ADMISSION = ROOT / "config" / "admission"
#: Of executors about whose limits there is nothing to warn of.
LIMITED: Object = {"resources": {"limits": {"cpu": 2, "memory": "2Gi"}}}
PROTECTION = "flame.xflops.io/deletion-protection"


def protected(name: str = "my-flame", *, replicas: int = 1) -> Object:
    """The manifest of a FlameCluster that is protected."""
    manifest = flame_cluster(name, replicas=replicas, executorManager=LIMITED)
    manifest["metadata"]["annotations"] = {PROTECTION: "true"}
    return manifest


def put_in_force(plane: Plane) -> None:
    """Apply the policies and wait until the API server heeds them, which takes it a moment.

    Args:
        plane: Where to; the CRD must be there.
    """
    plane.kubectl("apply", "--server-side", "-k", str(ADMISSION))
    world = E2ENamespace(plane, f"admission-{uuid.uuid4().hex[:10]}")
    plane.create_namespace(world.namespace, {"pod-security.kubernetes.io/enforce": "restricted"})
    world.apply(protected())
    wait_until(lambda: "is protected" in refusal(world, "delete", "flc/my-flame"), "deletions to be refused")
    wait_until(
        lambda: "is protected" in refusal(world, "scale", "flc/my-flame", "--replicas=0"), "scaling to be refused"
    )
    wait_until(lambda: "Warning" in refusal(world, "label", "flc/my-flame", "a=b"), "warnings")
    wait_until(
        lambda: "must be" in refusal(world, "annotate", "--overwrite", "flc/my-flame", f"{PROTECTION}=x"), "values"
    )
    plane.kubectl("delete", "namespace", world.namespace, "--wait=false")


def refusal(world: E2ENamespace, *arguments: str) -> str:
    """Return kubectl's error for a dry run of a change; empty when it succeeds."""
    return complaints(world.plane, "--namespace", world.namespace, *arguments)


def complaints(plane: Plane, *arguments: str) -> str:
    return plane.kubectl(*arguments, "--dry-run=server", check=False).stderr
