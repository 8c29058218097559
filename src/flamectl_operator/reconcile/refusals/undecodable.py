"""The fields of a podTemplate that the API server cannot decode.

The API server names a wrong type without the index of its entry, and a wrong quantity without its field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from flamectl_operator.api.quantity import quantity_or_none
from flamectl_operator.desired.pod_template import ComponentTemplate

#: `json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32`.
_OF_A_TYPE = re.compile(r"cannot unmarshal (\w+)(?: \S+)? into Go struct field \w+\.spec\.([\w.]+) of type ")
#: The words of apimachinery about a quantity (`pkg/api/resource`), without its field.
_NO_QUANTITY = re.compile(r"quantities must match|unable to parse (?:numeric part of quantity|quantity's suffix)")
#: The objects of a Pod whose values are quantities, and its fields that are one.
_OF_QUANTITIES = frozenset({"limits", "requests", "overhead"})
_QUANTITIES = frozenset({"sizeLimit", "divisor"})
#: The names that Go has for the types of JSON.
_TYPES: dict[type, str] = {str: "string", int: "number", float: "number", bool: "bool", dict: "object", list: "array"}
#: The most fields that a message names.
_MAX_NAMED = 2


def undecodable_fields(words: str, template: ComponentTemplate) -> str:
    """Return the fields that the API server cannot decode, by their paths in the FlameCluster; empty for another message."""
    if (found := _OF_A_TYPE.search(words)) is not None:
        paths = _of_type(template.asked, found[2].split("."), found[1])
    elif _NO_QUANTITY.search(words):
        paths = _invalid_quantities(template.asked)
    else:
        return ""
    return " and ".join(f"{template.field}.podTemplate.spec{path}" for path in list(paths)[:_MAX_NAMED])


def _of_type(value: Any, names: list[str], kind: str) -> Iterator[str]:
    """Yield the places at the end of a path of names that have a type; the path tells no index of a list and no key of a map."""
    if isinstance(value, list) and (names or kind != "array"):
        for index, each in enumerate(value):
            yield from (f"[{index}]{path}" for path in _of_type(each, names, kind))
    elif names and isinstance(value, dict):
        yield from (f".{names[0]}{path}" for path in _of_type(value.get(names[0]), names[1:], kind))
    elif not names and _TYPES.get(type(value)) == kind:
        yield ""
    elif not names and isinstance(value, dict):
        yield from (f".{key}{path}" for key, each in value.items() for path in _of_type(each, [], kind))


def _invalid_quantities(value: Any) -> Iterator[str]:
    """Yield the places of values that should be quantities and are not."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from (f"[{index}]{path}" for path in _invalid_quantities(each))
    elif isinstance(value, dict):
        for key, each in value.items():
            quantities = each if key in _OF_QUANTITIES and isinstance(each, dict) else {}
            yield from (f".{key}.{name}" for name, amount in quantities.items() if _is_invalid(amount))
            if key in _QUANTITIES and _is_invalid(each):
                yield f".{key}"
            yield from (f".{key}{path}" for path in _invalid_quantities(each))


def _is_invalid(quantity: Any) -> bool:
    return quantity is not None and quantity_or_none(quantity) is None
