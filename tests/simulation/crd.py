"""The effect of the CustomResourceDefinition on a FlameCluster: pruning, defaults and rules.

The structural schema is the one that is installed, and interpreted here. The CEL rules are not: the operator's
own validation takes their place, because it has each rule in Python as well. A test on a real API server shows that both agree.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from flamectl_operator.api.checks.validation import parse_spec
from flamectl_operator.api.crd import custom_resource_definition
from flamectl_operator.api.problems import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.objects import Obj

Schema = dict[str, Any]
_PROPERTIES = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
SPEC: Schema = _PROPERTIES["spec"]
STATUS: Schema = _PROPERTIES["status"]

_LAST: dict[int, tuple[Obj, list[str]]] = {}
_UNDER_WAY = 8
_OPEN = "x-kubernetes-preserve-unknown-fields"
_TYPES: dict[str, type | tuple[type, ...]] = {"object": dict, "array": list, "string": str, "boolean": bool}
_LARGEST = {"int32": 2**31 - 1, "int64": 2**63 - 1}
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def completed(value: Any, schema: Schema) -> Any:
    """The value without fields that the schema does not know, and with the defaults of those that are absent."""
    if isinstance(value, list) and "items" in schema:
        return [completed(item, schema["items"]) for item in value]
    if not isinstance(value, dict):
        return value
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    result = {}
    for name, part in value.items():
        if name in known:
            result[name] = completed(part, known[name])
        elif isinstance(others, dict):
            result[name] = completed(part, others)
        elif schema.get(_OPEN):
            result[name] = part
    for name, part in known.items():
        if name not in result and "default" in part:
            result[name] = deepcopy(part["default"])
    return result


def spec_problems(spec: Any, name: str) -> set[str]:
    """All rules that a spec breaks, in words."""
    try:
        parse_spec(spec, name)
    except InvalidSpecError as error:
        return {str(problem) for problem in error.problems}
    return set()


def status_problems(status: Obj) -> list[str]:
    """All that the schema has against a status. The same object is asked about twice: when it is sent, and when it arrives."""
    known = _LAST.get(id(status))
    if known is None or known[0] is not status:
        if len(_LAST) >= _UNDER_WAY:
            _LAST.clear()
        known = _LAST[id(status)] = (status, list(_problems(status, STATUS, "status")))
    return known[1]


def _problems(value: Any, schema: Schema, path: str) -> Iterator[str]:
    kind = str(schema["type"])
    if kind == "integer":
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGEST[schema["format"]]:
            yield f"{path}: {value!r} is no {schema['format']}"
    elif not isinstance(value, _TYPES[kind]):
        yield f"{path}: {value!r} is no {kind}"
    else:
        yield from _PARTS[kind](value, schema, path)


def _in_text(value: str, schema: Schema, path: str) -> Iterator[str]:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{path}: {len(value)} characters are too many or too few"
    if value not in schema.get("enum", (value,)) or (schema.get("format") == "date-time" and not _TIME.match(value)):
        yield f"{path}: {value!r} is not allowed"


def _in_list(value: list[Any], schema: Schema, path: str) -> Iterator[str]:
    if len(value) > schema.get("maxItems", len(value)):
        yield f"{path}: {len(value)} items are too many"
    for key in schema.get("x-kubernetes-list-map-keys", ()):
        if len({item.get(key) for item in value}) < len(value):
            yield f"{path}: not all are different in {key}"
    for number, item in enumerate(value):
        yield from _problems(item, schema["items"], f"{path}[{number}]")


def _in_object(value: Obj, schema: Schema, path: str) -> Iterator[str]:
    yield from (f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value)
    for name, part in value.items():
        if name in schema["properties"]:
            yield from _problems(part, schema["properties"][name], f"{path}.{name}")
        else:
            yield f"{path}.{name} is not known"


def _nothing(*_: object) -> Iterator[str]:
    return iter(())


_PARTS: dict[str, Callable[[Any, Schema, str], Iterator[str]]] = {
    "string": _in_text,
    "array": _in_list,
    "object": _in_object,
    "boolean": _nothing,
}
