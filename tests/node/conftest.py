"""The shared fixtures of scenarios on a real node: the node, an operator in its own image, a namespace each."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node import operator as installed_operator
from tests.node.namespace import NodeNamespace
from tools.controlplane import Plane


@pytest.fixture(scope="session")
def node() -> Plane:
    """The node that `tools.node run` has started."""
    state = os.environ.get("FLAMECTL_NODE")
    if not state:
        pytest.skip("no real node: `make test-node` starts one, or says why none can run")
    return Plane.attach(Path(state) / "plane")


@pytest.fixture
def empty_world(node: Plane, request: pytest.FixtureRequest) -> Iterator[NodeNamespace]:
    """A namespace of the test's own; `indirect` parametrization gives the Pod Security level that it enforces."""
    level = getattr(request, "param", "")
    name = f"node-{uuid.uuid4().hex[:8]}"
    node.create_namespace(name, {"pod-security.kubernetes.io/enforce": level} if level else None)
    yield NodeNamespace(node, name)
    node.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def operator(node: Plane) -> Plane:
    """The cluster with the operator installed and ready. A test before may have uninstalled it or rolled it."""
    if not installed_operator.is_installed(node):
        installed_operator.install(node)
    return node


@pytest.fixture
def world(empty_world: NodeNamespace, operator: Plane) -> NodeNamespace:
    """A namespace of the test's own that the operator serves."""
    return empty_world
