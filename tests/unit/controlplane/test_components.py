"""Command lines, ports and files of the components; nothing is started here."""

from __future__ import annotations

import random
import re
import socket
from pathlib import Path

import pytest
import yaml

from tools.controlplane.components import NAMES, command_lines, probes
from tools.controlplane.nodes import is_schedulable, node
from tools.controlplane.ports import LOOPBACK, Ports, is_free, pick_ports
from tools.controlplane.state import KWOK, StateFiles, new_private_key, prepare, write_kubeconfig

SETTINGS = Path(__file__).parents[3] / "tools" / "controlplane"
PORTS = Ports(etcd=20001, etcd_peer=20002, apiserver=20003, controller_manager=20004, scheduler=20005, kwok=20006)
FILES = StateFiles(Path("/state"))
COMMANDS = command_lines({name: Path("/bin") / name for name in NAMES}, FILES, PORTS)


def test_components_start_in_the_order_of_their_dependencies() -> None:
    assert list(COMMANDS) == ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"]
    assert [command[0] for command in COMMANDS.values()] == [f"/bin/{name}" for name in NAMES]


def test_components_listen_on_loopback_only() -> None:
    text = " ".join(" ".join(command) for command in COMMANDS.values())
    addresses = set(re.findall(r"\d+\.\d+\.\d+\.\d+(?!\S*/)", text))
    assert addresses == {LOOPBACK}
    assert f"--server-address={LOOPBACK}:20006" in COMMANDS["kwok"]
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert f"--bind-address={LOOPBACK}" in COMMANDS[name]


def test_component_is_probed_on_its_own_port() -> None:
    targets = probes(FILES, PORTS)
    assert set(targets) == set(NAMES)
    for name, target in targets.items():
        assert any(str(target.port) in argument for argument in COMMANDS[name])


def test_api_server_has_the_admission_that_tests_rely_on() -> None:
    command = COMMANDS["kube-apiserver"]
    assert "--authorization-mode=RBAC" in command
    assert "--enable-admission-plugins=OwnerReferencesPermissionEnforcement" in command
    assert f"--audit-log-path={FILES.audit_log}" in command
    assert not any("feature-gates" in argument for argument in command)


def test_controllers_that_the_operator_relies_on_run() -> None:
    (controllers,) = [argument for argument in COMMANDS["kube-controller-manager"] if "--controllers=" in argument]
    for name in ("garbage-collector", "endpointslice", "serviceaccount", "node-lifecycle", "resourcequota"):
        assert f"{name}-controller" in controllers.removeprefix("--controllers=").split(",")


def test_named_settings_exist() -> None:
    values = [argument.partition("=")[2] for command in COMMANDS.values() for argument in command]
    named = [Path(value) for value in values if value.startswith(str(SETTINGS))]

    assert len(named) == 2
    assert set(named) == set(SETTINGS.glob("*.yaml"))


def test_kwok_gets_stages_of_pods_and_nodes() -> None:
    documents = list(yaml.safe_load_all((SETTINGS / "kwok-stages.yaml").read_text(encoding="utf-8")))
    stages = {document["metadata"]["name"]: document["spec"] for document in documents if document["kind"] == "Stage"}
    kinds = {name: stage["resourceRef"]["kind"] for name, stage in stages.items()}
    assert kinds == {"pod-ready": "Pod", "pod-delete": "Pod", "node-initialize": "Node", "node-heartbeat": "Node"}
    assert "finalizers" not in stages["pod-delete"]["next"]


class TestPorts:
    def test_ports_are_different(self) -> None:
        ports = pick_ports(source=random.Random(1))
        numbers = {getattr(ports, name) for name in ports.__dataclass_fields__}
        assert len(numbers) == 6

    def test_ports_are_outside_the_range_of_outgoing_connections(self) -> None:
        ports = pick_ports()
        assert all(20000 <= getattr(ports, name) < 32768 for name in ports.__dataclass_fields__)

    def test_taken_port_is_passed_over(self) -> None:
        free = pick_ports(source=random.Random(1))
        other = pick_ports(source=random.Random(1), free=lambda port: port != free.etcd)
        assert free.etcd not in {getattr(other, name) for name in other.__dataclass_fields__}

    def test_port_is_free_until_a_process_listens(self) -> None:
        with socket.socket() as listener:
            listener.bind((LOOPBACK, 0))
            listener.listen()
            port = listener.getsockname()[1]
            assert not is_free(port)
        assert is_free(port)


class TestState:
    def test_secrets_are_readable_by_their_owner_only(self, tmp_path: Path) -> None:
        files = StateFiles(tmp_path)
        prepare(files)
        assert files.tokens.stat().st_mode & 0o077 == 0
        assert files.service_account_key.stat().st_mode & 0o077 == 0

    def test_only_files_of_an_earlier_control_plane_are_removed(self, tmp_path: Path) -> None:
        files = StateFiles(tmp_path)
        before = prepare(files)
        (files.etcd / "member").touch()
        files.audit_log.touch()
        (tmp_path / "mine").touch()
        after = prepare(files)
        assert not list(files.etcd.iterdir())
        assert not files.audit_log.exists()
        assert (tmp_path / "mine").exists()
        assert after.keys() == before.keys()
        assert after != before

    def test_every_user_has_a_token_that_the_api_server_reads(self, tmp_path: Path) -> None:
        files = StateFiles(tmp_path)
        tokens = prepare(files)
        assert f"{tokens[KWOK]},{KWOK},{KWOK},system:masters" in files.tokens.read_text(encoding="utf-8").splitlines()

    def test_kubeconfig_needs_no_other_file(self, tmp_path: Path) -> None:
        ca = tmp_path / "ca.crt"
        ca.write_text("certificate", encoding="utf-8")
        file = tmp_path / "kubeconfig"
        write_kubeconfig(file, port=20003, ca=ca, user="robot", token="secret")
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert content["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:20003"
        assert content["clusters"][0]["cluster"]["certificate-authority-data"] == "Y2VydGlmaWNhdGU="
        assert content["users"][0] == {"name": "robot", "user": {"token": "secret"}}
        assert file.stat().st_mode & 0o077 == 0

    def test_private_keys_are_different(self) -> None:
        first = new_private_key()
        assert first.startswith("-----BEGIN EC PRIVATE KEY-----\n")
        assert first != new_private_key()


class TestNodes:
    def test_nodes_have_names_and_addresses_of_their_own(self) -> None:
        nodes = [node(number) for number in range(600)]
        assert nodes[0]["metadata"]["name"] == "node-0"
        assert len({item["status"]["addresses"][0]["address"] for item in nodes}) == 600

    @pytest.mark.parametrize(
        ("status", "taints", "expected"),
        [
            ("True", [], True),
            ("False", [], False),
            ("True", [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}], False),
        ],
    )
    def test_node_is_schedulable_when_ready_and_without_taints(
        self, status: str, taints: list[dict[str, str]], *, expected: bool
    ) -> None:
        found = {"status": {"conditions": [{"type": "Ready", "status": status}]}, "spec": {"taints": taints}}
        assert is_schedulable(found) is expected

    def test_node_that_kwok_has_not_seen_is_not_schedulable(self) -> None:
        assert not is_schedulable(node(0) | {"spec": {}})
