"""The leftovers of nodes whose owner was killed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.node import cgroups, leftovers
from tools.node.files import NodeError

_OWNER = """
import pathlib, sys
from tools.node.leftovers import owned

with owned(pathlib.Path(sys.argv[1])):
    print("owned", flush=True)
    input()
"""


@pytest.fixture
def hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only hierarchy of cgroups."""
    monkeypatch.setattr(cgroups, "_ROOT", tmp_path / "cgroup")
    memory = tmp_path / "cgroup" / "memory"
    memory.mkdir(parents=True)
    (memory / "cgroup.procs").touch()
    return memory


def test_directory_and_cgroup_of_a_killed_owner_are_removed_and_those_of_a_living_one_stay(
    tmp_path: Path, hierarchy: Path
) -> None:
    dead, living, foreign = (tmp_path / name for name in ("node-dead", "node-living", "other"))
    for directory in (dead, living, foreign):
        (directory / "containerd").mkdir(parents=True)
    for directory in (dead, foreign):
        cgroups.make(directory.name)
    command = [sys.executable, "-c", _OWNER, str(dead)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"owned\n"
        leftovers.remove(tmp_path, "node-")
        assert dead.exists()
        owner.send_signal(signal.SIGKILL)

    with leftovers.owned(living):
        cgroups.make(living.name)
        leftovers.remove(tmp_path, "node-")

    assert {path.name for path in tmp_path.iterdir()} == {"cgroup", "node-living", "other"}
    assert {path.name for path in hierarchy.iterdir() if path.is_dir()} == {"node-living", "other"}


def test_node_that_is_about_to_own_its_directory_keeps_it(tmp_path: Path, hierarchy: Path) -> None:
    assert hierarchy.exists()
    (tmp_path / "node-new").mkdir()
    leftovers.remove(tmp_path, "node-")
    assert (tmp_path / "node-new").exists()


def test_second_node_in_a_directory_is_refused(tmp_path: Path) -> None:
    with leftovers.owned(tmp_path), pytest.raises(NodeError, match="another node runs in"), leftovers.owned(tmp_path):
        pass
