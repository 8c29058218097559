"""Which versions the control plane is made of: go/go.mod is the only place that says so."""

from __future__ import annotations

import hashlib
import platform
import re
from dataclasses import dataclass
from pathlib import Path

#: The directory of the Go module.
MODULE = Path(__file__).parent / "go"

# How Go calls what Python's platform module calls otherwise.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions, as their modules write them.

    Attributes:
        kubernetes: For example "v1.36.3".
        etcd: For example "v3.6.8".
        kwok: For example "v0.8.0".
        go: The lowest Go that builds all of them, for example (1, 26).
        module: The directory of the Go module that says so.
    """

    kubernetes: str
    etcd: str
    kwok: str
    go: tuple[int, ...]
    module: Path


def read_versions(module: Path = MODULE) -> Versions:
    """Read the versions from a go.mod.

    Args:
        module: The directory of the Go module.

    Raises:
        ValueError: The go.mod doesn't name the version it is there for.
    """
    go_mod = (module / "go.mod").read_text(encoding="utf-8")
    return Versions(
        kubernetes=_required(go_mod, "k8s.io/kubernetes"),
        etcd=_required(go_mod, "go.etcd.io/etcd/server/v3"),
        kwok=_required(go_mod, "sigs.k8s.io/kwok"),
        go=_go_directive(go_mod),
        module=module,
    )


def host_platform() -> tuple[str, str]:
    """Return operating system and architecture of this machine in Go's words, as ("linux", "amd64")."""
    machine = platform.machine().lower()
    return platform.system().lower(), _ARCHITECTURES.get(machine, machine)


def cache_key(versions: Versions) -> str:
    """Return a directory name that changes with everything that goes into the binaries.

    Args:
        versions: They make the name readable; the hash of their Go module makes it right.
    """
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update(f"{name}\0".encode())
        digest.update((versions.module / name).read_bytes())
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
