"""Helm, which tests of the chart render and install it with. Built like the control plane, from the module beside this file.

`HELM` names another one. Without it: the cache, else a build into the cache, which takes Go and about a minute, much less
where the control plane was built before.
"""

import fcntl
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

from tools.controlplane.errors import BuildError
from tools.controlplane.toolchain import build_environment, find_go
from tools.controlplane.versions import host_platform, read_versions

_MODULE = Path(__file__).parent
_PACKAGE = "helm.sh/helm/v3/cmd/helm"
_GO = (1, 24)

# Which Kubernetes it takes a cluster for that it is not told about, as Helm's own Makefile sets it.
_VERSION_VARIABLES = ("helm.sh/helm/v3/pkg/chartutil", "helm.sh/helm/v3/pkg/lint/rules")


def ensure_helm() -> Path:
    """Return the path of helm, and build it if it is nowhere. Safe to call from several processes at a time."""
    configured = os.environ.get("HELM")
    if configured:
        return Path(configured)
    folder = _cache()
    helm = folder / "helm"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not helm.exists():
            _build(helm)
    return helm


def _cache() -> Path:
    """Return a folder whose name changes with everything that goes into the binary."""
    go_mod = (_MODULE / "go.mod").read_text(encoding="utf-8")
    found = re.search(r"helm\.sh/helm/v3 (v\S+)", go_mod)
    if found is None:
        raise ValueError("go.mod requires no version of helm")
    digest = hashlib.sha256(f"{_flags()}\n{go_mod}".encode() + (_MODULE / "go.sum").read_bytes()).hexdigest()[:12]
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    system, architecture = host_platform()
    return base / "flamectl-operator" / "helm" / f"{found[1]}-{system}-{architecture}-{digest}"


def _flags() -> str:
    major, minor, *_ = read_versions().kubernetes.removeprefix("v").split(".")
    stamps = {"k8sVersionMajor": major, "k8sVersionMinor": minor}
    named = [f"-X {package}.{name}={value}" for package in _VERSION_VARIABLES for name, value in stamps.items()]
    return " ".join(["-s -w", *named])


def _build(helm: Path) -> None:
    go = find_go(_GO)
    print("helm: building it, about a minute the first time ...", file=sys.stderr, flush=True)
    draft = helm.with_name("helm.draft")
    result = subprocess.run(
        [go, "build", "-trimpath", "-ldflags", _flags(), "-o", str(draft), _PACKAGE],
        cwd=_MODULE,
        env=build_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise BuildError(f"building helm failed: {result.stderr[-4000:]}")
    draft.replace(helm)
