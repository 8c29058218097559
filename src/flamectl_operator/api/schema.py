"""Turns the JSON schema that pydantic makes of a model into the structural OpenAPI schema that a CRD must have."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flamectl_operator.api.model import Model

_REFERENCE = "#/$defs/"
_ORDER = ("description", "type", "format", "enum", "default", "required", "properties", "additionalProperties", "items")


def structural(model: type[Model], *, defaults: bool = True) -> dict[str, Any]:
    """Return the structural schema of a model.

    Args:
        model: The model.
        defaults: Whether the API server fills in what is absent. Not for a status, where absent means unknown.

    Raises:
        ValueError: A field lacks a description, or has a type that no structural schema can express.
    """
    schema = model.model_json_schema(by_alias=True, mode="validation")
    result = _convert(schema, schema.get("$defs", {}), model.__name__)
    return result if defaults else _without_defaults(result)


def _convert(schema: dict[str, Any], definitions: dict[str, Any], where: str) -> dict[str, Any]:
    schema = _resolve(schema, definitions, where)
    result = {key: value for key, value in schema.items() if key not in ("$defs", "title", "default", "properties")}
    # Kubernetes has its own words for "anything else is fine"; that anything else is an error is its rule anyway.
    additional = result.pop("additionalProperties", False)
    if additional is True:
        result["x-kubernetes-preserve-unknown-fields"] = True
    elif additional:
        result["additionalProperties"] = _convert(additional, definitions, f"{where}.*")
    if "items" in result:
        result["items"] = _convert(result["items"], definitions, f"{where}[]")
    if "properties" in schema:
        result["properties"] = {
            name: _property(part, definitions, f"{where}.{name}") for name, part in schema["properties"].items()
        }
    default = _default(schema, result)
    if default is not None:
        result["default"] = default
    return _in_order(result)


def _property(schema: dict[str, Any], definitions: dict[str, Any], where: str) -> dict[str, Any]:
    converted = _convert(schema, definitions, where)
    if not converted.get("description"):
        raise ValueError(f"{where} has no description")
    return converted


def _resolve(schema: dict[str, Any], definitions: dict[str, Any], where: str) -> dict[str, Any]:
    """Put a definition in place of a reference to it, and `X` in place of `X or null`, which means absent here."""
    while True:
        choices = schema.get("anyOf", [])
        if "$ref" in schema:
            target = deepcopy(definitions[schema["$ref"].removeprefix(_REFERENCE)])
            schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
        elif {"type": "null"} in choices:
            (choice,) = (choice for choice in choices if choice != {"type": "null"})
            schema = {**choice, **{key: value for key, value in schema.items() if key != "anyOf"}}
        elif choices and "x-kubernetes-int-or-string" not in schema:
            raise ValueError(f"{where} is a union, which no structural schema can express")
        else:
            return schema


def _default(schema: dict[str, Any], result: dict[str, Any]) -> Any:
    """Return what absence means, if that is something.

    An object whose fields have defaults gets them all: with `{}` a rule over them would not hold for the default
    itself, and the API server refuses such a CRD.
    """
    if isinstance(schema.get("default"), dict):
        return {
            name: part["default"] for name, part in result.get("properties", {}).items() if "default" in part
        } or None
    # An empty text or list says no more than an absent one, and would stand in every stored object.
    return None if schema.get("default") in ("", [], ()) else schema.get("default")


def _in_order(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with the keys that a reader looks for first in front, and the rest by name."""
    known = {key: schema[key] for key in _ORDER if key in schema}
    return {**known, **{key: schema[key] for key in sorted(schema) if key not in known}}


def _without_defaults(schema: dict[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in result:
        result["properties"] = {name: _without_defaults(part) for name, part in result["properties"].items()}
    if "items" in result:
        result["items"] = _without_defaults(result["items"])
    return result
