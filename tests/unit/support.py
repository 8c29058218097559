"""Helpers of tests of several rooms."""

import subprocess
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, TypeAlias

import yaml

#: The lines of a log, as structlog captures them.
Log: TypeAlias = "list[MutableMapping[str, Any]]"


def rfc_7386(target: Any, patch: Any) -> Any:
    """A JSON merge patch applied, by the algorithm that is printed in the RFC; neither argument is changed."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = rfc_7386(result.get(name), value)
    return result


def documents(text: str) -> list[Any]:
    """The documents of a YAML text, by libyaml, because PyYAML's own parser takes ten times as long."""
    return list(yaml.load_all(text, yaml.CSafeLoader))


def document(text: str) -> Any:
    """The only document of a YAML text."""
    (only,) = documents(text)
    return only


@contextmanager
def python(program: str, stderr: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """A Python process, which ends with the block at the latest.

    Args:
        program: The program that it runs.
        stderr: Where its stderr goes, as for `subprocess`; that of the test if not given.
    """
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=stderr, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def line(running: subprocess.Popen[str]) -> str:
    """The next line that a process writes."""
    assert running.stdout is not None
    return running.stdout.readline().strip()


def nested(levels: int) -> Any:
    """Return a text inside of so many lists."""
    value: Any = "é"
    for _ in range(levels):
        value = [value]
    return value
