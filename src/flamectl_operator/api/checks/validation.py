"""Validates a spec and reports all problems, each with the path of the field and the requirement."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from flamectl_operator.api.checks import consistency
from flamectl_operator.api.checks.limits import cost_problems
from flamectl_operator.api.constants import NAME_MAX_LENGTH, NAME_PATTERN
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.api.problems import InvalidSpecError, Problem, path_of, shown
from flamectl_operator.api.rules import BROKEN_RULES


def parse_spec(raw: Any, name: str) -> FlameClusterSpec:
    """Return the spec of a FlameCluster, with defaults; raise InvalidSpecError if the spec or `metadata.name` is not valid."""
    problems = list(_name_problems(name))
    if too_costly := list(cost_problems(raw)):
        # The code below reads the whole spec.
        raise InvalidSpecError((*problems, *too_costly))
    try:
        # Not by_name, because the API server knows only camelCase.
        spec = FlameClusterSpec.model_validate(raw if raw is not None else {}, by_alias=True, by_name=False)
    except ValidationError as error:
        problems += [problem for details in error.errors(include_url=False) for problem in _problems(details)]
        raise InvalidSpecError(tuple(problems)) from None
    problems += consistency.problems(spec)
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
            f"is {shown(name)}",
        )


def _problems(details: ErrorDetails) -> Iterator[Problem]:
    path = path_of(details["loc"])
    if details["type"] == BROKEN_RULES:
        for field, message in details.get("ctx", {})["problems"]:
            yield Problem(path + field, message + _found(details["input"]))
    else:
        words = _WORDS.get(details["type"])
        yield Problem(path, words(details.get("ctx", {}), details["input"]) if words else details["msg"])


def _found(value: Any) -> str:
    """Return the wrong value as the end of a message, if it is a scalar."""
    return f", is {shown(value)}" if isinstance(value, str | int | float) else ""


def _choices(expected: str) -> str:
    return expected.replace("'", "").replace(" or ", ", ")


def _is(words: str) -> Callable[[Mapping[str, Any], Any], str]:
    return lambda _, value: words + (_found(value) or f", is {_KINDS.get(type(value), 'something else')}")


_KINDS: dict[type, str] = {dict: "an object", list: "a list", type(None): "null"}
_OBJECT = _is("must be an object")
_NUMBER = _is("must be a whole number")
_STRING = _is("must be a string (put numbers and true/false in quotes)")

#: pydantic's error types as messages for people who edit YAML. A type that is missing here keeps pydantic's message.
_WORDS: dict[str, Callable[[Mapping[str, Any], Any], str]] = {
    "missing": lambda _, __: "must be set",
    "extra_forbidden": lambda _, __: "unknown field: correct its name, or upgrade the operator",
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
    "literal_error": lambda context, value: (
        f"must be one of {_choices(context['expected'])}" + (_found(value) if isinstance(value, str) else " in quotes")
    ),
    "string_too_short": lambda _, __: "must not be empty",
    "string_too_long": lambda context, value: f"must have at most {context['max_length']} characters, has {len(value)}",
    "too_long": lambda context, _: f"must have at most {context['max_length']} entries, has {context['actual_length']}",
}
