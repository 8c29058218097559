"""The images of the node, built with buildah outside of its namespaces (pip needs a network) and kept in the cache.

- `base`: what `python:slim` is elsewhere, a Debian with Python, made by debootstrap.
- `operator`: the project's own Dockerfile on that base, and `operator_next`, the same of another revision.
- `flame`: stand-ins for Flame's binaries, from `tests/node/standins`, on the operator's image, whose packages speak gRPC.
- `flame_real`: the same with Flame's own binaries in place of the stand-ins, where `FLAME_HOME` names a directory with
  `bin/` and `migrations/` of Flame 0.6. They must run on Debian 12.

An archive is named by the hash of everything that goes into it, so what has not changed is not built again.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.node.binaries import cache_directory
from tools.node.files import ImageError

ROOT = Path(__file__).resolve().parent.parent.parent
STANDINS = ROOT / "tests" / "node" / "standins"
FLAME_MODEL = ROOT / "tests" / "flame"

BASE = "localhost/python-base:1"
PAUSE = "localhost/pause:1"
OPERATOR = "flamectl-operator:0.1.0"
OPERATOR_NEXT = "flamectl-operator:next"
FLAME = {
    "session-manager": "xflops/flame-session-manager:v0.6.0",
    "executor-manager": "xflops/flame-executor-manager:v0.6.0",
    "object-cache": "xflops/flame-object-cache:v0.6.0",
}

#: Those with Flame's own binaries.
FLAME_REAL = {part: f"{FLAME[part]}-real" for part in ("session-manager", "executor-manager")}
#: What these take from `FLAME_HOME`; the last one serves sessions of the application `flmping`.
_REAL_FILES = ("migrations", *(f"bin/flame-{part}" for part in FLAME_REAL), "bin/flmping-service")

# Raise it when the instructions below change what an image is made of.
_RECIPE = "1"
_SUITE = "bookworm"
_PACKAGES = ("python3", "python3-venv", "python3-pip", "ca-certificates", "libssl3")
# Files that nobody reads in a container.
_NOT_NEEDED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt/archives", "var/lib/apt/lists")
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
#: Files that the operator's image is made of, as in .dockerignore and the Dockerfile's COPY instructions.
_OPERATOR_SOURCES = ("Dockerfile", "pyproject.toml", "README.md", "LICENSE", "requirements", "src")
_PIP_SETTINGS = ("cert", "default_timeout", "extra_index_url", "index_url", "proxy", "trusted_host")

_TAIL = 20


@dataclass(frozen=True, slots=True)
class Images:
    """Archives that containerd can import.

    Attributes:
        pause: The container that holds a Pod's network.
        operator: The operator, and the same of another revision.
        flame: Stand-ins for Flame's binaries, and Flame's own where there are any.
    """

    pause: Path
    operator: tuple[Path, Path]
    flame: tuple[Path, ...]

    def all(self) -> tuple[Path, ...]:
        """Return all archives."""
        return (self.pause, *self.operator, *self.flame)


def flame_home() -> Path | None:
    """Return the directory of Flame's own binaries; None where the environment names none."""
    if not (named := os.environ.get("FLAME_HOME")):
        return None
    home = Path(named).absolute()
    if missing := [name for name in _REAL_FILES if not (home / name).exists()]:
        raise ImageError(f"FLAME_HOME names {home}, which lacks {', '.join(missing)}")
    return home


def disrupted_images() -> dict[str, str]:
    """Return the images of Flame in the scenarios of disruptions, by component: Flame's own binaries where there are any."""
    return FLAME_REAL if flame_home() is not None else {part: FLAME[part] for part in FLAME_REAL}


def ensure_images(report: Callable[[str], None]) -> Images:
    """Return the archives of all images, and build those that are not in the cache."""
    cache = cache_directory() / "images"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return _Workshop(cache, report).images()
        finally:
            _unmount(cache)


class _Workshop:
    """Builds what is missing in the cache. The caller has the lock."""

    def __init__(self, cache: Path, report: Callable[[str], None]) -> None:
        self._cache = cache
        self._report = report
        self._recipe = _digest([], _SUITE, *_PACKAGES, *_NOT_NEEDED, _RECIPE)

    def images(self) -> Images:
        home = flame_home()
        operator = _digest((ROOT / name for name in _OPERATOR_SOURCES), self._recipe)
        standins = _digest([STANDINS, FLAME_MODEL], operator)
        return Images(
            pause=self._archive(PAUSE, self._recipe, self._commit_pause),
            operator=(
                self._archive(OPERATOR, operator, self._commit_operator),
                self._archive(OPERATOR_NEXT, operator, self._commit_operator_next),
            ),
            flame=(
                *(
                    self._archive(image, standins, partial(self._commit_flame, part, image, None))
                    for part, image in FLAME.items()
                ),
                *(() if home is None else self._real(home, standins)),
            ),
        )

    def _real(self, home: Path, standins: str) -> Iterator[Path]:
        key = _digest((home / name for name in _REAL_FILES), standins)
        for part, image in FLAME_REAL.items():
            yield self._archive(image, key, partial(self._commit_flame, part, image, home))

    def _archive(self, image: str, key: str, commit: Callable[[], None]) -> Path:
        name = image.rpartition("/")[2].replace(":", "-")
        archive = self._cache / f"{name}-{key}.tar"
        if archive.exists():
            return archive
        self._report(f"building the image {image} ...")
        begin = time.monotonic()
        commit()
        draft = archive.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        # The name in the archive is the one that Pods use; without a host it means Docker Hub, as in a manifest.
        self._buildah("push", _local(image), f"docker-archive:{draft}:{image}")
        for old in self._cache.glob(f"{name}-*.tar"):
            old.unlink()
        draft.replace(archive)
        self._report(f"built {image} in {time.monotonic() - begin:.0f} s")
        return archive

    def _commit_pause(self) -> None:
        self._commit(PAUSE, entrypoint=["/bin/sleep", "infinity"], user="65535:65535")

    def _commit_operator(self) -> None:
        self._ensure_base()
        pip = self._cache / "pip.conf"
        pip.write_text(_pip_configuration(), encoding="utf-8")
        # While it is built, pip reaches its index as it does here. Nothing of that stays in the image.
        mounts = [f"--volume={pip}:/etc/pip.conf:ro", f"--volume={_CERTIFICATES}:{_CERTIFICATES}:ro"]
        build = (
            "bud",
            "--layers",
            "--pull-never",
            f"--build-arg=BASE={BASE}",
            *mounts,
            f"--tag={_local(OPERATOR)}",
            str(ROOT),
        )
        self._buildah(*build)

    def _commit_operator_next(self) -> None:
        if not self._has(_local(OPERATOR)):
            self._commit_operator()
        container = self._buildah("from", "--pull-never", _local(OPERATOR))
        self._buildah("config", "--label", "org.opencontainers.image.revision=next", container)
        self._buildah("commit", "--rm", container, _local(OPERATOR_NEXT))

    def _commit_flame(self, part: str, image: str, home: Path | None) -> None:
        if not self._has(_local(OPERATOR)):
            self._commit_operator()
        container = self._buildah("from", "--pull-never", _local(OPERATOR))
        # As Flame's images, it runs as root unless its Pod says otherwise.
        self._buildah("config", "--user", "0:0", container)
        self._buildah("copy", container, str(STANDINS), "/usr/local/flame/bin")
        self._buildah("copy", container, str(FLAME_MODEL), "/usr/local/flame/lib/tests/flame")
        self._buildah(
            "run", container, "--", "mkdir", "-p", "/usr/local/flame/work", "/usr/local/flame/migrations/sqlite"
        )
        if home is not None:
            for name in _REAL_FILES:
                self._buildah("copy", container, str(home / name), f"/usr/local/flame/{name}")
        directory = "/usr/local/flame/work" if part == "executor-manager" else "/usr/local/flame"
        entrypoint = f'["/usr/local/flame/bin/flame-{part}"]'
        self._buildah("config", "--env", "FLAME_HOME=/usr/local/flame", container)
        self._buildah("config", "--workingdir", directory, "--entrypoint", entrypoint, "--cmd", "", container)
        self._buildah("commit", "--rm", container, _local(image))

    def _commit(self, image: str, *, entrypoint: Sequence[str], user: str) -> None:
        self._ensure_base()
        container = self._buildah("from", "--pull-never", BASE)
        command = "[" + ", ".join(f'"{word}"' for word in entrypoint) + "]"
        self._buildah("config", "--entrypoint", command, "--cmd", "", "--user", user, container)
        self._buildah("commit", "--rm", container, _local(image))

    def _ensure_base(self) -> None:
        if self._has(BASE) and (self._cache / f"base-{self._recipe}").exists():
            return
        self._report("building the base image with debootstrap, about a minute ...")
        root = self._cache / "base"
        shutil.rmtree(root, ignore_errors=True)
        # Its mounts end with it, even when it is killed; otherwise /proc would stay mounted in a cache that somebody may delete.
        namespace = ["unshare", "--mount", "--propagation", "private", "--"]
        packages = f"--include={','.join(_PACKAGES)}"
        _run([*namespace, "debootstrap", "--variant=minbase", packages, _SUITE, str(root), _mirror()])
        for name in _NOT_NEEDED:
            shutil.rmtree(root / name, ignore_errors=True)
        (root / "usr" / "bin" / "python").symlink_to("python3")
        # The images of the registry have a Python that pip may install into.
        for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            marker.unlink()
        container = self._buildah("from", "scratch")
        self._buildah("add", container, str(root), "/")
        self._buildah("commit", "--rm", container, BASE)
        shutil.rmtree(root, ignore_errors=True)
        for old in self._cache.glob("base-*"):
            old.unlink()
        (self._cache / f"base-{self._recipe}").touch()

    def _has(self, image: str) -> bool:
        return bool(self._buildah("images", "--quiet", "--filter", f"reference={image}"))

    def _buildah(self, *arguments: str) -> str:
        # A storage of its own: nothing of this machine's containers is used or changed.
        storage = ["--root", str(self._cache / "storage"), "--runroot", str(self._cache / "run")]
        environment = os.environ | {
            "BUILDAH_ISOLATION": "chroot",
            "BUILDAH_FORMAT": "docker",
            "STORAGE_DRIVER": "overlay",
        }
        return _run(["buildah", *storage, *arguments], environment)


def _unmount(directory: Path) -> None:
    """Take away the mounts that buildah leaves below its storage."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    for mount in reversed([mount for mount in mounts if mount.startswith(f"{directory}/")]):
        subprocess.run(["umount", "--lazy", mount], capture_output=True, check=False)


def _local(image: str) -> str:
    """Return the name of an image in the storage, where none is taken for one of Docker Hub."""
    return image if image.startswith("localhost/") else f"localhost/{image}"


def _digest(paths: Iterable[Path], *more: str) -> str:
    digest = hashlib.sha256()
    for path in paths:
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        for file in files:
            if "__pycache__" not in file.parts:
                name = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
                digest.update(f"{name}\0{file.stat().st_mode}\0".encode())
                digest.update(file.read_bytes())
    digest.update("\0".join(more).encode())
    return digest.hexdigest()[:12]


def _pip_configuration() -> str:
    """Return a pip.conf with what this machine's pip is told about its index."""
    lines = ["[global]"]
    for setting in _PIP_SETTINGS:
        name = {"default_timeout": "timeout"}.get(setting, setting).replace("_", "-")
        if value := os.environ.get(f"PIP_{setting.upper()}"):
            lines.append(f"{name} = {value}")
    if not any(line.startswith("cert =") for line in lines):
        lines.append(f"cert = {_CERTIFICATES}")
    return "\n".join([*lines, ""])


def _mirror() -> str:
    """Return the address of the Debian mirror that this machine uses, or of the one that serves everybody."""
    for file in sorted(Path("/etc/apt/sources.list.d").glob("*.sources")):
        for line in file.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key == "URIs" and value.strip().rstrip("/").endswith("/debian"):
                return value.strip()
    return "http://deb.debian.org/debian"


def _run(command: Sequence[str], environment: dict[str, str] | None = None) -> str:
    result = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        said = "\n".join((result.stdout + result.stderr).splitlines()[-_TAIL:])
        raise ImageError(f"`{' '.join(command)}` failed with {result.returncode}; the end of its output:\n{said}")
    return result.stdout.strip()
