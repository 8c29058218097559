"""Reads a Dockerfile into stages and instructions. It knows what ours uses, and refuses everything else."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


class DockerfileError(Exception):
    """It says something that this reader does not know, or that is no Dockerfile."""


@dataclass(frozen=True)
class Copy:
    """`COPY`.

    Args:
        sources: Paths, relative to the context or to the root of the stage.
        destination: As it is written.
        stage: Where it copies from; None for the context.
    """

    sources: tuple[str, ...]
    destination: str
    stage: str | None


@dataclass(frozen=True)
class Run:
    """`RUN` in its shell form.

    Args:
        command: For `sh -c`.
        variables: The ARGs that it sees.
    """

    command: str
    variables: Mapping[str, str]


@dataclass
class Stage:
    """A stage, and the configuration of the image that it makes.

    Args:
        base: The image that it begins with.
        name: Given by `AS`.
        steps: The changes of its file system, each with the directory and the environment of that moment.
        environment: `ENV`, apart from what the base has.
        labels: `LABEL`.
        directory: `WORKDIR`.
        user: `USER`.
        entrypoint: `ENTRYPOINT`.
        command: `CMD`.
    """

    base: str
    name: str | None
    steps: list[tuple[Copy | Run, str, Mapping[str, str]]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    directory: str = "/"
    user: str = ""
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)


def read(text: str, base_path: str) -> list[Stage]:
    """The stages of a Dockerfile.

    Args:
        base_path: The PATH of the images that it begins with.

    Raises:
        DockerfileError: It says something unknown.
    """
    stages: list[Stage] = []
    arguments: dict[str, str] = {}
    known: dict[str, str] = {}
    for word, rest in _instructions(text):
        match word:
            case "ARG" if not stages:
                name, _, value = rest.partition("=")
                arguments[name] = _expand(value, arguments)
            case "FROM":
                base, *alias = _expand(rest, arguments).split()
                stages.append(Stage(base, alias[1] if alias else None, environment={"PATH": base_path}))
                known = {}
            case "ARG":
                name, _, value = rest.partition("=")
                # Without a value it has the one from before the first stage.
                known[name] = _expand(value, known | stages[-1].environment) if value else arguments.get(name, "")
            case _:
                _in_stage(stages[-1], word, rest, known)
    return stages


def context(folder: Path) -> list[Path]:
    """Return the build context: the files that `.dockerignore` admits; the last matching pattern decides."""
    lines = (folder / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    return [
        file for file in folder.rglob("*") if file.is_file() and not _ignored(str(file.relative_to(folder)), patterns)
    ]


def _ignored(name: str, patterns: list[str]) -> bool:
    parts = name.split("/")
    parents = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    ignored = False
    for pattern in patterns:
        wanted = pattern.removeprefix("!")
        # `**/x` is also the x at the top.
        choices = (wanted, wanted.removeprefix("**/"))
        if any(fnmatch(parent, choice) for parent in parents for choice in choices):
            ignored = not pattern.startswith("!")
    return ignored


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    for line in joined.splitlines():
        word, _, rest = line.partition(" ")
        yield word, rest.strip()


def _in_stage(stage: Stage, word: str, rest: str, known: Mapping[str, str]) -> None:
    variables = {**known, **stage.environment}
    moment = (stage.directory, dict(stage.environment))
    match word:
        case "ENV" | "LABEL":
            into = stage.environment if word == "ENV" else stage.labels
            into |= {name: _expand(value, variables) for name, value in _pairs(rest)}
        case "WORKDIR":
            stage.directory = rest
        case "USER":
            stage.user = rest
        case "ENTRYPOINT":
            stage.entrypoint = json.loads(rest)
        case "CMD":
            stage.command = json.loads(rest)
        case "RUN" if not rest.startswith(("-", "[", "<<")):
            stage.steps.append((Run(rest, known), *moment))
        case "COPY":
            words = rest.split()
            options = [each for each in words if each.startswith("--")]
            *sources, destination = [each for each in words if not each.startswith("--")]
            froms = [each.removeprefix("--from=") for each in options if each.startswith("--from=")]
            if len(froms) != len(options):
                raise DockerfileError(f"unknown option: COPY {rest}")
            stage.steps.append((Copy(tuple(sources), destination, froms[0] if froms else None), *moment))
        case _:
            raise DockerfileError(f"unknown instruction: {word} {rest}")


def _pairs(rest: str) -> Iterator[tuple[str, str]]:
    for word in shlex.split(rest):
        name, equals, value = word.partition("=")
        if not equals:
            raise DockerfileError(f"not NAME=VALUE: {word}")
        yield name, value


def _expand(text: str, variables: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: variables[found[1] or found[2]], text)
