"""Settings from several places put over one another, with a record of which place each of them comes from.

A layer is what one place says: a file or ConfigMap, the environment, the command line. Each is checked alone, so that a bad
value is refused also where a later layer has another one; rules between settings are checked on the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from flamectl_operator.settings.catalogue import HEAD, catalogue, nearest
from flamectl_operator.settings.model import COMBINATION, OperatorConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pydantic_core import ErrorDetails

#: Where a setting comes from that nobody says anything about.
DEFAULT = "default"


class SettingsError(Exception):
    """The settings cannot be used; the text names the place and the field and says what would be right."""


@dataclass(frozen=True)
class Layer:
    """What one place says.

    Args:
        origin: The place, as messages call it, such as the path of a file.
        document: What it says, nested as in a file, yet to be checked.
        origins: More exact places of single settings, such as a flag, by the settings' paths.
    """

    origin: str
    document: object
    origins: Mapping[str, str] = field(default_factory=dict)

    def origin_of(self, path: str) -> str:
        """Where in this layer a setting, or an entry of its list, is."""
        return self.origins.get(path.partition("[")[0], self.origin)


@dataclass(frozen=True)
class Effective:
    """Settings that can be used.

    Args:
        config: The settings.
        origins: Which place each of them comes from, by path; `default` where nobody says anything.
    """

    config: OperatorConfig
    origins: Mapping[str, str]


def layer_of(origin: str, settings: Mapping[str, tuple[str, object]]) -> Layer:
    """A layer from single settings.

    Args:
        origin: The place.
        settings: By path, the more exact place and the value.
    """
    document: dict[str, Any] = {}
    for path, (_, value) in settings.items():
        *sections, name = path.split(".")
        section = document
        for each in sections:
            section = section.setdefault(each, {})
        section[name] = value
    return Layer(origin, document, {path: exact for path, (exact, _) in settings.items()})


def merge(layers: Sequence[Layer]) -> Effective:
    """Puts layers over one another.

    Args:
        layers: The weakest first. Lists are replaced, not joined.

    Raises:
        SettingsError: One of them has something that is not a setting, or a bad value, or they do not go together.
    """
    document: dict[str, Any] = {}
    origins = dict.fromkeys(catalogue(), DEFAULT)
    for layer in layers:
        check(layer)
        document = _over(document, layer.document)
        origins |= {path: layer.origin_of(path) for path in _said(layer.document)}
    try:
        config = _validated(document)
    except ValidationError as error:
        raise SettingsError("; ".join(_conflict(problem, origins) for problem in error.errors())) from error
    return Effective(config, origins)


def check(layer: Layer) -> None:
    """Whether a layer makes sense for itself.

    Raises:
        SettingsError: It has something that is not a setting, or a bad value.
    """
    try:
        _validated(layer.document)
    except ValidationError as error:
        problems = [problem for problem in error.errors() if problem["type"] != COMBINATION]
        if problems:
            raise SettingsError(
                _listed((layer.origin_of(_path(each)), _complaint(each)) for each in problems)
            ) from error


def _validated(document: object) -> OperatorConfig:
    return OperatorConfig.model_validate(document, by_alias=True, by_name=False)


def _listed(complaints: Iterable[tuple[str, str]]) -> str:
    """All that is wrong, in one line; a place is named once for what is wrong there."""
    text, last = "", ""
    for origin, complaint in complaints:
        text += f"{'; ' if text else ''}{'' if origin == last else f'{origin}: '}{complaint}"
        last = origin
    return text


def _complaint(problem: ErrorDetails) -> str:
    path = _path(problem)
    if problem["type"] == "extra_forbidden":
        return f"{path}: no such setting{nearest(path, catalogue())}"
    # Without the words that pydantic puts before those of our own rules.
    return f"{path or '(document)'}: {problem['msg'].removeprefix('Value error, ')}"


def _conflict(problem: ErrorDetails, origins: Mapping[str, str]) -> str:
    """Settings that do not go together: all places that say something about their section may have to do with it."""
    section = _path(problem).rpartition(".")[0]
    places = dict.fromkeys(
        origin for path, origin in origins.items() if path.rpartition(".")[0] == section and origin != DEFAULT
    )
    return f"{', '.join(places)}: {_complaint(problem)}"


def _path(problem: ErrorDetails) -> str:
    """Where in the file: a default that does not go with another setting is found under its name in Python."""
    unknown = problem["type"] == "extra_forbidden"
    names = [part if unknown or isinstance(part, int) else to_camel(part) for part in problem["loc"]]
    text = "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in names)
    return text.removeprefix(".")


def _over(below: object, above: object) -> Any:
    """Sections joined, the upper one's settings winning. A section without anything in it is null in YAML."""
    if isinstance(below, dict) and isinstance(above, dict):
        return below | {name: _over(below.get(name), value) for name, value in above.items()}
    return below if above is None else above


def _said(document: object, prefix: str = "") -> Iterator[str]:
    """Paths of the settings in a document that was checked."""
    if isinstance(document, dict):
        for name, value in document.items():
            if isinstance(value, dict):
                yield from _said(value, f"{prefix}{name}.")
            elif value is not None and name not in HEAD:
                yield f"{prefix}{name}"
