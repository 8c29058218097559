"""The Role for the election: an operator whose Lease is in a namespace that it does not serve has nothing else there."""

import uuid
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml

from tests.e2e.namespace import E2ENamespace, flame_cluster, supervised
from tools.controlplane import Plane
from tools.installation import RBAC, OperatorProcess, allow_in

ROLE = "flamectl-operator-election"


@pytest.fixture
def home(installed: Plane) -> Iterator[E2ENamespace]:
    """The operator's own namespace."""
    namespace = f"home-{uuid.uuid4().hex[:10]}"
    installed.create_namespace(namespace)
    yield E2ENamespace(installed, namespace)
    installed.kubectl("delete", "namespace", namespace, "--wait=false")


def allowed() -> set[tuple[str, str, str]]:
    """Resource, verb and name that the Role allows; RBAC cannot know the name of what is created."""
    objects = yaml.safe_load_all((RBAC / "operator.yaml").read_text(encoding="utf-8"))
    (role,) = (each for each in objects if each["kind"] == "Role" and each["metadata"]["name"] == ROLE)
    return {
        (resource, verb, name)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def test_election_role_grants_exactly_the_used_permissions(
    world: E2ENamespace, home: E2ENamespace, tmp_path: Path
) -> None:
    kubeconfig = allow_in(world.plane, world.namespace, home=home.namespace)
    election = {"leaderElect": True, "resourceNamespace": home.namespace}
    settings = tmp_path / "settings.yaml"
    settings.write_text(yaml.safe_dump({"leaderElection": election}), encoding="utf-8")
    arguments = ["--namespace", world.namespace, "--config", str(settings)]
    with supervised(OperatorProcess(kubeconfig, tmp_path / "operator.log", arguments)):
        world.apply(flame_cluster(replicas=1))
        world.wait_running(executors=1)
        # It makes the Lease, and then renews it.
        made = home.get("lease", "flamectl-operator")
        assert made is not None
        world.wait("the Lease to be renewed", lambda: home.get("lease", "flamectl-operator") != made)

    requests = home.operator_requests()
    assert [request for request in requests if request.code == HTTPStatus.FORBIDDEN] == []
    own = [request for request in requests if request.namespace == home.namespace]
    used = {(each.resource, each.verb, "" if each.verb == "create" else each.name) for each in own}
    assert used == allowed()
