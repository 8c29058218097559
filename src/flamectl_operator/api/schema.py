"""Converts pydantic's JSON schema of a model into the structural OpenAPI schema of a CRD."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from flamectl_operator.api.model import PlainModel

_REFERENCE = "#/$defs/"
_ORDER = ("description", "type", "format", "enum", "default", "required", "properties", "additionalProperties", "items")


def structural(model: type[PlainModel], *, defaults: bool = True) -> dict[str, Any]:
    """Return the structural schema of a model; raise ValueError for a field without a description or a schema.

    Without `defaults`, for a status, the API server fills in nothing, because absent means unknown there.
    """
    schema = model.model_json_schema(by_alias=True, mode="validation")
    result = _convert(schema, schema.get("$defs", {}), model.__name__)
    return _each(result, _with_stated_default if defaults else _without_default)


def _convert(schema: dict[str, Any], definitions: dict[str, Any], where: str) -> dict[str, Any]:
    schema = _resolve(schema, definitions, where)
    result = {key: value for key, value in schema.items() if key not in ("$defs", "title", "default", "properties")}
    # Kubernetes has its own keyword for allowing unknown fields; rejecting them is its default.
    additional = result.pop("additionalProperties", False)
    if additional is True:
        result["x-kubernetes-preserve-unknown-fields"] = True
    elif additional:
        result["additionalProperties"] = _convert(additional, definitions, f"{where}.*")
    if "const" in result:
        result["enum"] = [result.pop("const")]
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
    """Replace a reference by its definition, and `X or null` by `X`, because null means absent here."""
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
    """Return the default that the API server fills in; None for none.

    An object whose fields have defaults gets them all, because with `{}` the default itself would break a rule over these fields,
    and the API server rejects such a CRD.
    """
    if isinstance(schema.get("default"), dict):
        return {
            name: part["default"] for name, part in result.get("properties", {}).items() if "default" in part
        } or None
    # An empty text or list means the same as an absent field, and would be in every stored object.
    return None if schema.get("default") in ("", [], ()) else schema.get("default")


def _in_order(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with the most important keys first and the others sorted by name."""
    known = {key: schema[key] for key in _ORDER if key in schema}
    return {**known, **{key: schema[key] for key in sorted(schema) if key not in known}}


def _each(schema: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Return the schema with a change made to it and to each schema in it."""
    result = change(schema)
    if "properties" in result:
        result["properties"] = {name: _each(part, change) for name, part in result["properties"].items()}
    if "items" in result:
        # Argo CD compares the entries of a list as a whole, and would find a filled-in default in each comparison.
        result["items"] = _each(result["items"], lambda part: _without_default(change(part)))
    return result


def _with_stated_default(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with its default in the description as well, because `kubectl explain` shows nothing else."""
    default = schema.get("default")
    if default is None or isinstance(default, (dict, list)) or "description" not in schema:
        return dict(schema)
    text = default if isinstance(default, str) else json.dumps(default)
    return schema | {"description": f"{schema['description']} Default: {text}"}


def _without_default(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "default"}
