"""A status as JSON data that another version, a person or the installed CRD changed: what is kept of it, and what differs."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import ValidationError

from flamectl_operator.api.model import PlainModel

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


def with_unknown(wire: dict[str, Any], stored: Any, model: type[PlainModel]) -> dict[str, Any]:
    """Return a status with the unknown fields of the stored status added.

    The API server silently drops fields that the installed CRD does not declare. Fields that a newer operator stored under
    a newer CRD must not be lost when an older operator writes in between.
    """
    if not isinstance(stored, dict):
        return wire
    known, parts = _fields(model)
    result = wire | {name: value for name, value in stored.items() if name not in known}
    for name, part in parts.items():
        if name in stored:
            inner = with_unknown(wire.get(name, {}), stored[name], part)
            if inner:
                result[name] = inner
    return result


@cache
def _fields(model: type[PlainModel]) -> tuple[frozenset[str], dict[str, type[PlainModel]]]:
    """Return the names of all fields in JSON, and those fields that are models."""
    fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    parts = {name: part for name, part in fields.items() if isinstance(part, type) and issubclass(part, PlainModel)}
    return frozenset(fields), parts


def stored_otherwise(written: Any, stored: Any, path: str = "status") -> Iterator[str]:
    """Return the paths of fields that were stored with another value; a list is one value."""
    if isinstance(written, dict) and isinstance(stored, dict):
        for name in written.keys() & stored.keys():
            yield from stored_otherwise(written[name], stored[name], f"{path}.{name}")
    elif written != stored:
        yield path


def not_stored(written: Any, stored: Any, path: str = "status") -> Iterator[str]:
    """Return the paths of fields that were written but not stored, with repetitions."""
    if isinstance(written, dict):
        there = stored if isinstance(stored, dict) else {}
        for name, value in written.items():
            if name in there:
                yield from not_stored(value, there[name], f"{path}.{name}")
            else:
                yield f"{path}.{name}"
    elif isinstance(written, list) and isinstance(stored, list):
        for one, other in zip(written, stored, strict=False):
            yield from not_stored(one, other, path)
