"""Builds the binaries from the Go modules beside this file, each put in place only when it is complete."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.controlplane.errors import BuildError, ToolchainError, tail
from tools.controlplane.versions import MODULES, host_platform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.controlplane.versions import Versions

# Linker flags come from k8s.io/component-base/version; without them the API server says that it is v0.0.0-master, and
# clients judge its features by that.
_KUBERNETES_VERSION = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True)
class Target:
    """One binary to build.

    Attributes:
        module: Directory below `go/`.
        package: Its main package.
        seconds: How long it takes with empty caches on two cores, in the order of `TARGETS`, for it shares much with
            those before it. For the progress line only.
    """

    module: str
    package: str
    seconds: int


TARGETS = {
    "etcd": Target("kubernetes", "go.etcd.io/etcd/server/v3", 40),
    "kube-apiserver": Target("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", 170),
    "kube-controller-manager": Target("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", 60),
    "kube-scheduler": Target("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", 10),
    "kubectl": Target("kubernetes", "k8s.io/kubernetes/cmd/kubectl", 25),
    "kwok": Target("kwok", "sigs.k8s.io/kwok/cmd/kwok", 65),
}


def build(names: Sequence[str], directory: Path, versions: Versions, report: Callable[[str], None]) -> None:
    """Build some of the binaries, one after the other.

    Args:
        names: Keys of `TARGETS`.
        directory: Where they go; it is there. An interrupted build leaves in it the ones that are complete.
        versions: What the go.mod files require.
        report: Gets a line when a binary is begun and when it is done.

    Raises:
        ToolchainError: No Go, or one that is too old.
        BuildError: `go build` failed.
    """
    go = find_go(versions.go)
    workshop = Path(tempfile.mkdtemp(prefix=".build-", dir=directory))
    try:
        for number, name in enumerate(names, start=1):
            expected = _about(TARGETS[name].seconds)
            report(f"building {name} ({number} of {len(names)}), {expected} the first time on two cores ...")
            begin = time.monotonic()
            _build_one(go, name, workshop, versions)
            (workshop / name).replace(directory / name)
            report(f"built {name} in {time.monotonic() - begin:.0f} s")
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def find_go(minimum: tuple[int, ...]) -> str:
    """Return the path of a `go` that is new enough.

    It is asked here, because with `GOTOOLCHAIN=local` an old one only says that it can't read go.mod, and without that
    setting it would quietly download another Go.

    Args:
        minimum: The lowest version, as (1, 24).

    Raises:
        ToolchainError: There is none, or it is too old.
    """
    wanted = ".".join(str(part) for part in minimum[:2])
    advice = (
        f"Install Go {wanted} or newer (go.dev/doc/install), or set KUBEBUILDER_ASSETS to a directory that has the "
        f"binaries: {', '.join(TARGETS)}."
    )
    go = shutil.which("go")
    if go is None:
        raise ToolchainError(f"The control plane has to be built and there is no `go` in the PATH. {advice}")
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
    # A development build of Go says "devel"; whoever has one knows what to do.
    if match is not None and tuple(int(part) for part in match[1].split("."))[:2] < minimum[:2]:
        raise ToolchainError(f"{go} is Go {match[1]}, which is too old to build the control plane. {advice}")
    return go


def build_command(go: str, name: str, output: Path, versions: Versions) -> list[str]:
    """Return the command line that builds one binary, to be run in the directory of its module.

    Args:
        go: Path of the Go command.
        name: Key of `TARGETS`.
        output: The file to write.
        versions: What the go.mod files require.
    """
    target = TARGETS[name]
    major, minor, *_ = versions.kubernetes.removeprefix("v").split(".")
    stamps = {"gitVersion": versions.kubernetes, "gitMajor": major, "gitMinor": minor}
    ldflags = " ".join(["-s -w", *(f"-X {_KUBERNETES_VERSION}.{key}={value}" for key, value in stamps.items())])
    return [go, "build", "-trimpath", "-ldflags", ldflags, "-o", str(output), target.package]


def build_environment() -> dict[str, str]:
    """Return the environment of `go build`: the caller's, without what would build something else."""
    system, architecture = host_platform()
    return os.environ | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly",  # go.sum is complete: nothing that it doesn't name gets in
        "GOTOOLCHAIN": "local",  # no silent download of another Go
        "GOWORK": "off",
        "GOOS": system,
        "GOARCH": architecture,
    }


def _build_one(go: str, name: str, workshop: Path, versions: Versions) -> None:
    log = workshop / f"{name}.log"
    with log.open("wb") as output:
        result = subprocess.run(
            build_command(go, name, workshop / name, versions),
            cwd=MODULES / TARGETS[name].module,
            env=build_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if result.returncode != 0:
        # Go names every module that it downloads, in any order with what went wrong.
        said = tail(log, without="go: downloading ")
        raise BuildError(f"building {name} failed: {go} ended with {result.returncode}; the end of its output:\n{said}")


def _about(seconds: int) -> str:
    minute = 60
    if seconds < minute:
        return f"about {math.ceil(seconds / 10) * 10} seconds"
    minutes = math.ceil(seconds / minute)
    return "about a minute" if minutes == 1 else f"about {minutes} minutes"
