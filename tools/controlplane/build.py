"""Builds the binaries from the Go module in `go/`, each put in place only when it is complete."""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.controlplane.errors import BuildError, tail
from tools.controlplane.progress import Reporter, about, clock, run_with_progress
from tools.controlplane.toolchain import build_environment, find_go
from tools.controlplane.versions import Versions

__all__ = ["TARGETS", "Target", "build", "build_command", "build_environment", "find_go"]

#: How `go build -v` names a package that it compiles, and a module that it downloads.
_PACKAGE = r"[\w.-]+(/[\w.~-]+)*$"
_DOWNLOAD = "go: downloading "

# Linker flags come from k8s.io/component-base/version; without them the API server says that it is v0.0.0-master, and
# clients judge its features by that.
_KUBERNETES_VERSION = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True)
class Target:
    """One binary to build.

    Attributes:
        package: Its main package.
        seconds: The build time with empty caches on two cores, in the order of `TARGETS`, because a binary shares much with
            those before it. For the progress line only.
    """

    package: str
    seconds: int


TARGETS = {
    "etcd": Target("go.etcd.io/etcd/server/v3", 65),
    "kube-apiserver": Target("k8s.io/kubernetes/cmd/kube-apiserver", 250),
    "kube-controller-manager": Target("k8s.io/kubernetes/cmd/kube-controller-manager", 80),
    "kube-scheduler": Target("k8s.io/kubernetes/cmd/kube-scheduler", 5),
    "kubectl": Target("k8s.io/kubernetes/cmd/kubectl", 35),
    "kwok": Target("sigs.k8s.io/kwok/cmd/kwok", 15),
}


def build(
    names: Sequence[str],
    directory: Path,
    versions: Versions,
    report: Reporter,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Build some of the binaries, one after the other. An interrupted build leaves the finished binaries in the directory.

    Raises:
        ToolchainError: No Go is new enough, and none can be downloaded.
        BuildError: `go build` failed.
    """
    total = sum(TARGETS[name].seconds for name in names)
    # A module of another Kubernetes may need only etcd and kwok from here.
    kubernetes = any(TARGETS[name].package.startswith("k8s.io/kubernetes/") for name in names)
    built = f"Kubernetes {versions.kubernetes}" if kubernetes else " and ".join(names)
    report(f"building {built}, about {about(total)} on two cores")
    go = find_go(versions.go, report, environment=environment)
    workshop = Path(tempfile.mkdtemp(prefix=".build-", dir=directory))
    try:
        _Build(go, names, workshop, directory, versions, report, total, time.monotonic()).run()
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def build_command(go: str, name: str, output: Path, versions: Versions) -> list[str]:
    """Return the command line that builds one binary, to be run in the directory of the Go module."""
    target = TARGETS[name]
    major, minor, *_ = versions.kubernetes.removeprefix("v").split(".")
    stamps = {"gitVersion": versions.kubernetes, "gitMajor": major, "gitMinor": minor}
    ldflags = " ".join(["-s -w", *(f"-X {_KUBERNETES_VERSION}.{key}={value}" for key, value in stamps.items())])
    return [go, "build", "-v", "-trimpath", "-ldflags", ldflags, "-o", str(output), target.package]


@dataclass(frozen=True, slots=True)
class _Build:
    """A build of some binaries.

    Attributes:
        workshop: Where unfinished files are.
        directory: Where finished files go.
        total: Seconds that the build takes with empty caches on two cores.
        begin: When it began, by the monotonic clock.
    """

    go: str
    names: Sequence[str]
    workshop: Path
    directory: Path
    versions: Versions
    report: Reporter
    total: float
    begin: float

    def run(self) -> None:
        """Build one after the other."""
        for number, name in enumerate(self.names):
            begin = time.monotonic()
            self._compile(number, name)
            (self.workshop / name).replace(self.directory / name)
            self.report(f"built {self._place(number)} in {clock(time.monotonic() - begin)}")

    def _compile(self, number: int, name: str) -> None:
        log = self.workshop / f"{name}.log"
        code = run_with_progress(
            build_command(self.go, name, self.workshop / name, self.versions),
            log,
            lambda seconds: self._tell(number, seconds, log),
            self.report.interval,
            directory=self.versions.module,
            environment=build_environment(),
        )
        if code != 0:
            # Go names modules and packages in any order with what went wrong.
            said = tail(log, without=f"{_DOWNLOAD}|{_PACKAGE}")
            raise BuildError(f"building {name} failed: {self.go} ended with {code}; the end of its output:\n{said}")

    def _tell(self, number: int, seconds: float, log: Path) -> None:
        before = sum(TARGETS[name].seconds for name in self.names[:number])
        done = (before + min(seconds, TARGETS[self.names[number]].seconds)) / self.total
        passed = time.monotonic() - self.begin
        self.report.moving(f"{self._place(number)}: {news(log, passed, self.total)}", done)

    def _place(self, number: int) -> str:
        return f"{self.names[number]} ({number + 1} of {len(self.names)})"


def news(log: Path, passed: float, total: float) -> str:
    """Return what Go has done so far, and how long it took.

    Args:
        log: The output of `go build -v`.
        passed: Seconds since the begin of the build.
        total: Seconds that were estimated for all of it.
    """
    if passed > total:
        # Both do not fit into a line.
        return f"{clock(passed)}, longer than estimated"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    compiled = sum(1 for line in lines if re.match(_PACKAGE, line))
    downloads = sum(1 for line in lines if line.startswith(_DOWNLOAD))
    done = f"{downloads} downloads" if compiled == 0 and downloads else f"{compiled} packages"
    return f"{done}, {clock(passed)} of {clock(total)}"
