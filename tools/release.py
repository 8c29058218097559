"""Builds, signs and publishes a release: `python -m tools.release --registry REGISTRY [--dry-run]`. See docs/dev/release.md.

The image and the chart are signed by digest, and the bill of materials is attested for the same digest, so that a tag that moves
later changes nothing. It takes docker with buildx, cosign, helm and git, and a registry that they are logged in to.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tools.sbom import SBOM

ROOT = Path(__file__).resolve().parents[1]
_NAME = "flamectl-operator"
_PLATFORMS = "linux/amd64,linux/arm64"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class ReleaseError(Exception):
    """The release cannot be made from this tree: the message says why."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release.

    Attributes:
        source: URL of the repository, for the label of that name; empty if it has none.
        committed: Its time, in seconds since 1970: the image gets no later one, so that it can be built again.
        rehearsal: Whether to print the commands instead of running them.
    """

    version: str
    registry: str
    source: str
    revision: str
    committed: int
    rehearsal: bool

    @property
    def image(self) -> str:
        """Return the name of the image, without a tag."""
        return f"{self.registry}/{_NAME}"

    @property
    def chart(self) -> str:
        """Return the name of the chart in the registry, without a tag."""
        return f"{self.registry}/charts/{_NAME}"

    def publish(self) -> None:
        """Build, push and sign the image, then the chart.

        Raises:
            ReleaseError: A command failed, or did not say the digest of what it pushed.
        """
        with tempfile.TemporaryDirectory() as folder:
            metadata = Path(folder) / "metadata.json"
            self._run(*self._build(metadata), environment={"SOURCE_DATE_EPOCH": str(self.committed)})
            image = f"{self.image}@{self._digest(metadata)}"
            self._run("cosign", "sign", "--yes", "--recursive", image)
            self._run("cosign", "attest", "--yes", "--type", "cyclonedx", "--predicate", str(SBOM), image)
            self._run("helm", "package", "charts/flamectl-operator", "--destination", folder)
            archive = str(Path(folder) / f"{_NAME}-{self.version}.tgz")
            said = self._run("helm", "push", archive, f"oci://{self.registry}/charts")
            digest = self._found(_DIGEST.search(said), "helm push")
            self._run("cosign", "sign", "--yes", f"{self.chart}@{digest}")
        if not self.rehearsal:
            print(f"released {self.image}:{self.version} and {self.chart}:{self.version}")

    def _build(self, metadata: Path) -> list[str]:
        created = datetime.fromtimestamp(self.committed, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        arguments = {
            "VERSION": self.version,
            "REVISION": self.revision,
            "SOURCE": self.source,
            "CREATED": created,
        }
        return [
            *("docker", "buildx", "build", "--platform", _PLATFORMS, "--push"),
            *("--provenance=mode=max", "--sbom=true"),
            *("--tag", f"{self.image}:{self.version}", "--metadata-file", str(metadata)),
            *(part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")),
            ".",
        ]

    def _digest(self, metadata: Path) -> str:
        if self.rehearsal:
            return "sha256:DIGEST"
        text = json.loads(metadata.read_text(encoding="utf-8")).get("containerimage.digest", "")
        return self._found(_DIGEST.fullmatch(text), "docker buildx build")

    def _found(self, match: re.Match[str] | None, command: str) -> str:
        if match is not None:
            return match[0]
        if self.rehearsal:
            return "sha256:DIGEST"
        raise ReleaseError(f"`{command}` gave no digest, so that nothing can be signed")

    def _run(self, *command: str, environment: Mapping[str, str] | None = None) -> str:
        more = dict(environment or {})
        print(
            f"$ {' '.join(f'{name}={value}' for name, value in more.items())} {shlex.join(command)}".replace(
                "$  ", "$ "
            )
        )
        if self.rehearsal:
            return ""
        result = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(result.stdout, end="", flush=True)
        if result.returncode != 0:
            raise ReleaseError(f"`{shlex.join(command[:3])}` ended with {result.returncode}")
        return result.stdout


def prepare(registry: str, source: str, *, rehearsal: bool) -> Release:
    """Return the release of the checked out commit.

    Raises:
        ReleaseError: The commit has no tag of the project's version, or files differ from it.
    """
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    tag = f"v{version}"
    if not rehearsal:
        if tag not in _git("tag", "--points-at", "HEAD").split():
            raise ReleaseError(f"the checked out commit has no tag {tag}, which is the version of pyproject.toml")
        if changed := _git("status", "--porcelain"):
            raise ReleaseError(f"these files differ from the commit:\n{changed}")
    revision = _git("rev-parse", "HEAD")
    return Release(version, registry, source, revision, int(_git("log", "-1", "--format=%ct")), rehearsal)


def _git(*arguments: str) -> str:
    result = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ReleaseError(f"git {arguments[0]}: {result.stderr.strip()}")
    return result.stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.release", description="Builds, signs and publishes a release."
    )
    parser.add_argument("--registry", required=True, help="where image and chart go, as registry.example/flame")
    parser.add_argument("--source", default="", help="URL of the repository, for the image's label")
    parser.add_argument("--dry-run", action="store_true", help="print the commands and run none")
    options = parser.parse_args(arguments)
    try:
        prepare(options.registry, options.source, rehearsal=options.dry_run).publish()
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
