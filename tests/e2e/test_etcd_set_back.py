"""etcd is set back to a copy, on a control plane that no other test needs."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.namespace import E2ENamespace, flame_cluster, operator_with, uids
from tools.controlplane import ControlPlane, Plane
from tools.installation import install

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
#: The API server starts again, and the operator's process may have to be started again as well.
LONG = 120.0


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with ControlPlane(nodes=4) as plane:
        install(plane)
        yield plane


def put_back(plane: Plane, source: Path, target: Path) -> None:
    """Stop everything, put the data of etcd into another folder, and start everything again."""
    for component in reversed(COMPONENTS):
        plane.stop_component(component)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    for component in COMPONENTS:
        plane.start_component(component)


def newest_version(world: E2ENamespace) -> int:
    """Write something, and return its resourceVersion."""
    world.annotate("configmap", "kube-root-ca.crt", f"test/turn={uuid.uuid4().hex}")
    return int(world.existing("configmap", "kube-root-ca.crt")["metadata"]["resourceVersion"])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("overtaken", [True, False], ids=["overtaken", "not overtaken"])
def test_user_is_obeyed_after_etcd_was_set_back(plane: Plane, tmp_path: Path, overtaken: bool) -> None:  # noqa: FBT001
    name = f"set-back-{'overtaken' if overtaken else 'plain'}"
    plane.create_namespace(name)
    plane.wait_for_service_account(name)
    world, data = E2ENamespace(plane, name), plane.state_dir / "etcd"
    with operator_with(world, tmp_path) as operator:
        world.apply(flame_cluster(replicas=4))
        world.wait_running(executors=4)
        put_back(plane, data, tmp_path / "copy")
        world.change(executorManager={"maxExecutors": 7})
        world.wait_running(executors=4, timeout=LONG)
        lost = newest_version(world)

        put_back(plane, tmp_path / "copy", data)
        for executor in world.executors()[:2]:
            world.delete_without_waiting("pod", executor["metadata"]["name"])
        world.kubectl("scale", "flamecluster/my-flame", "--replicas=5")
        while overtaken and newest_version(world) <= lost + 20:
            pass

        def obeyed() -> Any:
            if operator.process.poll() is not None:
                operator.start()
            return world._healthy("my-flame", 5)

        world.wait("the scaled FlameCluster to be healthy", obeyed, LONG)
        assert len(uids(world.executors())) == 5
        assert operator.process.poll() is None
