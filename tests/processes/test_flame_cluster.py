"""The Pods of a FlameCluster as real processes: stand-ins refuse what Flame refuses, and the Pods give no reason to."""

from collections.abc import Iterator
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pytest
import yaml

from flamectl_operator.desired import names
from flamectl_operator.desired.cluster import DesiredCluster
from tests.processes import network as network_module
from tests.processes.certificates import AUTHORITY, CERTIFICATE, KEY
from tests.processes.network import Network
from tests.processes.pod import Files, PodProcesses
from tests.unit.builders import OWNER, desired, merged
from tests.unit.kube.certificates import AUTHORITY as OTHER_AUTHORITY
from tools.controlplane.waiting import wait_until

pytestmark = pytest.mark.skipif(
    network_module.why_not() is not None, reason=f"processes of Pods: {network_module.why_not()}"
)

MANAGER, CACHE = names.session_manager(OWNER.name), names.object_cache_replica(OWNER.name, 0)
EXECUTORS = tuple(names.executor(OWNER.name, number) for number in range(2))
ADDRESSES = {name: f"10.0.0.{number}" for number, name in enumerate((MANAGER, CACHE, *EXECUTORS), start=2)}
WITH_CACHE: dict[str, Any] = {"objectCache": {"image": "xflops/flame-object-cache:v0.6.0"}}
_USER = {"podTemplate": {"spec": {"securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000}}}}
NOT_ROOT = dict.fromkeys(("sessionManager", "executorManager", "objectCache"), _USER)
PERSISTENT: dict[str, Any] = {
    "sessionManager": {"storage": "fs:///var/lib/flame/session", "persistence": {"size": "1Gi"}},
    "objectCache": {"persistence": {"size": "1Gi"}},
}
TLS: dict[str, Any] = {
    "tls": {"secretName": "my-flame-flame-tls"},
    "objectCache": {"tls": {"secretName": "my-flame-flame-cache-tls"}},
}


def _all(*changes: dict[str, Any]) -> dict[str, Any]:
    return reduce(merged, changes)


SECRET = {"tls.crt": CERTIFICATE, "tls.key": KEY, "ca.crt": AUTHORITY}


class Machine:
    """Runs the Pods of one FlameCluster.

    Args:
        folder: Where their files go.
        stack: Ends them.
    """

    def __init__(self, folder: Path, network: Network, stack: ExitStack) -> None:
        self._folder = folder
        self._network = network
        self._stack = stack
        self._started = 0
        self._networks: dict[str, int] = {}
        self.secrets = dict.fromkeys(("my-flame-flame-tls", "my-flame-flame-cache-tls"), SECRET)
        self.claims = folder / "claims"
        for claim in (MANAGER, CACHE):
            (self.claims / claim).mkdir(parents=True)

    def run(self, wanted: DesiredCluster, name: str, manifest: dict[str, Any] | None = None) -> PodProcesses:
        """Start a Pod. If there was one of its name before, the new one takes its address.

        Args:
            wanted: The FlameCluster's desired objects.
            name: The Pod's name.
            manifest: The Pod; None for the desired one.
        """
        self._started += 1
        address = ADDRESSES[name]
        if name in self._networks:
            self._network.detach(self._networks[name])
        self._networks[name] = self._network.attach(address)
        pod = PodProcesses(
            manifest if manifest is not None else _manifest(wanted, name),
            address,
            self._networks[name],
            Files(
                {"my-flame-config": {"flame-cluster.yaml": wanted.config_text}},
                self.secrets,
                self.claims,
                _hosts(wanted),
            ),
            self._folder / str(self._started),
        )
        return self._stack.enter_context(pod)


def _manifest(wanted: DesiredCluster, name: str) -> dict[str, Any]:
    template = {MANAGER: wanted.session_manager, CACHE: wanted.object_cache}.get(name, wanted.group.template)
    assert template is not None
    return deepcopy(template.pod(name))


def _hosts(wanted: DesiredCluster) -> dict[str, str]:
    """The answers of DNS: each Service is its only Pod, because a Service's ports are those of its Pods."""
    hosts: dict[str, str] = {}
    for service, pod in ((wanted.session_manager_service, MANAGER), (wanted.object_cache_service, CACHE)):
        name, spec = service["metadata"]["name"], service["spec"]
        assert all(port["port"] == port["targetPort"] for port in spec["ports"])
        assert spec["selector"].items() <= _manifest(wanted, pod)["metadata"]["labels"].items()
        hosts |= {f"{name}{suffix}": ADDRESSES[pod] for suffix in ("", f".{OWNER.namespace}.svc.cluster.local")}
    return hosts


def _waits(executor: PodProcesses) -> bool:
    return not executor.started() and executor.log().count("waiting for") > 1


def _wait(what: str, pod: PodProcesses, *texts: str) -> None:
    wait_until(lambda: pod.started() and all(text in pod.log() for text in texts), what)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    tmp_path.chmod(0o755)
    with Network() as network, ExitStack() as stack:
        yield Machine(tmp_path, network, stack)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="as the defaults have it"),
        pytest.param(merged(NOT_ROOT, {"sessionManager": {"storage": "none"}}), id="with a user id"),
        pytest.param(_all(NOT_ROOT, PERSISTENT, TLS), id="with a user id, claims and TLS"),
    ],
)
def test_pods_of_a_cluster_start_pass_their_probes_and_find_each_other(
    machine: Machine, changes: dict[str, Any]
) -> None:
    wanted = desired(merged(WITH_CACHE, changes))

    executors = [machine.run(wanted, name) for name in EXECUTORS]
    for executor in executors:
        wait_until(partial(_waits, executor), f"{executor.name} to wait for its session manager")
    manager, cache = machine.run(wanted, MANAGER), machine.run(wanted, CACHE)

    _wait("the session manager", manager)
    _wait("the object cache", cache, f"listens on {ADDRESSES[CACHE]}:9090")
    for executor in executors:
        _wait(f"{executor.name} to be registered", executor, "registered")


def test_session_manager_that_is_replaced_finds_its_claim_and_executors_come_back(machine: Machine) -> None:
    wanted = desired(_all(WITH_CACHE, NOT_ROOT, PERSISTENT))
    manager, executor = machine.run(wanted, MANAGER), machine.run(wanted, EXECUTORS[0])
    _wait("the executor to be registered", executor, "registered")
    session = machine.claims / MANAGER / "session"
    (session / "kept").touch()

    manager.end()
    wait_until(lambda: "no session manager" in executor.log(), "the executor to notice")
    assert executor.exit_code is None
    _wait("another session manager", machine.run(wanted, MANAGER))

    wait_until(lambda: executor.log().count("registered") == 2, "the executor to come back")
    assert (session / "kept").exists()
    assert {each.name for each in (machine.claims / MANAGER).iterdir()} == {"session", "events"}


# --- What Flame refuses ------------------------------------------------------------------------------------------------


def _end(pod: PodProcesses) -> tuple[int, str]:
    wait_until(lambda: pod.exit_code is not None, f"{pod.name} to end")
    assert pod.exit_code is not None
    return pod.exit_code, pod.log()


@pytest.mark.parametrize(
    ("section", "key", "value", "said"),
    [
        pytest.param("cluster", "endpoint", None, "missing field `endpoint`", id="no endpoint"),
        pytest.param("cluster", "resreq", "cpu=0.5", "invalid resource requirement", id="slot"),
        pytest.param("cluster", "policies", ["nonsense"], "unknown policy", id="policy"),
    ],
)
def test_session_manager_with_a_wrong_key_ends_and_says_so(
    machine: Machine, section: str, key: str, value: object, said: str
) -> None:
    wanted = desired(WITH_CACHE)
    config = yaml.safe_load(wanted.config_text)
    config[section] = {**config[section], key: value}

    pod = machine.run(replace(wanted, config_text=yaml.safe_dump(config)), MANAGER)

    assert said in _end(pod)[1]


@pytest.mark.parametrize("name", [MANAGER, CACHE, EXECUTORS[0]])
def test_binary_of_another_version_refuses_the_command_line(machine: Machine, name: str) -> None:
    wanted = desired(WITH_CACHE)
    manifest = _manifest(wanted, name)
    manifest["spec"]["initContainers"] = []
    manifest["spec"]["containers"][0]["args"][0] = "--flame-conf"

    code, said = _end(machine.run(wanted, name, manifest))

    assert code == 2
    assert "unexpected arguments" in said


@pytest.mark.parametrize("name", [MANAGER, CACHE, EXECUTORS[0]])
def test_process_with_a_user_id_needs_every_directory_that_the_operator_mounts(machine: Machine, name: str) -> None:
    wanted = desired(_all(WITH_CACHE, NOT_ROOT, PERSISTENT))
    mounts = [
        mount["mountPath"]
        for mount in _manifest(wanted, name)["spec"]["containers"][0]["volumeMounts"]
        # Every user may write below /tmp.
        if not mount.get("readOnly") and not mount["mountPath"].startswith("/tmp/")
    ]
    assert mounts
    for path in mounts:
        manifest = _manifest(wanted, name)
        manifest["spec"]["initContainers"] = []
        [container] = manifest["spec"]["containers"]
        container["volumeMounts"] = [each for each in container["volumeMounts"] if each["mountPath"] != path]
        code, said = _end(machine.run(wanted, name, manifest))
        assert code == 101, path
        assert f"failed to write to {path}" in said


def test_session_manager_without_its_key_ends_and_fails_its_probes(machine: Machine) -> None:
    wanted = desired(merged(WITH_CACHE, TLS))
    machine.secrets["my-flame-flame-tls"] = SECRET | {"tls.key": "no key"}

    pod = machine.run(wanted, MANAGER)

    code, said = _end(pod)
    assert code == 0, "as Flame after fatal errors"
    assert "failed to use the certificate" in said
    assert not pod.passes("startupProbe")


def test_executor_does_not_trust_a_session_manager_of_another_authority(machine: Machine) -> None:
    wanted = desired(merged(WITH_CACHE, TLS))
    _wait("the session manager", machine.run(wanted, MANAGER))
    machine.secrets["my-flame-flame-tls"] = SECRET | {"ca.crt": OTHER_AUTHORITY}

    code, said = _end(machine.run(wanted, EXECUTORS[0]))

    assert code == 1
    assert "CERTIFICATE_VERIFY_FAILED" in said


def test_port_that_nobody_opens_fails_the_probes_and_keeps_executors_waiting(machine: Machine) -> None:
    wanted = desired(merged(WITH_CACHE, {"configOverrides": {"cluster": {"endpoint": f"http://{MANAGER}:9999"}}}))
    manager, executor = machine.run(wanted, MANAGER), machine.run(wanted, EXECUTORS[0])

    wait_until(lambda: "listens on 9999" in manager.log(), "the session manager to listen")
    wait_until(partial(_waits, executor), "the executor to wait")

    assert manager.exit_code is None
    assert not manager.started()
    assert executor.container == "wait-for-session-manager"
