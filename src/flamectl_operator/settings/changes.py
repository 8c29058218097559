"""Changes of settings while the operator runs."""

from __future__ import annotations

from typing import TypeVar

from flamectl_operator.settings.catalogue import catalogue, values
from flamectl_operator.settings.model import AT_START, OperatorConfig, Section

S = TypeVar("S", bound=Section)


def changed(before: OperatorConfig, after: OperatorConfig) -> tuple[str, ...]:
    """Return the paths of the settings that differ, in the order of the model."""
    old, new = values(before), values(after)
    return tuple(path for path in new if new[path] != old[path])


def restart_needed(started: OperatorConfig, wanted: OperatorConfig) -> tuple[str, ...]:
    """Return the paths of the changed settings that need a restart."""
    return tuple(path for path in changed(started, wanted) if not catalogue()[path].live)


def in_force(started: S, wanted: S) -> S:
    """Return the new settings, except those that need a restart, which keep their values from the start."""
    kept: dict[str, object] = {}
    for name, field in type(wanted).model_fields.items():
        before, after = getattr(started, name), getattr(wanted, name)
        if AT_START in field.metadata:
            kept[name] = before
        elif isinstance(after, Section):
            kept[name] = in_force(before, after)
    return wanted.model_copy(update=kept)
