"""Reads a spec, or says all that is wrong with it, each with the path of the field and what would be right."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from flamectl_operator.api.constants import NAME_MAX_LENGTH, NAME_PATTERN
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.api.rules import BROKEN_RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pydantic_core import ErrorDetails

#: Objects and lists within each other in one field. The API server takes ten thousand, which cost memory by their square in
#: whatever writes paths or indents; Pods, and flame-cluster.yaml, need a dozen.
MAX_DEPTH = 64
#: Fields that consist of fields, for the path of what is nested too deep.
_COMPONENTS = ("sessionManager", "executorManager", "objectCache")
#: Characters of a wrong value that a message shows.
_SHOWN = 60
_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Args:
        path: The field, as Kubernetes writes it: `spec.executorManager.env[2].name`.
        message: What would be right, to follow the path and a colon.
    """

    path: str
    message: str

    def __str__(self) -> str:
        """Return one line for a status or a log."""
        return f"{self.path}: {self.message}"


class InvalidSpecError(ValueError):
    """The spec cannot be run as it is. Show it to the user and wait for another generation; a retry changes nothing.

    Args:
        problems: All that is wrong, in the order of the fields.
    """

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


def parse_spec(raw: Any, name: str) -> FlameClusterSpec:
    """Return the spec of a FlameCluster, with defaults.

    Args:
        raw: `spec` as JSON data.
        name: `metadata.name`, from which the names of all objects are made.

    Raises:
        InvalidSpecError: Something is wrong with the name or the spec.
    """
    problems = list(_name_problems(name))
    if too_deep := list(_depth_problems(raw)):
        # Everything else goes down into it.
        raise InvalidSpecError((*problems, *too_deep))
    try:
        # Not by_name: the API server knows camelCase only.
        spec = FlameClusterSpec.model_validate(raw if raw is not None else {}, by_alias=True, by_name=False)
    except ValidationError as error:
        problems += [problem for details in error.errors(include_url=False) for problem in _problems(details)]
        raise InvalidSpecError(tuple(problems)) from None
    if problems:
        raise InvalidSpecError(tuple(problems))
    return spec


def _name_problems(name: str) -> Iterator[Problem]:
    if len(name) > NAME_MAX_LENGTH:
        yield Problem("metadata.name", f"must have at most {NAME_MAX_LENGTH} characters, has {len(name)}")
    if not re.fullmatch(NAME_PATTERN, name, re.ASCII):
        yield Problem(
            "metadata.name",
            f"must start with a lower-case letter and consist of lower-case letters, digits and -, not ending in -, "
            f"is {_shown(name)}",
        )


def _depth_problems(raw: Any) -> Iterator[Problem]:
    for path, value in _fields(raw if isinstance(raw, dict) else {}):
        if _deeper_than(MAX_DEPTH, value):
            yield Problem(_path(path), f"must not be nested so deep: {MAX_DEPTH} levels are the most")


def _fields(raw: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in raw.items():
        if name in _COMPONENTS and isinstance(value, dict):
            yield from (((name, part), below) for part, below in value.items())
        else:
            yield (name,), value


def _deeper_than(levels: int, value: Any) -> bool:
    """Whether objects and lists are in each other so often. One level after the other, for recursion has limits of its own."""
    parts = [value]
    for _ in range(levels + 1):
        parts = [part for part in parts if isinstance(part, dict | list)]
        if not parts:
            return False
        parts = [below for part in parts for below in (part.values() if isinstance(part, dict) else part)]
    return True


def _problems(details: ErrorDetails) -> Iterator[Problem]:
    path = _path(details["loc"])
    if details["type"] == BROKEN_RULES:
        for field, message in details.get("ctx", {})["problems"]:
            yield Problem(path + field, message + _found(details["input"]))
    else:
        words = _WORDS.get(details["type"])
        yield Problem(path, words(details.get("ctx", {}), details["input"]) if words else details["msg"])


def _path(location: tuple[int | str, ...]) -> str:
    path = "spec"
    for step in location:
        plain = isinstance(step, str) and _PLAIN_KEY.fullmatch(step)
        path += f".{step}" if plain else f"[{step}]"
    return path


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _found(value: Any) -> str:
    """Say what was found, where it is short enough to be of help."""
    return f", is {_shown(value)}" if isinstance(value, str | int | float) else ""


def _choices(expected: str) -> str:
    return expected.replace("'", "").replace(" or ", ", ")


def _is(words: str) -> Callable[[Mapping[str, Any], Any], str]:
    return lambda _, value: words + (_found(value) or f", is {_KINDS.get(type(value), 'something else')}")


_KINDS: dict[type, str] = {dict: "an object", list: "a list", type(None): "null"}
_OBJECT = _is("must be an object")
_NUMBER = _is("must be a whole number")
_STRING = _is("must be a string (put numbers and true/false in quotes)")

#: pydantic's error types in the words of a person who edits YAML. A type that is missing here keeps its own words.
_WORDS: dict[str, Callable[[Mapping[str, Any], Any], str]] = {
    "missing": lambda _, __: "must be set",
    "extra_forbidden": lambda _, __: "unknown field; this operator does not know it",
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dict_type": _OBJECT,
    "tuple_type": _is("must be a list"),
    "int_type": _NUMBER,
    "int_or_string": lambda context, value: f"must be {context['expected']}" + _found(value),
    "string_type": _STRING,
    "bool_type": _is("must be true or false"),
    "greater_than_equal": lambda context, value: f"must be {context['ge']} or more, is {value}",
    "less_than_equal": lambda context, value: f"must be {context['le']} or less, is {value}",
    "literal_error": lambda context, value: f"must be one of {_choices(context['expected'])}" + _found(value),
    "string_too_short": lambda _, __: "must not be empty",
    "string_too_long": lambda context, value: f"must have at most {context['max_length']} characters, has {len(value)}",
    "too_long": lambda context, _: f"must have at most {context['max_length']} entries, has {context['actual_length']}",
}
