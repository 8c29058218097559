"""Layers of settings from several places, merged with a record of each setting's origin.

A layer holds the settings of one place: a file or ConfigMap, the environment, or the command line. Each layer is checked alone,
so that a bad value is rejected even if a later layer overrides it. Rules between settings are checked on the result.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from flamectl_operator.settings.catalogue import ENVIRONMENT_PREFIX, HEAD, catalogue, nearest
from flamectl_operator.settings.model import COMBINATION, OperatorConfig

#: The origin of a setting that no layer sets.
DEFAULT = "default"


class SettingsError(Exception):
    """The settings cannot be used; the text names the place, the field and a valid value."""


@dataclass(frozen=True)
class Layer:
    """The settings of one place, which messages name.

    Args:
        document: The settings, nested as in a file and not validated yet.
        origins: More exact origins of single settings, such as a flag, by path.
        typed: Whether the values have types, as in YAML, where quotes make a text. In the environment everything is text.
    """

    origin: str
    document: object
    origins: Mapping[str, str] = field(default_factory=dict)
    typed: bool = True

    def origin_of(self, path: str) -> str:
        """Return the origin of a setting, or of an entry of its list, in this layer."""
        return self.origins.get(path.partition("[")[0], self.origin)


@dataclass(frozen=True)
class Effective:
    """Valid settings, and the origin of each by path, which is `default` where no layer sets it."""

    config: OperatorConfig
    origins: Mapping[str, str]


def layer_of(origin: str, settings: Mapping[str, tuple[str, object]]) -> Layer:
    """Return a layer from single settings: the exact origin and the value of each, by path."""
    document: dict[str, Any] = {}
    for path, (_, value) in settings.items():
        *sections, name = path.split(".")
        section = document
        for each in sections:
            section = section.setdefault(each, {})
        section[name] = value
    return Layer(origin, document, {path: exact for path, (exact, _) in settings.items()}, typed=False)


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """Read settings from variables such as `FLAMECTL_CONFIG_CONTROLLER_WORKERS=4`; raise SettingsError for an unknown one.

    Lists are separated by commas; an empty value is an empty list.
    """
    known = {setting.variable: setting for setting in catalogue().values()}
    ours = sorted(name for name in environ if name.startswith(ENVIRONMENT_PREFIX))
    unknown = [name for name in ours if name not in known]
    if unknown:
        raise SettingsError(
            "; ".join(f"environment variable {name}: no such setting{nearest(name, known)}" for name in unknown)
        )
    values: dict[str, tuple[str, object]] = {}
    for name in ours:
        setting, text = known[name], environ[name]
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        values[setting.path] = (f"environment variable {name}", parts if setting.many else text)
    return layer_of("environment", values)


def merge(layers: Sequence[Layer]) -> Effective:
    """Merge layers: later ones take precedence, and lists are replaced. Raise SettingsError for an unknown or bad setting."""
    document: dict[str, Any] = {}
    origins = dict.fromkeys(catalogue(), DEFAULT)
    for layer in layers:
        check(layer)
        document = _merged(document, layer.document)
        origins |= {path: layer.origin_of(path) for path, _ in _values(layer.document)}
    try:
        config = _validated(document)
    except ValidationError as error:
        raise SettingsError("; ".join(_conflict(problem, origins) for problem in error.errors())) from error
    return Effective(config, origins)


def check(layer: Layer) -> None:
    """Validate one layer alone; raise SettingsError for an unknown setting or a bad value."""
    try:
        _validated(layer.document)
    except ValidationError as error:
        problems = [problem for problem in error.errors() if problem["type"] != COMBINATION]
        if problems:
            raise SettingsError(
                _in_one_line((layer.origin_of(_path(each)), _complaint(each)) for each in problems)
            ) from error
    if layer.typed and (mistaken := list(_mistaken(layer.document))):
        raise SettingsError(_in_one_line((layer.origin, complaint) for complaint in mistaken))


def _mistaken(document: object) -> Iterator[str]:
    """Yield complaints about texts in place of numbers, `true` and `false`, and about these two in place of numbers."""
    for path, value in _values(document):
        default = catalogue()[path].default if path in catalogue() else ""
        if isinstance(value, str) and isinstance(default, (bool, int, float)):
            kind = "true or false" if isinstance(default, bool) else "a number"
            yield f"{path}: must be {kind} without quotes"
        elif isinstance(value, bool) and isinstance(default, (int, float)) and not isinstance(default, bool):
            yield f"{path}: must be a number, not true or false"


def _validated(document: object) -> OperatorConfig:
    return OperatorConfig.model_validate(document, by_alias=True, by_name=False)


def _in_one_line(complaints: Iterable[tuple[str, str]]) -> str:
    """Return all problems in one line; each place is named once."""
    text, last = "", ""
    for origin, complaint in complaints:
        text += f"{'; ' if text else ''}{'' if origin == last else f'{origin}: '}{complaint}"
        last = origin
    return text


def _complaint(problem: ErrorDetails) -> str:
    path = _path(problem)
    if problem["type"] == "extra_forbidden":
        return f"{path}: no such setting{nearest(path, catalogue())}"
    # Remove the prefix that pydantic adds to the messages of our own rules.
    return f"{path or '(document)'}: {problem['msg'].removeprefix('Value error, ')}"


def _conflict(problem: ErrorDetails, origins: Mapping[str, str]) -> str:
    """Return an error about settings that contradict each other, with every place that sets something in their section."""
    section = _path(problem).rpartition(".")[0]
    places = dict.fromkeys(
        origin for path, origin in origins.items() if path.rpartition(".")[0] == section and origin != DEFAULT
    )
    return f"{', '.join(places)}: {_complaint(problem)}"


def _path(problem: ErrorDetails) -> str:
    """Return the path in the file; for a default that contradicts another setting, pydantic gives the Python name."""
    unknown = problem["type"] == "extra_forbidden"
    names = [part if unknown or isinstance(part, int) else to_camel(part) for part in problem["loc"]]
    text = "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in names)
    return text.removeprefix(".")


def _merged(below: object, above: object) -> Any:
    """Return merged sections; the upper one takes precedence. An empty section is null in YAML."""
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {name: _merged(below.get(name), value) for name, value in above.items()}
    return below if above is None else above


def _values(document: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Iterate over path and value of the settings in a document."""
    if isinstance(document, dict):
        for name, value in document.items():
            if isinstance(value, dict):
                yield from _values(value, f"{prefix}{name}.")
            elif value is not None and name not in HEAD:
                yield f"{prefix}{name}", value
