"""The status under an installed CRD of another version.

The API server silently drops fields that the installed CRD does not declare. Fields that a newer operator stored under a newer
CRD must not be lost when an older operator writes in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from flamectl_operator.api.model import PlainModel
from flamectl_operator.api.status import FlameClusterStatus


def with_unknown(wire: dict[str, Any], stored: Any, model: type[PlainModel] = FlameClusterStatus) -> dict[str, Any]:
    """Return a status with the unknown fields of the stored status added."""
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


def changed(written: Any, stored: Any, path: str = "status") -> Iterator[str]:
    """Return the paths of fields that were stored with another value; a list is one value."""
    if isinstance(written, dict) and isinstance(stored, dict):
        for name in written.keys() & stored.keys():
            yield from changed(written[name], stored[name], f"{path}.{name}")
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
