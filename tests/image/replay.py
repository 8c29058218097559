"""Builds an image by doing what the Dockerfile says, step by step, in containers of `sandbox`.

What differs from a container engine: the base of an image is a virtual environment of the Python that runs this, whatever
version the Dockerfile names, and pip keeps its cache between builds.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.image import dockerfile
from tests.image.dockerfile import Copy, Run, Stage
from tests.image.sandbox import Container, Mount, lay_out, python, run

#: Where the base of an image has its Python, and its PATH.
_BASE = "/base"
BASE_PATH = f"{_BASE}/bin:/usr/bin:/bin"

#: The settings that tell pip where packages come from, which are this machine's. The Dockerfile's own settings go first.
_INDEX = ("PIP_", "SSL_", "REQUESTS_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


@dataclass(frozen=True)
class Image:
    """The result of a build.

    Args:
        root: Its root file system.
    """

    root: Path
    stage: Stage

    @property
    def user(self) -> tuple[int, int]:
        """User and group id of its processes."""
        user, _, group = self.stage.user.partition(":")
        return int(user), int(group)


def build(folder: Path, scratch: Path) -> Image:
    """Build the image of a folder.

    Args:
        folder: The context; it has the Dockerfile.
        scratch: Where the file systems of the stages go.

    Raises:
        RuntimeError: A step failed; the text has what it printed.
        DockerfileError: The Dockerfile says something that cannot be replayed.
    """
    stages = dockerfile.read((folder / "Dockerfile").read_text(encoding="utf-8"), BASE_PATH)
    seen = scratch / "context"
    for file in dockerfile.context(folder):
        target = seen / file.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    base = scratch / "base"
    subprocess.run([python().executable, "-m", "venv", base], check=True)
    roots: dict[str, Path] = {}
    for number, stage in enumerate(stages):
        root = scratch / f"stage-{number}"
        lay_out(root)
        shutil.copytree(base, root / _BASE.lstrip("/"), symlinks=True)
        for step, directory, environment in stage.steps:
            (root / directory.lstrip("/")).mkdir(parents=True, exist_ok=True)
            if isinstance(step, Copy):
                _copy(step, seen if step.stage is None else roots[step.stage], root, directory)
            else:
                _run(step, root, directory, environment)
        roots[stage.name or str(number)] = root
    return Image(root, stages[-1])


def _copy(step: Copy, source: Path, root: Path, directory: str) -> None:
    """COPY: of a folder its content, of a file itself, into a folder if there are several or its name ends in a slash."""
    target = root / os.path.join(directory, step.destination).lstrip("/")  # noqa: PTH118 - an absolute one wins
    for name in step.sources:
        item = source / name.lstrip("/")
        if item.is_dir():
            # Linked: what a step changes it writes anew.
            shutil.copytree(item, target, symlinks=True, dirs_exist_ok=True, copy_function=os.link)
        elif len(step.sources) > 1 or step.destination.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(item, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(item, target)


def _run(step: Run, root: Path, directory: str, environment: Mapping[str, str]) -> None:
    # Everything is downloaded once, not once a test run.
    environment = {name: value for name, value in environment.items() if name != "PIP_NO_CACHE_DIR"}
    mounts = [Mount(_pip_cache(), "/mnt/pip", read_only=False)]
    outside = {name: value for name, value in os.environ.items() if name.startswith(_INDEX)}
    settings = Path.home() / ".config" / "pip"
    if settings.is_dir():
        mounts.append(Mount(settings, "/mnt/.config/pip"))
    everything = {"HOME": "/mnt", "PIP_CACHE_DIR": "/mnt/pip", **outside, **step.variables, **environment}
    run(Container(root, ["sh", "-ec", step.command], everything, directory=directory, mounts=mounts))


@functools.cache
def _pip_cache() -> Path:
    command = [sys.executable, "-m", "pip", "cache", "dir"]
    folder = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    folder.mkdir(parents=True, exist_ok=True)
    return folder
