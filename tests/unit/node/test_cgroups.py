"""The cgroup that the node's Pods are below."""

from pathlib import Path

import pytest

from tools.node import cgroups


def _hierarchy(root: Path, name: str) -> Path:
    (root / name).mkdir()
    (root / name / "cgroup.procs").touch()
    return root / name


def test_cgroup_is_made_in_each_hierarchy_of_version_1_and_removed_with_all_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroups, "_ROOT", tmp_path)
    memory, cpu = _hierarchy(tmp_path, "memory"), _hierarchy(tmp_path, "cpu")

    cgroups.make("flamectl-node-1")
    assert cgroups.names("flamectl-node-") == {"flamectl-node-1"}
    (memory / "flamectl-node-1" / "kubepods" / "pod").mkdir(parents=True)
    assert cgroups.remove("flamectl-node-1")

    assert [path.name for path in (*memory.iterdir(), *cpu.iterdir())] == ["cgroup.procs", "cgroup.procs"]


def test_cgroup_that_a_process_is_in_stays_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_ROOT", tmp_path)
    memory = _hierarchy(tmp_path, "memory")
    cgroups.make("flamectl-node-1")
    # A directory that is not empty, which rmdir refuses as the kernel does.
    (memory / "flamectl-node-1" / "file").touch()

    assert not cgroups.remove("flamectl-node-1")


def test_controllers_are_handed_down_in_version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_ROOT", tmp_path)
    for name in ("cgroup.controllers", "cgroup.subtree_control"):
        (tmp_path / name).touch()

    cgroups.make("flamectl-node-1")

    for directory in (tmp_path, tmp_path / "flamectl-node-1"):
        assert (directory / "cgroup.subtree_control").read_text() == "+cpu +cpuset +memory +pids"
