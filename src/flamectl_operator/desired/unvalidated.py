"""Readers for unvalidated JSON, such as a podTemplate or a status that somebody edited: a wrong type reads as nothing."""

from typing import Any


def as_object(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def entries(part: dict[str, Any], field: str) -> list[dict[str, Any]]:
    """Return the objects in the list of a field."""
    found = part.get(field)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def entry(part: dict[str, Any], field: str, name: str) -> dict[str, Any]:
    """Return the object with this name, else an empty object."""
    return next((each for each in entries(part, field) if each.get("name") == name), {})
