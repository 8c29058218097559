"""Processes: started on order, ended in order, and never left behind. Shell commands stand in for the components."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.controlplane.controlplane import ControlPlane
from tools.controlplane.errors import NotRunningError, StartError, WaitTimeoutError
from tools.controlplane.plane import Plane
from tools.controlplane.progress import Reporter
from tools.controlplane.state import StateFiles, prepare
from tools.controlplane.supervisor import Address, Orders, Supervisor, bound_to_this_process
from tools.controlplane.waiting import wait_until

# Writes its name at the end, so that the order of the ends can be seen.
SCRIPT = "trap 'echo {name} >> ended; exit' TERM; echo started; while :; do sleep 0.01; done"


@pytest.fixture
def files(tmp_path: Path) -> StateFiles:
    files = StateFiles(tmp_path)
    prepare(files)
    return files


@pytest.fixture
def supervisor(files: StateFiles) -> Iterator[Supervisor]:
    commands = {name: ["/bin/sh", "-c", SCRIPT.format(name=name)] for name in ("first", "second")}
    supervisor = Supervisor(commands, files)
    yield supervisor
    supervisor.close()


@pytest.fixture
def orders(supervisor: Supervisor) -> Orders:
    return Orders(supervisor.address)


def start(orders: Orders, files: StateFiles, name: str) -> int:
    orders.start(name)
    wait_until(lambda: "started" in files.log(name).read_text(encoding="utf-8"), f"{name} to start")
    pid = orders.pid(name)
    assert pid is not None
    return pid


def state_of(pid: int) -> str:
    """Return the state letter of a process, "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_component_runs_until_it_is_stopped(orders: Orders, files: StateFiles) -> None:
    pid = start(orders, files, "first")
    assert (files.pids / "first").read_text(encoding="ascii") == f"{pid}\n"
    orders.stop("first")
    assert orders.pid("first") is None
    assert state_of(pid) == ""
    assert not (files.pids / "first").exists()


def test_components_end_in_reverse_order(supervisor: Supervisor, orders: Orders, files: StateFiles) -> None:
    pids = [start(orders, files, name) for name in ("first", "second")]
    supervisor.close()
    assert (files.root / "ended").read_text(encoding="utf-8").split() == ["second", "first"]
    assert [state_of(pid) for pid in pids] == ["", ""]
    with pytest.raises(NotRunningError):
        orders.pid("first")


def test_component_that_ignores_sigterm_is_killed(files: StateFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.controlplane.supervisor._GRACE", 0.1)
    script = "trap '' TERM; echo started; while :; do sleep 0.01; done"
    supervisor = Supervisor({"deaf": ["/bin/sh", "-c", script]}, files)
    pid = start(Orders(supervisor.address), files, "deaf")
    supervisor.close()
    assert state_of(pid) == ""


def test_unauthorised_caller_is_refused_and_the_next_caller_served(supervisor: Supervisor, orders: Orders) -> None:
    with pytest.raises(NotRunningError):
        Orders(Address(supervisor.address.port, "00" * 16)).pid("first")
    assert orders.pid("first") is None


def test_components_do_not_inherit_the_environment(files: StateFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETCD_NAME", "not-ours")
    supervisor = Supervisor({"printer": ["/usr/bin/env"]}, files)
    try:
        Orders(supervisor.address).start("printer")
        wait_until(lambda: Orders(supervisor.address).pid("printer") is None, "the end of the command")
    finally:
        supervisor.close()
    output = files.log("printer").read_text(encoding="utf-8")
    assert "ETCD_NAME" not in output
    assert f"HOME={files.root}" in output


def test_command_dies_with_the_process_that_started_it() -> None:
    # Longer than anybody waits for its end.
    command = bound_to_this_process(["/bin/sleep", "3600"])
    # The pid of the starter is that of the process in between.
    position = command.index(str(os.getpid()))
    script = (
        "import os, subprocess, sys\n"
        f"command = {command!r}\n"
        f"command[{position}] = str(os.getpid())\n"
        "child = subprocess.Popen(command)\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        child = int(starter.stdout.readline())
        try:
            # Not its command line: that of the process in between ends with the same words.
            wait_until(lambda: Path(f"/proc/{child}/comm").read_text(encoding="utf-8") == "sleep\n", "the command")
        finally:
            starter.send_signal(signal.SIGKILL)
    try:
        wait_until(lambda: state_of(child) in {"", "Z"}, "the command to be gone")
    except WaitTimeoutError:
        os.kill(child, signal.SIGKILL)
        raise


def test_command_does_not_run_when_its_starter_is_gone() -> None:
    command = bound_to_this_process(["/bin/echo", "run"])
    command[command.index(str(os.getpid()))] = "1"
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stdout == ""


class TestStart:
    """The start of a whole control plane whose etcd does not come up."""

    @staticmethod
    def binaries(tmp_path: Path, etcd: str) -> dict[str, Path]:
        script = tmp_path / "etcd-script"
        script.write_text(f"#!/bin/sh\n{etcd}\n", encoding="utf-8")
        script.chmod(0o755)
        names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl")
        return {name: Path("/bin/false") for name in names} | {"etcd": script}

    def test_dead_component_is_named_with_the_end_of_its_log(self, tmp_path: Path) -> None:
        binaries = self.binaries(tmp_path, "echo no space left on device; exit 1")
        plane = ControlPlane(tmp_path / "state", binaries=binaries)
        with pytest.raises(StartError, match=r"etcd ended before it was ready(.|\n)*no space left on device"):
            plane.start()
        with pytest.raises(NotRunningError):
            plane.pid("etcd")
        with pytest.raises(NotRunningError):
            Plane.attach(tmp_path / "state")

    def test_lost_port_is_replaced(self, tmp_path: Path) -> None:
        counter = tmp_path / "starts"
        script = f'echo "$@" >> {counter}; echo listen tcp: bind: address already in use; exit 1'
        said = io.StringIO()
        plane = ControlPlane(tmp_path / "state", binaries=self.binaries(tmp_path, script), report=Reporter(said))
        with pytest.raises(StartError):
            plane.start()
        starts = counter.read_text(encoding="utf-8").splitlines()
        assert len(set(starts)) == 3
        line = "controlplane: somebody took the port of etcd; trying again with others"
        assert said.getvalue().splitlines() == [line] * 2

    def test_interrupt_leaves_nothing_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pid_file = tmp_path / "pid"
        binaries = self.binaries(tmp_path, f"echo $$ > {pid_file}; exec sleep 60")

        def interrupted(_: object) -> bool:
            if pid_file.exists() and pid_file.stat().st_size:
                raise KeyboardInterrupt
            return False

        monkeypatch.setattr("tools.controlplane.http_api.probe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ControlPlane(tmp_path / "state", binaries=binaries).start()
        assert state_of(int(pid_file.read_text(encoding="ascii"))) == ""
