"""Drops the invalid parts of JSON data and keeps the rest."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

_CLEARED = object()


def drop_invalid(raw: dict[str, Any], error: ValidationError) -> None:
    """Drop from JSON data, in place, each part that an error is about; at least one part goes."""
    # The paths hold for the data before any part goes, so parts are marked first.
    for location in {_removable(problem["type"], problem["loc"]) for problem in error.errors()}:
        _clear(raw, location)
    _drop_cleared(raw)


def _removable(error: str, location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return the part to drop for an error: the part itself, or the object that lacks a required part."""
    return location[:-1] if error == "missing" else location


def _clear(raw: dict[str, Any], location: tuple[int | str, ...]) -> None:
    part: Any = raw
    for step in location[:-1]:
        part = part[step]
        if part is _CLEARED:
            return
    if location:
        part[location[-1]] = _CLEARED
    else:
        raw.clear()


def _drop_cleared(part: Any) -> None:
    if isinstance(part, dict):
        for key in [key for key, value in part.items() if value is _CLEARED]:
            del part[key]
        for value in part.values():
            _drop_cleared(value)
    elif isinstance(part, list):
        part[:] = [value for value in part if value is not _CLEARED]
        for value in part:
            _drop_cleared(value)
