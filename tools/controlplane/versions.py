"""Which versions the control plane is made of: go/*/go.mod are the only place that says so."""

from __future__ import annotations

import hashlib
import platform
import re
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).parent / "go"

# How Go calls what Python's platform module calls otherwise.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions, as their modules write them.

    Attributes:
        kubernetes: For example "v1.34.4".
        etcd: For example "v3.6.4".
        kwok: For example "v0.7.0".
        go: The lowest Go that builds all of them, for example (1, 24).
    """

    kubernetes: str
    etcd: str
    kwok: str
    go: tuple[int, ...]


def read_versions(modules: Path = MODULES) -> Versions:
    """Read the versions from the go.mod files.

    Args:
        modules: The directory that has the Go modules `kubernetes` and `kwok`.

    Raises:
        ValueError: A go.mod doesn't name the version it is there for.
    """
    kubernetes = (modules / "kubernetes" / "go.mod").read_text(encoding="utf-8")
    kwok = (modules / "kwok" / "go.mod").read_text(encoding="utf-8")
    return Versions(
        kubernetes=_required(kubernetes, "k8s.io/kubernetes"),
        etcd=_required(kubernetes, "go.etcd.io/etcd/server/v3"),
        kwok=_required(kwok, "sigs.k8s.io/kwok"),
        go=max(_go_directive(kubernetes), _go_directive(kwok)),
    )


def host_platform() -> tuple[str, str]:
    """Return operating system and architecture of this machine in Go's words, as ("linux", "amd64")."""
    machine = platform.machine().lower()
    return platform.system().lower(), _ARCHITECTURES.get(machine, machine)


def cache_key(versions: Versions, modules: Path = MODULES) -> str:
    """Return a directory name that changes with everything that goes into the binaries.

    Args:
        versions: From `read_versions`; they make the name readable, the hash makes it right.
        modules: The directory that has the Go modules.
    """
    digest = hashlib.sha256()
    for file in sorted(modules.glob("*/go.*")):
        digest.update(f"{file.relative_to(modules)}\0".encode())
        digest.update(file.read_bytes())
    system, architecture = host_platform()
    return (
        f"kubernetes-{versions.kubernetes}-etcd-{versions.etcd}-kwok-{versions.kwok}"
        f"-{system}-{architecture}-{digest.hexdigest()[:12]}"
    )


def _required(go_mod: str, module: str) -> str:
    match = re.search(rf"^(?:require)?\s*{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if match is None:
        raise ValueError(f"go.mod requires no version of {module}")
    return match[1]


def _go_directive(go_mod: str) -> tuple[int, ...]:
    match = re.search(r"^go (\d+(?:\.\d+)+)$", go_mod, re.MULTILINE)
    if match is None:
        raise ValueError("go.mod has no go directive")
    return tuple(int(part) for part in match[1].split("."))
