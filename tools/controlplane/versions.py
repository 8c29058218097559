"""Which versions the control plane is made of: the go.mod of each Go module here is the only place that says so."""

import hashlib
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.controlplane.errors import BinariesError

_HERE = Path(__file__).parent
#: The Go module that builds everything, with the newest Kubernetes that the operator is tested on.
MODULE = _HERE / "go"
#: The Go module of each Kubernetes. One that lists fewer programs is completed with those of `MODULE`.
MODULES = {"1.37": MODULE, "1.30": _HERE / "go-1.30"}
#: The environment variable that chooses one of them.
VARIABLE = "KUBERNETES_VERSION"

# How Go calls what Python's platform module calls otherwise.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions, as their modules write them.

    Attributes:
        etcd: For example "v3.7.0"; None if the module does not build it.
        kwok: For example "v0.8.0"; None if the module does not build it.
        go: The lowest Go that builds all of them, for example (1, 26).
        packages: The main packages that the module builds.
        module: The directory of the Go module that names the versions.
    """

    kubernetes: str
    etcd: str | None
    kwok: str | None
    go: tuple[int, ...]
    packages: tuple[str, ...]
    module: Path


def chosen_module(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of the Go module that KUBERNETES_VERSION names, by default the newest one."""
    version = environment.get(VARIABLE) or next(iter(MODULES))
    if version not in MODULES:
        raise BinariesError(f"{VARIABLE} is {version!r}: choose one of {', '.join(MODULES)}.")
    return MODULES[version]


def read_versions(module: Path = MODULE) -> Versions:
    """Read the versions from a go.mod."""
    go_mod = (module / "go.mod").read_text(encoding="utf-8")
    return Versions(
        kubernetes=_required(go_mod, "k8s.io/kubernetes"),
        etcd=_version(go_mod, "go.etcd.io/etcd/server/v3"),
        kwok=_version(go_mod, "sigs.k8s.io/kwok"),
        go=_go_directive(go_mod),
        packages=_tools(go_mod),
        module=module,
    )


def host_platform() -> tuple[str, str]:
    """Return operating system and architecture of this machine in Go's words, as ("linux", "amd64")."""
    machine = platform.machine().lower()
    return platform.system().lower(), _ARCHITECTURES.get(machine, machine)


def cache_key(versions: Versions) -> str:
    """Return a directory name that changes with everything that goes into the binaries."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update(f"{name}\0".encode())
        digest.update((versions.module / name).read_bytes())
    system, architecture = host_platform()
    parts = {"kubernetes": versions.kubernetes, "etcd": versions.etcd, "kwok": versions.kwok}
    named = "-".join(f"{name}-{version}" for name, version in parts.items() if version is not None)
    return f"{named}-{system}-{architecture}-{digest.hexdigest()[:12]}"


def _required(go_mod: str, module: str) -> str:
    version = _version(go_mod, module)
    if version is None:
        raise ValueError(f"go.mod requires no version of {module}")
    return version


def _version(go_mod: str, module: str) -> str | None:
    match = re.search(rf"^(?:require)?\s*{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    return None if match is None else match[1]


def _tools(go_mod: str) -> tuple[str, ...]:
    match = re.search(r"^tool \((.*?)^\)", go_mod, re.MULTILINE | re.DOTALL)
    if match is None:
        raise ValueError("go.mod has no tool directive")
    return tuple(match[1].split())


def _go_directive(go_mod: str) -> tuple[int, ...]:
    match = re.search(r"^go (\d+(?:\.\d+)+)$", go_mod, re.MULTILINE)
    if match is None:
        raise ValueError("go.mod has no go directive")
    return tuple(int(part) for part in match[1].split("."))
