"""Fixtures of all end-to-end tests: the control plane, a namespace for each test, and an operator for that namespace alone."""

import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.admission import put_in_force
from tests.e2e.flame import Flame, flame_in
from tests.e2e.namespace import E2ENamespace, operator_with
from tests.e2e.proxy import Proxy
from tools.controlplane import ControlPlane, Plane
from tools.controlplane.errors import ToolchainError, UnavailableError
from tools.helm import ensure_helm
from tools.installation import OperatorProcess, install


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Plane]:
    """The control plane that `tools.controlplane run` has started, or else one for this session."""
    state_dir = os.environ.get("FLAMECTL_CONTROL_PLANE")
    if state_dir:
        yield Plane.attach(state_dir)
    else:
        with ControlPlane() as plane:
            yield plane


@pytest.fixture(scope="session")
def installed(control_plane: Plane, testrun_uid: str) -> Plane:
    """The control plane with the CRD, the permissions and the policies of `config/`, which one worker installs for all.

    The policies are in force before the first test begins, because the API server refuses each scale for a moment after they
    are applied.
    """
    done = control_plane.state_dir / f"installed-{testrun_uid}"
    with (control_plane.state_dir / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            install(control_plane)
            put_in_force(control_plane)
            done.touch()
    return control_plane


@pytest.fixture(scope="session")
def helm() -> Path:
    """Helm, built if need be."""
    try:
        return ensure_helm()
    except ToolchainError as error:
        pytest.skip(f"no Helm: {error}")


@pytest.fixture
def world(installed: Plane) -> Iterator[E2ENamespace]:
    """A namespace of the test's own."""
    namespace = f"e2e-{uuid.uuid4().hex[:10]}"
    audited_from = installed.audit_log.stat().st_size
    installed.create_namespace(namespace)
    installed.wait_for_service_account(namespace)
    yield E2ENamespace(installed, namespace, audited_from)
    with suppress(UnavailableError):
        installed._request("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def operator(world: E2ENamespace, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator for the test's namespace, under the permissions that are shipped; it must stop cleanly in the end."""
    with operator_with(world, tmp_path) as process:
        yield process


@pytest.fixture
def flame(world: E2ENamespace) -> Iterator[Flame]:
    """Flame at the session managers of the test's namespace."""
    with flame_in(world) as flame:
        yield flame


@pytest.fixture
def proxy(world: E2ENamespace) -> Iterator[Proxy]:
    """A proxy between an operator and the API server."""
    with Proxy(world.plane.ports.apiserver) as proxy:
        yield proxy
