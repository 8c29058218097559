"""Where kubelet, kube-proxy and CoreDNS come from: the cache, or a build into it from the Go modules beside this file."""

import fcntl
import hashlib
import subprocess
import tempfile
import time
from pathlib import Path

from tools.controlplane.errors import BuildError, tail
from tools.controlplane.progress import Reporter
from tools.controlplane.toolchain import build_environment, cache_root, find_go
from tools.controlplane.versions import host_platform

MODULES = Path(__file__).parent / "go"

#: The module and the main package of each binary.
TARGETS = {
    "kubelet": ("kubernetes", "k8s.io/kubernetes/cmd/kubelet"),
    "kube-proxy": ("kubernetes", "k8s.io/kubernetes/cmd/kube-proxy"),
    "coredns": ("coredns", "github.com/coredns/coredns"),
}
_GO = (1, 24)
_VERSION = "k8s.io/component-base/version"


def cache_directory() -> Path:
    """Return the directory that keeps what nodes need; it need not exist."""
    return cache_root() / "node"


def ensure_binaries(report: Reporter) -> dict[str, Path]:
    """Return the path of each binary, and build those that are not in the cache."""
    directory = cache_directory() / _cache_key()
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in TARGETS:
            if not (directory / name).is_file():
                _build(name, directory, report)
    return {name: directory / name for name in TARGETS}


def kubernetes_version(modules: Path = MODULES) -> str:
    """Return the version of the kubelet, for example "v1.34.4".

    Args:
        modules: The directory with the Go modules.
    """
    lines = (modules / "kubernetes" / "go.mod").read_text(encoding="utf-8").splitlines()
    words = [line.split() for line in lines]
    return next(line[1] for line in words if len(line) > 1 and line[0] == "k8s.io/kubernetes")


def _cache_key() -> str:
    digest = hashlib.sha256()
    for file in sorted(MODULES.glob("*/go.*")):
        digest.update(f"{file.relative_to(MODULES)}\0".encode())
        digest.update(file.read_bytes())
    system, architecture = host_platform()
    return f"kubernetes-{kubernetes_version()}-{system}-{architecture}-{digest.hexdigest()[:12]}"


def _build(name: str, directory: Path, report: Reporter) -> None:
    module, package = TARGETS[name]
    version = kubernetes_version()
    major, minor, *_ = version.removeprefix("v").split(".")
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    flags = " ".join(["-s -w", *(f"-X {_VERSION}.{key}={value}" for key, value in stamps.items())])
    report(f"building {name}, about a minute the first time ...")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=".build-", dir=directory) as workshop:
        draft, log = Path(workshop) / name, Path(workshop) / "log"
        with log.open("wb") as output:
            result = subprocess.run(
                [find_go(_GO, report), "build", "-trimpath", "-ldflags", flags, "-o", str(draft), package],
                cwd=MODULES / module,
                env=build_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if result.returncode != 0:
            said = tail(log, without="go: downloading ")
            raise BuildError(f"building {name} failed with {result.returncode}; the end of its output:\n{said}")
        draft.replace(directory / name)
    report(f"built {name} in {time.monotonic() - begin:.0f} s")
