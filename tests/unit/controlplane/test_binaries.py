"""Binaries come from KUBEBUILDER_ASSETS, then from the cache, then from a build; a fake `go` stands in for the real one."""

from __future__ import annotations

import fcntl
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tools.controlplane.binaries import NAMES, cache_directory, choose, ensure_binaries
from tools.controlplane.build import build_command, build_environment, find_go
from tools.controlplane.errors import BinariesError, BuildError, ToolchainError
from tools.controlplane.versions import read_versions

# Answers `go version`, logs what it builds, and fails at the package that the file `fail-at` names, half-way through.
FAKE_GO = """#!/bin/sh
here=$(dirname "$0")
if [ "$1" = version ]; then echo "go version $(cat "$here/version") linux/amd64"; exit; fi
while [ $# -gt 1 ]; do
  if [ "$1" = -o ]; then output=$2; fi
  shift
done
echo "$1 $CGO_ENABLED $GOFLAGS $GOTOOLCHAIN $(basename "$PWD")" >> "$here/builds"
printf half > "$output"
if [ "$1" = "$(cat "$here/fail-at" 2>/dev/null)" ]; then
  echo "$1: undefined: everything" >&2
  seq -f 'go: downloading example.com/module v1.%g' 50 >&2
  exit 1
fi
printf '#!/bin/sh\\n' > "$output"
chmod +x "$output"
"""


@dataclass
class Machine:
    """A machine with a fake Go and an empty cache."""

    bin: Path
    environment: dict[str, str]
    lines: list[str] = field(default_factory=list)

    @property
    def cache(self) -> Path:
        return cache_directory(read_versions(), self.environment)

    @property
    def builds(self) -> list[str]:
        log = self.bin / "builds"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def ensure(self) -> dict[str, Path]:
        return ensure_binaries(environment=self.environment, report=self.lines.append)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "version").write_text("go1.26.0", encoding="utf-8")
    go = folder / "go"
    go.write_text(FAKE_GO, encoding="utf-8")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.defpath}")
    return Machine(folder, {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")})


def put(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (folder / name).chmod(0o755)


class TestOrderOfPreference:
    def test_assets_come_before_the_cache(self, tmp_path: Path) -> None:
        put(tmp_path / "assets", "etcd", "kubectl")
        put(tmp_path / "cache", *NAMES)
        choice = choose(tmp_path / "assets", tmp_path / "cache")
        assert choice.missing == ()
        assert {name for name, path in choice.paths.items() if path.parent.name == "assets"} == {"etcd", "kubectl"}

    def test_what_is_nowhere_is_missing(self, tmp_path: Path) -> None:
        put(tmp_path, *(name for name in NAMES if name != "kwok"))
        assert choose(None, tmp_path).missing == ("kwok",)

    def test_a_file_that_cannot_be_executed_does_not_count(self, tmp_path: Path) -> None:
        put(tmp_path, *NAMES)
        (tmp_path / "etcd").chmod(0o644)
        assert choose(None, tmp_path).missing == ("etcd",)

    def test_a_full_cache_needs_no_go(self, machine: Machine) -> None:
        put(machine.cache, *NAMES)
        (machine.bin / "go").unlink()
        assert set(machine.ensure().values()) == {machine.cache / name for name in NAMES}
        assert machine.lines == []

    def test_only_what_the_assets_lack_is_built_and_that_is_said(self, machine: Machine, tmp_path: Path) -> None:
        assets = tmp_path / "assets"
        put(assets, "etcd", "kube-apiserver", "kubectl")
        machine.environment["KUBEBUILDER_ASSETS"] = str(assets)
        paths = machine.ensure()
        assert paths["kube-apiserver"] == assets / "kube-apiserver"
        assert paths["kwok"] == machine.cache / "kwok"
        assert len(machine.builds) == 3
        assert "does not have kube-controller-manager, kube-scheduler, kwok" in machine.lines[-1]

    def test_an_assets_directory_that_is_none_is_refused(self, machine: Machine, tmp_path: Path) -> None:
        machine.environment["KUBEBUILDER_ASSETS"] = str(tmp_path / "nowhere")
        with pytest.raises(BinariesError, match="KUBEBUILDER_ASSETS"):
            machine.ensure()

    def test_the_cache_is_below_the_home_directory_by_default(self) -> None:
        versions = read_versions()
        folder = cache_directory(versions, {"HOME": "/home/me", "XDG_CACHE_HOME": ""})
        assert folder.parent == Path("/home/me/.cache/flamectl-operator/controlplane")


class TestBuild:
    def test_everything_is_built_once(self, machine: Machine) -> None:
        first = machine.ensure()
        assert machine.ensure() == first
        assert all(os.access(path, os.X_OK) for path in first.values())
        assert len(machine.builds) == len(NAMES) == 6

    def test_progress_says_what_is_built_and_how_long_it_takes(self, machine: Machine) -> None:
        machine.ensure()
        assert machine.lines[2].startswith("building kube-apiserver (2 of 6), about 3 minutes the first time")
        assert machine.lines[3].startswith("built kube-apiserver in ")

    def test_it_is_static_reproducible_and_takes_no_other_versions_or_toolchain(self, machine: Machine) -> None:
        machine.ensure()
        assert machine.builds[0] == "go.etcd.io/etcd/server/v3 0 -mod=readonly local kubernetes"
        assert machine.builds[-1] == "sigs.k8s.io/kwok/cmd/kwok 0 -mod=readonly local kwok"

    def test_a_failure_shows_the_output_of_go(self, machine: Machine) -> None:
        (machine.bin / "fail-at").write_text("k8s.io/kubernetes/cmd/kube-scheduler", encoding="utf-8")
        with pytest.raises(BuildError, match=r"building kube-scheduler failed: \S+/go ended with 1;(.|\n)*everything"):
            machine.ensure()

    def test_what_an_interrupted_build_leaves_is_never_taken_as_complete(self, machine: Machine) -> None:
        (machine.bin / "fail-at").write_text("k8s.io/kubernetes/cmd/kube-scheduler", encoding="utf-8")
        with pytest.raises(BuildError):
            machine.ensure()
        assert sorted(path.name for path in machine.cache.iterdir()) == [
            "etcd",
            "kube-apiserver",
            "kube-controller-manager",
        ]
        # A kill leaves the workshop itself.
        put(machine.cache / ".build-killed", "kube-scheduler")
        (machine.bin / "fail-at").unlink()
        machine.ensure()
        assert sorted(path.name for path in machine.cache.iterdir()) == sorted(NAMES)
        # What was complete is not built again; the one that failed is.
        assert len(machine.builds) == len(NAMES) + 1

    def test_a_second_run_waits_for_the_first_one_and_builds_nothing(self, machine: Machine) -> None:
        lock = machine.cache.with_name(f"{machine.cache.name}.lock")
        lock.parent.mkdir(parents=True)
        waiting = threading.Event()

        def report(line: str) -> None:
            machine.lines.append(line)
            waiting.set()

        with lock.open("w", encoding="utf-8") as first:
            fcntl.flock(first, fcntl.LOCK_EX)
            second = threading.Thread(
                target=ensure_binaries, kwargs={"environment": machine.environment, "report": report}
            )
            second.start()
            assert waiting.wait(120)
            put(machine.cache, *NAMES)
        second.join(120)
        assert not second.is_alive()
        assert machine.lines == ["another process is building the control plane; waiting for it ..."]
        assert machine.builds == []


class TestToolchain:
    def test_without_go_the_error_says_what_to_install_or_to_set(self, machine: Machine) -> None:
        (machine.bin / "go").unlink()
        with pytest.raises(
            ToolchainError, match=r"no `go` in the PATH\. Install Go 1\.24 or newer.*KUBEBUILDER_ASSETS"
        ):
            machine.ensure()

    @pytest.mark.parametrize("version", ["go1.22.5", "go1.9"])
    def test_a_go_that_is_too_old_is_refused_before_it_builds_anything(self, machine: Machine, version: str) -> None:
        (machine.bin / "version").write_text(version, encoding="utf-8")
        with pytest.raises(ToolchainError, match=r"is Go 1\.\d.*too old"):
            machine.ensure()
        assert machine.builds == []

    @pytest.mark.parametrize("version", ["go1.24", "go1.24.0", "go1.26.8", "go2.0", "devel go1.27-abc", "devel +abc"])
    def test_a_go_that_is_new_enough_is_taken(self, machine: Machine, version: str) -> None:
        (machine.bin / "version").write_text(version, encoding="utf-8")
        assert find_go((1, 24, 0)) == str(machine.bin / "go")


def test_the_binaries_know_their_version() -> None:
    versions = read_versions()
    command = build_command("/usr/bin/go", "kubectl", Path("/out"), versions)
    assert command[-3:] == ["-o", "/out", "k8s.io/kubernetes/cmd/kubectl"]
    assert "-trimpath" in command
    ldflags = command[command.index("-ldflags") + 1]
    assert f"-X k8s.io/component-base/version.gitVersion={versions.kubernetes}" in ldflags
    assert "gitMajor=1" in ldflags


def test_the_build_is_for_this_machine_whatever_the_caller_builds_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOS", "plan9")
    monkeypatch.setenv("GOFLAGS", "-mod=vendor")
    environment = build_environment()
    assert environment["GOOS"] != "plan9"
    assert environment["GOFLAGS"] == "-mod=readonly"
