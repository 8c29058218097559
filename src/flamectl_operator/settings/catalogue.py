"""All settings by their paths, such as `flame.podPolicy.privileged`, derived from the model, and their changes."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from pydantic.fields import FieldInfo

from flamectl_operator.settings.model import AT_START, OperatorConfig, Section

#: The prefix of environment variables. It is not `FLAMECTL_OPERATOR_`, because Kubernetes sets variables with that prefix in Pods
#: beside a Service named flamectl-operator.
ENVIRONMENT_PREFIX = "FLAMECTL_CONFIG_"

#: The keys of a file that are not settings.
HEAD = ("apiVersion", "kind")

_WORD = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True)
class Setting:
    """One setting; a change of a live one takes effect without a restart."""

    path: str
    description: str
    default: object
    live: bool

    @property
    def many(self) -> bool:
        """Whether its value is a list."""
        return isinstance(self.default, tuple)

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return ENVIRONMENT_PREFIX + "_".join(_WORD.sub("_", part).upper() for part in self.path.split("."))


@cache
def catalogue() -> Mapping[str, Setting]:
    """Return each setting by its path, in the order of the model."""
    return {
        path: Setting(path, field.description or "", default, live=AT_START not in field.metadata)
        for path, field, default in _settings(OperatorConfig())
    }


def values(config: OperatorConfig) -> dict[str, object]:
    """Return the value of each setting by its path."""
    return {path: value for path, _, value in _settings(config)}


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for a misspelt name, as the end of a sentence; empty when no name is similar."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.7)
    return f"; did you mean {found[0]}?" if found else ""


def outline(section: Section, prefix: str = "") -> Iterator[tuple[str, FieldInfo, object]]:
    """Iterate over path, field and value of each section, followed by its settings, in the order of the model."""
    for name, field in type(section).model_fields.items():
        value, path = getattr(section, name), f"{prefix}{field.alias}"
        if path not in HEAD:
            yield path, field, value
        if isinstance(value, Section):
            yield from outline(value, f"{path}.")


def _settings(config: OperatorConfig) -> Iterator[tuple[str, FieldInfo, object]]:
    return (each for each in outline(config) if not isinstance(each[2], Section))


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
