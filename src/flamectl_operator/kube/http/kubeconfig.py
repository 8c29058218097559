"""Mistakes in a kubeconfig, in the words of its author.

The `kubernetes` package reports them in words about its own data, as errors of Python, or not at all. It merges the files of a
kubeconfig: the first entry of a name counts.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from flamectl_operator.kube.errors import ConfigurationError
from flamectl_operator.runtime.text import YAML_ERRORS, listing

#: Names that PyYAML quotes in a description of a problem; a password that begins with `*` or `!` counts as a name.
_YAML_NAME = re.compile(r"\b(alias|tag|handle) ['\"].*", re.DOTALL)

#: Fields of a cluster and of a user that name a file. A field with `-data` at its end takes precedence.
_FILES = ("certificate-authority", "client-certificate", "client-key")

#: The most names in a message.
_MAX_NAMES = 10

#: The content of a kubeconfig, with the file that it comes from.
_Document = tuple[Path, dict[str, Any]]


def check_kubeconfig(location: str, context: str | None) -> None:
    """Raise ConfigurationError, with file, option or entry, unless a kubeconfig has the context and all that it names."""
    documents, source = _documents(location), f"kubeconfig {location}"
    contexts = _entries(documents, "contexts", "context")
    current = next((content["current-context"] for _, content in documents if content.get("current-context")), None)
    chosen, option = (current, "current-context") if context is None else (context, "--context")
    if not isinstance(chosen, str | int | None):
        raise ConfigurationError(f"{source}: {option} is not a name")
    if chosen is None:
        raise ConfigurationError(f"{source}: it has no current-context; choose one by --context: {_listed(contexts)}")
    if chosen not in contexts:
        raise ConfigurationError(f"{source}: {option} {chosen}: there is no such context, only {_listed(contexts)}")
    _, parts = contexts[chosen]
    for kind in ("cluster", "user"):
        name, entries = parts.get(kind), _entries(documents, f"{kind}s", kind)
        if isinstance(name, dict | list):
            raise ConfigurationError(f"{source}: context {chosen}: the name of its {kind} is not a text")
        if name not in entries:
            wanted = f"names the {kind} {name}, which is missing" if name else f"names no {kind}"
            raise ConfigurationError(f"{source}: context {chosen} {wanted}; the {kind}s are {_listed(entries)}")
        _check_files(f"{source}: {kind} {name}", *entries[name])


def yaml_problem(error: Exception) -> str:
    """Return the error and its position, without the line itself, which PyYAML would quote."""
    if isinstance(error, yaml.MarkedYAMLError):
        problem, mark = _YAML_NAME.sub(r"\1", error.problem or "it cannot be parsed"), error.problem_mark
        return problem if mark is None else f"{problem} (line {mark.line + 1}, column {mark.column + 1})"
    if isinstance(error, yaml.reader.ReaderError | UnicodeDecodeError):
        return " ".join(str(error).split())  # it names only a character and a position
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return "a value has the wrong format, such as a date or a number"


def _documents(location: str) -> list[_Document]:
    files = [_expanded(part) for part in location.split(os.pathsep) if part]
    found = [file for file in files if _is_file(f"kubeconfig {file}", file)]
    if not found:
        raise ConfigurationError(
            f"kubeconfig {location}: there is no such file; name one by --kubeconfig or by KUBECONFIG"
        )
    return [(file, _content(file)) for file in found]


def _expanded(part: str) -> Path:
    try:
        return Path(part).expanduser()
    except RuntimeError as error:  # `~` of a user who has no home
        raise ConfigurationError(f"kubeconfig {part}: {error}") from error


def _is_file(entry: str, path: Path) -> bool:
    """Return whether a file exists; a directory on the way may forbid to look, and a name may be too long."""
    try:
        return path.is_file()
    except OSError as error:
        raise ConfigurationError(f"{entry}: cannot be read: {error.strerror}") from error


def _content(file: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"kubeconfig {file}: cannot be read: {error.strerror}") from error
    except YAML_ERRORS as error:
        raise ConfigurationError(f"kubeconfig {file}: is not YAML: {yaml_problem(error)}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"kubeconfig {file}: is not a kubeconfig, it holds no mapping")
    return content


def _entries(documents: Iterable[_Document], section: str, kind: str) -> dict[object, _Document]:
    """Return the entries of a section by name, each with its file."""
    entries: dict[object, _Document] = {}
    for file, content in documents:
        listed = content.get(section) or []
        if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
            raise ConfigurationError(f"kubeconfig {file}: {section} is not a list of mappings")
        for each in listed:
            if not isinstance(each.get("name"), str) or not isinstance(each.get(kind) or {}, dict):
                raise ConfigurationError(
                    f"kubeconfig {file}: an entry of {section} has no name, or its {kind} is no mapping"
                )
            entries.setdefault(each["name"], (file, each.get(kind) or {}))
    return entries


def _check_files(entry: str, file: Path, fields: dict[str, Any]) -> None:
    for field in _FILES:
        path = "" if fields.get(f"{field}-data") else fields.get(field)
        # A relative path begins at the directory of the kubeconfig.
        if isinstance(path, str) and path and not _is_file(f"{entry}: {field}", file.parent / path):
            raise ConfigurationError(f"{entry}: {field}: there is no such file: {path}")


def _listed(names: dict[object, _Document]) -> str:
    return listing([str(each) for each in names], _MAX_NAMES) or "none"
