"""Reading what an author wrote, of which nobody has checked the shape: what is odd is left to the API server to refuse."""

from __future__ import annotations

from typing import Any


def as_object(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def entries(part: dict[str, Any], field: str) -> list[dict[str, Any]]:
    """The objects in a list that a field holds."""
    found = part.get(field)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def entry(part: dict[str, Any], field: str, name: str) -> dict[str, Any]:
    """The one of them that has a name; empty if none has."""
    return next((each for each in entries(part, field) if each.get("name") == name), {})
