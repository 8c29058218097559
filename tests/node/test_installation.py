"""Installing, upgrading and uninstalling, while a FlameCluster runs."""

import os
import subprocess
from pathlib import Path

import yaml

from tests.e2e.namespace import flame_cluster, uids
from tests.node import operator as installed
from tests.node.namespace import NodeNamespace
from tools.controlplane import Plane
from tools.helm import ensure_helm
from tools.installation import NAMESPACE, ROOT, wait_for_crd

_CHART = ROOT / "charts" / "flamectl-operator"


def test_upgrade_by_kustomize_and_a_way_back_restart_nothing(world: NodeNamespace, tmp_path: Path) -> None:
    world.apply(flame_cluster(replicas=2))
    world.wait_registered(executors=2)
    before = uids(world.all("pod"))

    for tag in ("next", "0.1.0"):
        world.plane.kubectl(
            "apply", "--server-side", "--force-conflicts", "-k", str(_kustomization(tmp_path / tag, tag))
        )
        installed.rolled_out(world.plane)
        images = {pod["spec"]["containers"][0]["image"] for pod in installed.pods(world.plane)}
        assert images == {f"flamectl-operator:{tag}"}

    # The operator of the last version works, and has replaced nothing.
    world.kubectl("scale", "flamecluster/my-flame", "--replicas=3")
    world.wait_registered(executors=3)
    assert before.items() <= uids(world.all("pod")).items()


def test_uninstalled_by_kustomize_and_installed_by_helm(world: NodeNamespace) -> None:
    plane = world.plane
    world.apply(flame_cluster(replicas=1))
    world.wait_registered(executors=1)
    world.kubectl("delete", "flamecluster", "my-flame")
    plane.kubectl("delete", "-k", str(ROOT / "config" / "default"))
    assert not plane.kubectl("get", "crd,clusterrole,clusterrolebinding", "-o", "name", "-l", installed.SELECTOR).stdout
    assert not plane.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found").stdout

    try:
        _helm(plane, "install", "flamectl-operator", str(_CHART), "--create-namespace")
        wait_for_crd(plane)
        plane.restart("kube-controller-manager")
        installed.rolled_out(plane)
        world.apply(flame_cluster(replicas=2))
        world.wait_registered(executors=2)
        before = uids(world.all("pod"))

        _helm(plane, "upgrade", "flamectl-operator", str(_CHART), "--set", "image.tag=next")
        installed.rolled_out(plane)
        assert uids(world.all("pod")) == before

        _helm(plane, "uninstall", "flamectl-operator", "--wait")
        # The CRD and the FlameClusters stay, and their Pods run on.
        assert uids(world.all("pod")) == before
        assert len(world.registered()) == 2
    finally:
        plane.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
        installed.install(plane)

    # The operator that is installed now goes on with them.
    world.kubectl("scale", "flamecluster/my-flame", "--replicas=3")
    world.wait_registered(executors=3)
    assert before.items() <= uids(world.all("pod")).items()


def _kustomization(folder: Path, tag: str) -> Path:
    """Write the kustomization that a user has for another image."""
    folder.mkdir()
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(ROOT / "config" / "default", folder.resolve())],
        "images": [{"name": "flamectl-operator", "newName": "flamectl-operator", "newTag": tag}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder


def _helm(plane: Plane, *arguments: str) -> None:
    command = [str(ensure_helm()), "--kubeconfig", str(plane.kubeconfig), "--namespace", NAMESPACE, *arguments]
    environment = {"HOME": str(plane.state_dir), "PATH": "/usr/bin:/bin"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
