"""The operator reports in one line why it cannot start, and ends cleanly after a signal."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.namespace import E2ENamespace, flame_cluster, supervised
from tools.controlplane import Plane
from tools.controlplane.waiting import PATIENCE, wait_until
from tools.installation import WITHOUT_PORTS, OperatorProcess


def _run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flamectl_operator", "run", *WITHOUT_PORTS, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
        env={key: value for key, value in os.environ.items() if not key.startswith("KUBE")},
    )


def _complaint(*arguments: str | Path) -> str:
    """The one line with which the operator refuses to start."""
    result = _run(*arguments)
    assert result.returncode == 1, result.stderr
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    program, _, complaint = lines[0].partition(": ")
    assert program == "flamectl-operator"
    return complaint


def _edited(plane: Plane, folder: Path, edit: Callable[[dict[str, Any]], object]) -> Path:
    """The administrator's kubeconfig with a change."""
    content = yaml.safe_load(plane.kubeconfig.read_text(encoding="utf-8"))
    edit(content)
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


def _cluster(kubeconfig: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = kubeconfig["clusters"][0]["cluster"]
    return found


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "there is no such file"), ("a: [b", "is not YAML")],
    ids=["missing", "not YAML"],
)
def test_unusable_kubeconfig_is_reported_in_one_line(tmp_path: Path, content: str | None, words: str) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    if content is not None:
        kubeconfig.write_text(content, encoding="utf-8")

    complaint = _complaint("--kubeconfig", kubeconfig)

    assert str(kubeconfig) in complaint
    assert words in complaint


def test_missing_context_is_reported_in_one_line(installed: Plane) -> None:
    assert "nowhere" in _complaint("--kubeconfig", installed.kubeconfig, "--context", "nowhere")


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "No such file"), ("controller: {wokers: 3}", "controller.wokers")],
    ids=["missing", "unknown key"],
)
def test_invalid_settings_are_reported_in_one_line(
    installed: Plane, tmp_path: Path, content: str | None, words: str
) -> None:
    settings = tmp_path / "settings.yaml"
    if content is not None:
        settings.write_text(content, encoding="utf-8")

    complaint = _complaint("--kubeconfig", installed.kubeconfig, "--config", settings)

    assert str(settings) in complaint
    assert words in complaint


def test_signal_ends_the_operator_while_the_api_server_does_not_answer(installed: Plane, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE)
        address = f"https://127.0.0.1:{silent.getsockname()[1]}"
        kubeconfig = _edited(installed, tmp_path, lambda it: _cluster(it).update(server=address))
        process = OperatorProcess(kubeconfig, tmp_path / "operator.log")
        with supervised(process, wait=False) as operator, silent.accept()[0]:
            operator.process.send_signal(signal.SIGTERM)
            assert operator.process.wait(PATIENCE) == 0


def test_config_waits_for_the_api_server_until_a_signal(installed: Plane, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening
        address = f"https://127.0.0.1:{unused.getsockname()[1]}"
        kubeconfig = _edited(installed, tmp_path, lambda it: _cluster(it).update(server=address))
        options = ["--config-map", "default/flamectl-operator-config"]
        log = tmp_path / "operator.log"
        with supervised(OperatorProcess(kubeconfig, log, options), wait=False):
            wait_until(lambda: "cannot talk to the API server" in log.read_text(encoding="utf-8"), "it to complain")


def test_signal_ends_the_operator_with_success(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait("work to be under way", lambda: world.get("configmap", "my-flame-config"))

    process = operator.process
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    assert '"stopped"' in operator.log.read_text(encoding="utf-8").splitlines()[-1]

    # The next process finishes the work that this one had begun.
    operator.start()
    world.wait_running(executors=3)
