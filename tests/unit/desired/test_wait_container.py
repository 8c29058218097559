"""The executors' init container: its image, and its command in images with different tools."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flamectl_operator.desired.executor_scripts import wait_command
from flamectl_operator.settings.model import FlameSettings
from tests.unit.builders import desired

_NC_THAT_CHECKS = f"#!/bin/sh\nexec {sys.executable} -c \"import socket; socket.create_connection(('$4', $5), 2)\"\n"
_NC_WITHOUT_Z = "#!/bin/sh\necho 'nc: invalid option -- z\nUsage: nc HOST PORT' >&2\nexit 1\n"


def _wait(changes: dict[str, Any] | None = None, settings: FlameSettings | None = None) -> dict[str, Any]:
    manifest = desired(changes, settings=settings or FlameSettings()).group.template.manifest
    [container] = manifest["spec"]["initContainers"]
    return dict(container)


def test_executors_wait_in_their_own_image_under_its_pull_policy() -> None:
    wait = _wait({"executorManager": {"image": "mirror.example/executor:1", "imagePullPolicy": "Never"}})

    assert (wait["image"], wait["imagePullPolicy"]) == ("mirror.example/executor:1", "Never")


def test_image_of_the_settings_takes_the_place_of_the_executors_own() -> None:
    spec = {"executorManager": {"image": "mirror.example/executor:1", "imagePullPolicy": "Never"}}

    wait = _wait(spec, FlameSettings(init_image="mirror.example/busybox:1"))

    assert wait["image"] == "mirror.example/busybox:1"
    assert "imagePullPolicy" not in wait


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {"ephemeral-storage": "10Gi"}, "requests": {"ephemeral-storage": "2Gi"}},
        {"requests": {"ephemeral-storage": "2Gi"}},
        {"limits": {"ephemeral-storage": "10Gi"}},
        {},
    ],
)
def test_waiting_container_asks_for_as_much_local_storage_as_the_executor(resources: dict[str, Any]) -> None:
    asked = _wait({"executorManager": {"resources": resources}})["resources"]

    for part in ("requests", "limits"):
        assert asked[part].get("ephemeral-storage") == resources.get(part, {}).get("ephemeral-storage")


def test_waiting_container_keeps_the_local_storage_that_its_author_asks_for() -> None:
    own = {"requests": {"ephemeral-storage": "1Gi"}}
    wait = {"name": "wait-for-session-manager", "resources": own}
    changes = {
        "resources": {"limits": {"ephemeral-storage": "10Mi"}},
        "podTemplate": {"spec": {"initContainers": [wait]}},
    }

    asked = _wait({"executorManager": changes})["resources"]

    assert (asked["requests"]["ephemeral-storage"], "ephemeral-storage" in asked["limits"]) == ("1Gi", False)


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def _start(path: Path, port: int) -> subprocess.Popen[str]:
    command = wait_command(f"127.0.0.1:{port}")["command"]
    return subprocess.Popen(["/bin/sh", *command[1:]], env={"PATH": str(path)}, stdout=subprocess.PIPE, text=True)


def _image(directory: Path, *programs: str, **scripts: str) -> Path:
    """Make a directory with these programs of this machine, and these scripts."""
    for name in (*programs, "sleep", "grep", "sh"):
        # python3 may be a script here that finds out which Python to run.
        program = sys.executable if name == "python3" else shutil.which(name)
        (directory / name).symlink_to(Path(program or name).resolve())
    for name, text in scripts.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    return directory


@pytest.mark.parametrize(
    ("programs", "scripts"),
    [
        pytest.param(("bash", "timeout"), {}, id="bash"),
        pytest.param(("python3",), {}, id="Python"),
        pytest.param(("bash", "python3"), {}, id="bash without timeout, and Python"),
        pytest.param((), {"nc": _NC_THAT_CHECKS}, id="nc"),
    ],
)
def test_wait_ends_when_the_port_accepts_connections(
    tmp_path: Path, listener: int, programs: tuple[str, ...], scripts: dict[str, str]
) -> None:
    with _start(_image(tmp_path, *programs, **scripts), listener) as process:
        output, _ = process.communicate(timeout=60)

    assert (process.returncode, output) == (0, "")


@pytest.mark.parametrize("programs", [("bash", "timeout"), ("python3",)], ids=["bash", "Python"])
def test_wait_continues_and_logs_until_the_port_is_open(tmp_path: Path, programs: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with _start(_image(tmp_path, *programs), port) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        still_waits = process.poll() is None
        process.kill()

    assert (said, still_waits) == (f"waiting for 127.0.0.1:{port}\n", True)


@pytest.mark.parametrize(
    "scripts", [pytest.param({}, id="nothing"), pytest.param({"nc": _NC_WITHOUT_Z}, id="an nc without -z")]
)
def test_image_without_a_port_check_logs_it_and_does_not_wait(tmp_path: Path, scripts: dict[str, str]) -> None:
    with _start(_image(tmp_path, **scripts), 1) as process:
        output, _ = process.communicate(timeout=60)

    assert process.returncode == 0
    assert output == "not waiting for 127.0.0.1:1, because this image has no bash, no python3 and no nc that knows -z\n"
