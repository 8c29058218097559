"""The image: every step of the Dockerfile does its work, and what comes out runs as it will in a Pod."""

import json
import re
import shlex
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.image import dockerfile, replay
from tests.image.dockerfile import Copy, DockerfileError, Run
from tests.image.replay import Image
from tests.image.sandbox import Container, run

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
STAGES = dockerfile.read(TEXT, replay.BASE_PATH)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INSTALLED = "opt/flamectl-operator"

# The first test that needs the image builds it.
pytestmark = pytest.mark.timeout(1200)

#: A line of a lock file that names a version, with its marker if it has one.
_LOCKED = re.compile(r"^([\w.-]+)==(\S+)(?: ; (.*))? \\$", re.MULTILINE)


def in_the_image(image: Image, *command: str) -> str:
    """Return the output of a command in the image, under the operator's user on a read-only root."""
    return run(
        Container(image.root, command, image.stage.environment, image.stage.directory, image.user, read_only=True)
    )


def locked(name: str) -> dict[str, str]:
    """The versions of a lock file that are for Linux."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    return {
        name.lower().replace("_", "-"): version
        for name, version, marker in _LOCKED.findall(text)
        if "win32" not in marker
    }


def test_operator_starts_as_an_unprivileged_user_on_a_read_only_root(image: Image) -> None:
    assert image.stage.entrypoint == ["flamectl-operator"]
    assert image.stage.command == ["run"]
    assert in_the_image(image, *image.stage.entrypoint, "version").strip() == PROJECT["version"]


def test_its_user_is_a_number_and_not_root(image: Image) -> None:
    assert in_the_image(image, "id", "-u").strip() == str(image.user[0]) == "65532"
    assert in_the_image(image, "id", "-G").strip() == str(image.user[1]) == "65532"


@pytest.mark.parametrize("place", ["/", "/tmp", "/opt/flamectl-operator/lib"])
def test_file_system_of_the_image_is_read_only(image: Image, place: str) -> None:
    with pytest.raises(RuntimeError, match="Read-only file system"):
        in_the_image(image, "touch", f"{place}/new")


def test_image_has_exactly_the_locked_packages_and_the_operator(image: Image) -> None:
    program = """
import importlib.metadata, json
found = {each.metadata["Name"]: each.version for each in importlib.metadata.distributions()}
print(json.dumps(found))
"""
    found = json.loads(in_the_image(image, "python", "-c", program))
    names = {name.lower().replace("_", "-").replace(".", "-"): version for name, version in found.items()}
    assert names == {**locked("run.txt"), PROJECT["name"]: PROJECT["version"]}


def test_there_is_no_pip_to_install_more_with(image: Image) -> None:
    with pytest.raises(RuntimeError, match="No module named pip"):
        in_the_image(image, "python", "-m", "pip")
    # Nor beside the interpreter, where the base has it.
    with pytest.raises(RuntimeError, match="No module named pip"):
        in_the_image(image, "/base/bin/python", "-m", "pip")


def test_files_are_readable_by_all_and_writable_by_their_owner(image: Image) -> None:
    for file in [image.root / INSTALLED, *(image.root / INSTALLED).rglob("*")]:
        mode = file.lstat().st_mode
        if stat.S_ISLNK(mode):
            continue
        wanted = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
        assert mode & wanted == wanted, file
        assert not mode & (stat.S_IWOTH | stat.S_IWGRP | stat.S_ISUID | stat.S_ISGID), file


def test_every_module_is_compiled_without_a_time_in_it(image: Image) -> None:
    sources = [each for each in (image.root / INSTALLED / "lib").rglob("*.py") if each.stem.isidentifier()]
    assert len(sources) > 500
    for source in sources:
        (compiled,) = (source.parent / "__pycache__").glob(f"{source.stem}.*.pyc")
        # PEP 552: judged by a hash, which is not looked at.
        assert compiled.read_bytes()[4:8] == b"\x01\x00\x00\x00", compiled


def test_operator_imports_without_the_generated_classes_of_kubernetes(image: Image) -> None:
    program = """
import importlib, pathlib, pkgutil, flamectl_operator, kubernetes
for module in pkgutil.walk_packages(flamectl_operator.__path__, "flamectl_operator."):
    importlib.import_module(module.name)
client = pathlib.Path(kubernetes.__file__).parent / "client"
print(*(file.name for part in ("api", "models") for file in (client / part).glob("*.py")))
"""
    assert in_the_image(image, "python", "-c", program).split() == ["__init__.py", "__init__.py"]


def test_size_added_to_the_base_image_is_limited(image: Image) -> None:
    """docs/install.md names the size."""
    files = [each for each in (image.root / INSTALLED).rglob("*") if each.is_file() and not each.is_symlink()]
    assert sum(each.stat().st_size for each in files) < 90_000_000


def test_build_tools_are_not_in_the_image(image: Image) -> None:
    assert sorted(each.name for each in (image.root / "opt").iterdir()) == ["flamectl-operator"]
    assert not (image.root / "build").exists()
    assert locked("build.txt").keys() & locked("run.txt").keys() == set()


def test_package_has_a_checked_hash_or_is_built_here() -> None:
    commands = [step.command for stage in STAGES for step, _, _ in stage.steps if isinstance(step, Run)]
    installs = [part for command in commands for part in command.split("&&") if " install " in part]
    assert len(installs) == 3
    for command in installs:
        assert {"--require-hashes", "--no-index"} & set(shlex.split(command)), command


def test_all_steps_are_pythons_so_that_none_depends_on_the_architecture() -> None:
    commands = [step.command for stage in STAGES for step, _, _ in stage.steps if isinstance(step, Run)]
    programs = {shlex.split(part)[:2][0] for command in commands for part in command.split("&&")}
    assert programs == {"python"}
    assert {stage.base for stage in STAGES} == {"python:3.14-slim"}


@pytest.mark.parametrize("platform", ["x86_64-manylinux_2_28", "aarch64-manylinux_2_28"])
@pytest.mark.parametrize("lock", ["run.txt", "build.txt"])
def test_there_is_a_wheel_of_each_locked_package_for_each_platform(lock: str, platform: str, tmp_path: Path) -> None:
    # The base has Debian's glibc, which is newer than 2.28.
    version = STAGES[-1].base.removeprefix("python:").removesuffix("-slim")
    rehearsal = [
        "--system-certs",
        "--dry-run",
        "--target",
        str(tmp_path),
        "--python-version",
        version,
        "--python-platform",
        platform,
    ]
    checked = ["--only-binary", ":all:", "--require-hashes", "--requirements", f"requirements/{lock}"]
    result = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "install", *rehearsal, *checked],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    planned = set(re.findall(r"^ \+ (\S+)==", result.stderr, re.MULTILINE))
    assert planned == locked(lock).keys()


def test_image_has_its_labels() -> None:
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in STAGES[-1].labels.items()}
    assert labels["title"] == PROJECT["name"]
    assert labels["version"] == PROJECT["version"]
    assert labels["licenses"] == PROJECT["license"]
    assert labels["base.name"] == STAGES[-1].base
    assert labels.keys() == {
        *("title", "description", "licenses", "version", "revision", "source", "created", "url", "base.name")
    }
    named = (ROOT / "docs" / "dev" / "release.md").read_text(encoding="utf-8")
    assert [name for name in labels if f"`{name}`" not in named] == []


def test_build_context_has_only_copied_files() -> None:
    copied = {
        source for stage in STAGES for step, _, _ in stage.steps if isinstance(step, Copy) for source in step.sources
    } - {f"/{INSTALLED}"}
    seen = {str(file.relative_to(ROOT)) for file in dockerfile.context(ROOT)}
    assert {name.split("/")[0] for name in seen} == copied
    assert not [name for name in seen if "__pycache__" in name]


# --- the reader -----------------------------------------------------------------------------------------------------------


def test_arguments_and_variables_are_put_in() -> None:
    text = """
# a comment
ARG VERSION=3.13
FROM python:${VERSION} AS first
ENV A=one \\
    # another comment
    B="two words"
ARG SIZE=5
RUN make $A \\
    && check
FROM other
LABEL size="${SIZE_OF_IT}"
"""
    with pytest.raises(KeyError):
        dockerfile.read(text, "/bin")
    first, second = dockerfile.read(text.replace("${SIZE_OF_IT}", "$PATH"), "/bin")
    assert (first.base, first.name) == ("python:3.13", "first")
    assert first.environment == {"PATH": "/bin", "A": "one", "B": "two words"}
    assert first.steps == [(Run("make $A && check", {"SIZE": "5"}), "/", first.environment)]
    assert second.labels == {"size": "/bin"}


@pytest.mark.parametrize(
    "line", ["ADD a b", "RUN --mount=type=cache,target=/x true", 'RUN ["true"]', "COPY --chown=1 a b", "ONBUILD RUN x"]
)
def test_unknown_instruction_is_refused(line: str) -> None:
    with pytest.raises(DockerfileError):
        dockerfile.read(f"FROM scratch\n{line}\n", "/bin")
