"""Settings as YAML documents."""

import inspect
import json
import textwrap
from collections.abc import Hashable, Iterator
from typing import Any

import yaml

from flamectl_operator.runtime.text import YAML_ERRORS
from flamectl_operator.settings.catalogue import catalogue, outline, values
from flamectl_operator.settings.layers import Effective, Layer, SettingsError
from flamectl_operator.settings.model import OperatorConfig, Section

#: The width of explanations in columns.
_WIDTH = 100
_ONE_LINE = 1_000_000

_PREAMBLE = """\
# The settings of flamectl-operator. Each setting is shown with its default, which applies while its line is a
# comment. To change a setting, remove the "# " before it and before its section. A change takes effect within
# seconds, unless the description says that it needs a restart. If the settings are not valid, an event of this
# object and the operator's log say so, and the previous settings stay in force. `flamectl-operator config` prints
# the settings that a newly started operator would use, with the origin of each.
"""


class _Loader(yaml.SafeLoader):
    """Rejects duplicate keys, because the first one would be lost silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - as in PyYAML
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    "while reading a section", node.start_mark, f"found {key.value!r} a second time", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def parse(text: str, origin: str) -> Layer:
    """Parse the text of a file; raise SettingsError if it is not YAML."""
    try:
        return Layer(origin, yaml.load(text, _Loader))  # noqa: S506 - it is a safe loader
    except YAML_ERRORS as error:
        raise SettingsError(f"{origin}: not YAML: {' '.join(str(error).split())}") from error


def defaults() -> str:
    """Return a file in which every setting is explained and commented out.

    So the file sets only what a person decides: a later version may have better defaults, and an earlier version does not fail on
    settings that it does not know.
    """
    config = OperatorConfig()
    commented = (f"# {line}" if line else "" for line in _explained(config))
    return _PREAMBLE + "\n".join([*_head(config), *commented]) + "\n"


def show(effective: Effective) -> str:
    """Return all settings as a file, each with its origin in a comment."""
    config = effective.config
    return "\n".join([*_head(config), *_shown(effective)]) + "\n"


def show_json(effective: Effective) -> str:
    """Return the settings as JSON: each by its path, with `value`, `origin` and `live`."""
    settings = catalogue()
    found = {
        path: {"value": value, "origin": effective.origins[path], "live": settings[path].live}
        for path, value in values(effective.config).items()
    }
    return json.dumps(found, indent=2) + "\n"


def _head(config: OperatorConfig) -> list[str]:
    return [f"apiVersion: {config.api_version}", f"kind: {config.kind}"]


def _explained(config: OperatorConfig) -> Iterator[str]:
    for path, field, value in outline(config):
        indent, key = _place(path)
        if isinstance(value, Section):
            if not indent:
                yield ""
            yield from _comment(inspect.cleandoc(type(value).__doc__ or "").partition("\n\n")[0], indent)
            yield f"{indent}{key}:"
        else:
            restart = "" if catalogue()[path].live else " Needs a restart."
            yield from _comment(f"{field.description}{restart}", indent)
            yield f"{indent}{key}: {_scalar(value)}"


def _shown(effective: Effective) -> Iterator[str]:
    for path, _, value in outline(effective.config):
        indent, key = _place(path)
        shown = "" if isinstance(value, Section) else f" {_scalar(value)}  # {effective.origins[path]}"
        yield f"{indent}{key}:{shown}"


def _place(path: str) -> tuple[str, str]:
    """Return the indentation and the key of a section or a setting."""
    return "  " * path.count("."), path.rpartition(".")[2]


def _comment(text: str, indent: str) -> Iterator[str]:
    yield from textwrap.wrap(
        " ".join(text.split()), _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
    )


def _scalar(value: object) -> str:
    """Return a value, or a list of them, on one line."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text: str = yaml.safe_dump(
        list(value) if isinstance(value, tuple) else value, default_flow_style=True, width=_ONE_LINE
    )
    return text.removesuffix("...\n").strip()
