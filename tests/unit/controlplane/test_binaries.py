"""Binaries come from KUBEBUILDER_ASSETS, then from the cache, then from a build; a fake `go` stands in for the real one."""

import fcntl
import io
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tools.controlplane.binaries import NAMES, cache_directory, choose, ensure_binaries
from tools.controlplane.errors import BinariesError, BuildError
from tools.controlplane.progress import Reporter
from tools.controlplane.versions import MODULES, read_versions

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
    said: io.StringIO = field(default_factory=io.StringIO)

    @property
    def cache(self) -> Path:
        return cache_directory(read_versions(), self.environment)

    @property
    def builds(self) -> list[str]:
        log = self.bin / "builds"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    @property
    def lines(self) -> list[str]:
        return [line.removeprefix("controlplane: ") for line in self.said.getvalue().splitlines()]

    def ensure(self) -> dict[str, Path]:
        return ensure_binaries(environment=self.environment, report=Reporter(self.said))


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

    def test_complete_cache_needs_no_go(self, machine: Machine) -> None:
        put(machine.cache, *NAMES)
        (machine.bin / "go").unlink()
        assert set(machine.ensure().values()) == {machine.cache / name for name in NAMES}
        assert machine.lines == []

    def test_only_binaries_missing_from_the_assets_are_built(self, machine: Machine, tmp_path: Path) -> None:
        assets = tmp_path / "assets"
        put(assets, "etcd", "kube-apiserver", "kubectl")
        machine.environment["KUBEBUILDER_ASSETS"] = str(assets)
        paths = machine.ensure()
        assert paths["kube-apiserver"] == assets / "kube-apiserver"
        assert paths["kwok"] == machine.cache / "kwok"
        assert len(machine.builds) == 3
        assert "does not have kube-controller-manager, kube-scheduler, kwok" in machine.lines[-1]

    def test_invalid_assets_directory_is_refused(self, machine: Machine, tmp_path: Path) -> None:
        machine.environment["KUBEBUILDER_ASSETS"] = str(tmp_path / "nowhere")
        with pytest.raises(BinariesError, match="KUBEBUILDER_ASSETS"):
            machine.ensure()


class TestOtherKubernetes:
    def test_programs_come_from_its_module_and_the_rest_from_the_default(self, machine: Machine) -> None:
        machine.environment["KUBERNETES_VERSION"] = "1.30"
        paths = machine.ensure()
        assert {name for name, path in paths.items() if path.parent == machine.cache} == {"etcd", "kwok"}
        older = cache_directory(read_versions(MODULES["1.30"]), machine.environment)
        assert {name for name, path in paths.items() if path.parent == older} == set(NAMES) - {"etcd", "kwok"}
        assert [build.rpartition(" ")[2] for build in machine.builds] == ["go-1.30"] * 4 + ["go"] * 2
        assert machine.lines[0].startswith("building Kubernetes v1.30.")
        assert any(line.startswith("building etcd and kwok, about") for line in machine.lines)


class TestBuild:
    def test_every_binary_is_built_once(self, machine: Machine) -> None:
        first = machine.ensure()
        assert machine.ensure() == first
        assert all(os.access(path, os.X_OK) for path in first.values())
        assert len(machine.builds) == len(NAMES) == 6

    def test_build_is_static_and_reproducible_with_the_locked_versions(self, machine: Machine) -> None:
        machine.ensure()
        assert machine.builds[0] == "go.etcd.io/etcd/server/v3 0 -mod=readonly local go"
        assert machine.builds[-1] == "sigs.k8s.io/kwok/cmd/kwok 0 -mod=readonly local go"

    def test_failed_build_shows_the_output_of_go(self, machine: Machine) -> None:
        (machine.bin / "fail-at").write_text("k8s.io/kubernetes/cmd/kube-scheduler", encoding="utf-8")
        with pytest.raises(BuildError, match=r"building kube-scheduler failed: \S+/go ended with 1;(.|\n)*everything"):
            machine.ensure()

    def test_interrupted_build_is_never_taken_as_complete(self, machine: Machine) -> None:
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
        # Complete binaries are not built again; the one that failed is.
        assert len(machine.builds) == len(NAMES) + 1

    def test_concurrent_build_waits_and_builds_nothing(self, machine: Machine) -> None:
        lock = machine.cache.with_name(f"{machine.cache.name}.lock")
        lock.parent.mkdir(parents=True)
        waiting = threading.Event()

        class Heard(io.StringIO):
            def write(self, text: str) -> int:
                waiting.set()
                return super().write(text)

        machine.said = Heard()
        with lock.open("w", encoding="utf-8") as first:
            fcntl.flock(first, fcntl.LOCK_EX)
            second = threading.Thread(target=machine.ensure)
            second.start()
            assert waiting.wait(120)
            put(machine.cache, *NAMES)
        second.join(120)
        assert not second.is_alive()
        assert machine.lines[0].startswith("waiting for another process that builds the control plane, 0:0")
        assert machine.builds == []
