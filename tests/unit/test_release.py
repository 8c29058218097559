"""A release is signed by digest and made from a tagged commit; stand-ins take the place of docker, cosign, helm and git."""

import os
import re
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tools import release

ROOT = Path(__file__).resolve().parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
IMAGE_DIGEST, CHART_DIGEST = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
COMMIT = "c" * 40
REGISTRY = "registry.example/flame"
PROGRAMS = ("docker", "cosign", "helm", "git")

# Logs its command line, answers as the real one would, and fails if a file with the name of its first argument is there.
STAND_IN = f"""#!/bin/sh
here=$(dirname "$0")
name=$(basename "$0")
[ "$name" = git ] || echo "$name $*" >> "$here/log"
case "$name $1" in
  "git tag") cat "$here/tags";;
  "git status") cat "$here/changed";;
  "git rev-parse") echo {COMMIT};;
  "git log") echo 1700000000;;
  "docker buildx")
    echo "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" >> "$here/log"
    while [ $# -gt 1 ]; do
      if [ "$1" = --metadata-file ]; then echo '{{"containerimage.digest": "{IMAGE_DIGEST}"}}' > "$2"; fi
      shift
    done;;
  "helm push") echo "Pushed: $3"; echo "Digest: {CHART_DIGEST}";;
esac
[ ! -e "$here/$name-fails" ]
"""


@dataclass
class Tools:
    """A folder of stand-ins that is the whole PATH but for the shell's own commands."""

    folder: Path

    def has(self, name: str, text: str = "") -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    @property
    def log(self) -> list[str]:
        file = self.folder / "log"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    for name in PROGRAMS:
        (tmp_path / name).write_text(STAND_IN, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    found = Tools(tmp_path)
    found.has("tags", f"latest\nv{VERSION}\n")
    found.has("changed")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    return found


def run(*more: str) -> int:
    return release.main(["--registry", REGISTRY, *more])


def test_image_chart_and_bill_of_materials_are_signed_by_the_digest_that_was_pushed(tools: Tools) -> None:
    assert run() == 0
    image, chart = f"{REGISTRY}/flamectl-operator@{IMAGE_DIGEST}", f"{REGISTRY}/charts/flamectl-operator@{CHART_DIGEST}"
    signed = [line for line in tools.log if line.startswith("cosign")]
    assert signed[0] == f"cosign sign --yes --recursive {image}"
    assert re.fullmatch(rf"cosign attest --yes --type cyclonedx --predicate \S+/run\.cdx\.json {image}", signed[1])
    assert signed[2:] == [f"cosign sign --yes {chart}"]


def test_the_image_is_built_for_both_platforms_with_provenance_and_the_time_of_the_commit(tools: Tools) -> None:
    assert run("--source", "https://git.example/a") == 0
    words = shlex.split(tools.log[0])
    assert {"--platform", "linux/amd64,linux/arm64", "--provenance=mode=max", "--sbom=true", "--push"} <= set(words)
    assert f"{REGISTRY}/flamectl-operator:{VERSION}" in words
    arguments = {words[number + 1] for number, word in enumerate(words) if word == "--build-arg"}
    assert arguments == {
        f"VERSION={VERSION}",
        f"REVISION={COMMIT}",
        "SOURCE=https://git.example/a",
        "CREATED=2023-11-14T22:13:20Z",
    }
    assert "SOURCE_DATE_EPOCH=1700000000" in tools.log


def test_build_arguments_exist_in_the_dockerfile(tools: Tools) -> None:
    assert run() == 0
    known = set(re.findall(r"^ARG (\w+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"--build-arg (\w+)=", tools.log[0])) <= known


@pytest.mark.parametrize(
    ("file", "text", "words"), [("tags", "v9.9.9\n", f"no tag v{VERSION}"), ("changed", " M src/a.py\n", "src/a.py")]
)
def test_a_commit_that_is_not_the_release_is_refused_before_anything_is_built(
    tools: Tools, capsys: pytest.CaptureFixture[str], file: str, text: str, words: str
) -> None:
    tools.has(file, text)
    assert run() == 1
    assert words in capsys.readouterr().err
    assert tools.log == []


@pytest.mark.parametrize(("program", "last"), [("docker", "SOURCE_DATE_EPOCH"), ("cosign", "cosign sign")])
def test_a_command_that_fails_ends_the_release_and_is_named(
    tools: Tools, capsys: pytest.CaptureFixture[str], program: str, last: str
) -> None:
    tools.has(f"{program}-fails")
    assert run() == 1
    assert f"`{program} " in capsys.readouterr().err
    assert tools.log[-1].startswith(last)


def test_dry_run_prints_the_commands_and_runs_none(tools: Tools, capsys: pytest.CaptureFixture[str]) -> None:
    tools.has("tags")
    assert run("--dry-run") == 0
    assert tools.log == []
    printed = capsys.readouterr().out
    assert [line.split()[1 + ("=" in line.split()[1])] for line in printed.splitlines()] == [
        *("docker", "cosign", "cosign", "helm", "helm", "cosign")
    ]


def test_the_workflow_tests_first_pins_its_actions_and_calls_the_same_command() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yaml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert jobs["publish"]["needs"] == "test"
    assert [step.get("run") for step in jobs["test"]["steps"]][-1] == ".ci/run"
    assert jobs["publish"]["permissions"] == {"contents": "read", "id-token": "write"}
    assert "python -m tools.release --registry" in jobs["publish"]["steps"][-1]["run"]
    used = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert used
    assert [each for each in used if not re.search(r"@[0-9a-f]{40}$", each)] == []
