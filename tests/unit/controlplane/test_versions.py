"""The go.mod of a Go module alone determines the versions of the control plane."""

import shutil
from pathlib import Path

import pytest

from tools.controlplane.errors import BinariesError
from tools.controlplane.versions import MODULE, MODULES, cache_key, chosen_module, read_versions


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A copy of the Go module."""
    copy = tmp_path / "go"
    shutil.copytree(MODULE, copy)
    return copy


def test_kubernetes_version_chooses_the_go_module() -> None:
    assert chosen_module({}) == chosen_module({"KUBERNETES_VERSION": ""}) == MODULE
    for version, module in MODULES.items():
        assert chosen_module({"KUBERNETES_VERSION": version}) == module
        assert read_versions(module).kubernetes.startswith(f"v{version}.")


def test_unknown_kubernetes_version_is_refused_with_the_choice() -> None:
    with pytest.raises(BinariesError, match=r"KUBERNETES_VERSION is '1\.29': choose one of 1\.37, 1\.30\."):
        chosen_module({"KUBERNETES_VERSION": "1.29"})


@pytest.mark.parametrize("kubernetes", MODULES)
def test_staging_modules_have_the_version_of_kubernetes(kubernetes: str) -> None:
    versions = read_versions(MODULES[kubernetes])
    go_mod = (versions.module / "go.mod").read_text(encoding="utf-8")
    replaced = [line.split()[-1] for line in go_mod.splitlines() if " => " in line]
    assert len(replaced) > 20
    assert set(replaced) == {versions.kubernetes.replace("v1.", "v0.", 1)}


@pytest.mark.parametrize("file", ["go.mod", "go.sum"])
def test_cache_key_changes_with_every_input_file(module: Path, file: str) -> None:
    versions = read_versions(module)
    before = cache_key(versions)
    assert before == cache_key(read_versions())
    changed = module / file
    changed.write_text(changed.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert cache_key(versions) != before
