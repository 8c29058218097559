"""An operator serves its configured namespaces. `test_installation.py` has one that serves all."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.namespace import E2ENamespace, flame_cluster, supervised
from tools.controlplane import Plane
from tools.installation import OperatorProcess, allow_in


@pytest.fixture
def other_worlds(installed: Plane) -> Iterator[list[E2ENamespace]]:
    worlds = [E2ENamespace(installed, f"scope-{uuid.uuid4().hex[:10]}") for _ in range(2)]
    for each in worlds:
        installed.create_namespace(each.namespace)
    yield worlds
    for each in worlds:
        installed.kubectl("delete", "namespace", each.namespace, "--wait=false")


def test_operator_serves_only_its_configured_namespaces(
    world: E2ENamespace, other_worlds: list[E2ENamespace], tmp_path: Path
) -> None:
    other, closed = other_worlds
    kubeconfig = allow_in(world.plane, world.namespace)
    # It could do more than it is told.
    for each in other_worlds:
        allow_in(world.plane, each.namespace, home=world.namespace)
    arguments = ["--namespace", world.namespace, "--namespace", other.namespace]
    closed.apply(flame_cluster(replicas=1))
    with supervised(OperatorProcess(kubeconfig, tmp_path / "operator.log", arguments)):
        for each in (world, other):
            each.apply(flame_cluster(replicas=1))
            each.wait_running(executors=1)
            each.kubectl("scale", "flamecluster/my-flame", "--replicas=2")
            each.wait_running(executors=2)

    assert closed.status()["reason"] == "NotObserved"
    asked = {request.namespace for request in world.operator_requests()}
    assert asked - {""} == {world.namespace, other.namespace}
