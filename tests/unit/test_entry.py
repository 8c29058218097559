"""Signals to a process that has only just begun."""

import json
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.unit.support import line, python

ROOT = Path(__file__).resolve().parents[2]

#: A process that begins as ours does; but to import the command line, or that itself, takes for ever.
PROGRAM = """
import importlib.util, runpy, sys, time

def linger(where):
    print(where, flush=True)
    while True:
        time.sleep(0.1)

def run():
    try:
        linger("running")
    except KeyboardInterrupt:
        print("interrupted", flush=True)

class CommandLine:
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name == "flamectl_operator.process.cli" else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if {slow}:
            linger("importing")
        module.main = run

sys.meta_path.insert(0, CommandLine())
{begin}
"""


def console_script() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, name = project["scripts"]["flamectl-operator"].partition(":")
    return f"from {module} import {name}; {name}()"


BEGIN = pytest.mark.parametrize(
    "begin",
    [console_script(), 'runpy.run_module("flamectl_operator", run_name="__main__")'],
    ids=["console script", "python -m"],
)


# A process that a signal has ended for want of a handler would have a negative code; the first one of a container would go on.


@BEGIN
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_signal_ends_the_process_during_imports(begin: str, number: signal.Signals) -> None:
    with python(PROGRAM.format(begin=begin, slow=True)) as running:
        assert line(running) == "importing"
        running.send_signal(number)
        assert running.wait(120) == 128 + number


@BEGIN
def test_signal_ends_the_process_before_the_event_loop_handles_signals(begin: str) -> None:
    with python(PROGRAM.format(begin=begin, slow=False)) as running:
        assert line(running) == "running"
        running.send_signal(signal.SIGTERM)
        assert running.wait(120) == 128 + signal.SIGTERM


@BEGIN
def test_a_command_that_is_interrupted_may_clean_up(begin: str) -> None:
    with python(PROGRAM.format(begin=begin, slow=False)) as running:
        assert line(running) == "running"
        running.send_signal(signal.SIGINT)
        assert line(running) == "interrupted"
        assert running.wait(120) == 0


def test_entry_point_runs_the_command_line() -> None:
    command = [sys.executable, "-c", f"import sys; sys.argv = ['flamectl-operator', 'version']; {console_script()}"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(("output", "why"), [(">/dev/full", "No space left on device"), (">&-", "it is closed")])
def test_output_that_cannot_be_written_is_told_in_one_line(output: str, why: str) -> None:
    command = f'exec "{sys.executable}" -m flamectl_operator crd {output}'
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (1, f"flamectl-operator: the output cannot be written: {why}\n")


def test_process_does_not_import_what_its_libraries_import_for_others() -> None:
    program = (
        "import sys; from flamectl_operator import entry; entry.import_lazily(); import flamectl_operator.process.main; "
        "import flamectl_operator.process.cli; print(*{name.partition('.')[0] for name in sys.modules}); "
        "from kubernetes.aio.watch import Watch; print(Watch.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported, left_out = done.stdout.splitlines()

    assert {"kubernetes", "structlog", "typer"} <= set(imported.split())
    assert not {"requests", "urllib3", "websocket", "oauthlib", "grpclib", "google"} & set(imported.split())
    assert left_out == "Watch", "a module that was left out is there once it is used"


def test_process_ends_at_once_while_a_plugin_for_credentials_hangs(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(120)
        port = listener.getsockname()[1]
        hang = f"import socket; socket.create_connection(('127.0.0.1', {port})).recv(1)"
        user = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": ["-c", hang]}
        kubeconfig.write_text(
            json.dumps(
                {
                    "current-context": "a",
                    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                    "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
                    "users": [{"name": "a", "user": {"exec": user}}],
                }
            )
        )
        options = ["run", f"--kubeconfig={kubeconfig}", "--health-probe-bind-address=0", "--metrics-bind-address=0"]
        with subprocess.Popen([sys.executable, "-m", "flamectl_operator", *options]) as running:
            plugin, _ = listener.accept()
            with plugin:
                plugin.settimeout(30)
                running.send_signal(signal.SIGTERM)
                # A load takes a minute until it gives up, and the kubelet waits for half a minute.
                assert running.wait(30) == 0
                assert plugin.recv(1) == b"", "the plugin has ended too"
