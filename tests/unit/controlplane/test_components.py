"""Command lines, ports and files of the components; nothing is started here."""

import random
import re
from pathlib import Path

from tools.controlplane.components import NAMES, command_lines
from tools.controlplane.ports import LOOPBACK, Ports, pick_ports
from tools.controlplane.state import StateFiles, prepare

PORTS = Ports(etcd=20001, etcd_peer=20002, apiserver=20003, controller_manager=20004, scheduler=20005, kwok=20006)
FILES = StateFiles(Path("/state"))
COMMANDS = command_lines({name: Path("/bin") / name for name in NAMES}, FILES, PORTS)


def test_components_listen_on_loopback_only() -> None:
    text = " ".join(" ".join(command) for command in COMMANDS.values())
    addresses = set(re.findall(r"\d+\.\d+\.\d+\.\d+(?!\S*/)", text))
    assert addresses == {LOOPBACK}
    assert f"--server-address={LOOPBACK}:20006" in COMMANDS["kwok"]
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert f"--bind-address={LOOPBACK}" in COMMANDS[name]


class TestPorts:
    def test_ports_are_outside_the_range_of_outgoing_connections(self) -> None:
        ports = pick_ports()
        assert all(20000 <= getattr(ports, name) < 32768 for name in ports.__dataclass_fields__)

    def test_taken_port_is_passed_over(self) -> None:
        free = pick_ports(source=random.Random(1))
        other = pick_ports(source=random.Random(1), free=lambda port: port != free.etcd)
        assert free.etcd not in {getattr(other, name) for name in other.__dataclass_fields__}


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
