"""go.mod alone determines the versions of the control plane."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tools.controlplane.versions import MODULES, Versions, cache_key, host_platform, read_versions

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    copy = tmp_path / "go"
    shutil.copytree(MODULES, copy)
    return copy


def test_versions_are_read_from_the_go_modules() -> None:
    versions = read_versions()
    assert versions.kubernetes == "v1.34.4"
    assert versions.etcd.startswith("v3.")
    assert versions.kwok.startswith("v0.")
    assert versions.go >= (1, 24)


def test_staging_modules_have_the_version_of_kubernetes() -> None:
    expected = read_versions().kubernetes.replace("v1.", "v0.", 1)
    go_mod = (MODULES / "kubernetes" / "go.mod").read_text(encoding="utf-8")
    replaced = [line.split()[-1] for line in go_mod.splitlines() if " => " in line]
    assert len(replaced) > 20
    assert set(replaced) == {expected}


def test_cache_key_is_readable() -> None:
    key = cache_key(Versions("v1.34.4", "v3.6.4", "v0.7.0", (1, 24)))
    assert key.startswith("kubernetes-v1.34.4-etcd-v3.6.4-kwok-v0.7.0-" + "-".join(host_platform()))


@pytest.mark.parametrize("file", ["kubernetes/go.mod", "kubernetes/go.sum", "kwok/go.mod", "kwok/go.sum"])
def test_cache_key_changes_with_every_input_file(modules: Path, file: str) -> None:
    versions = read_versions(modules)
    before = cache_key(versions, modules)
    assert before == cache_key(versions)
    changed = modules / file
    changed.write_text(changed.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert cache_key(versions, modules) != before


def test_cache_key_changes_with_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = read_versions()
    keys = set()
    for machine in ("x86_64", "aarch64"):
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        keys.add(cache_key(versions))
    assert len(keys) == 2


def test_go_mod_without_its_module_is_refused(modules: Path) -> None:
    (modules / "kwok" / "go.mod").write_text("module x\n\ngo 1.24.0\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"sigs\.k8s\.io/kwok"):
        read_versions(modules)
