"""Settings as people write and read them: YAML."""

from __future__ import annotations

import inspect
import json
import textwrap
from typing import TYPE_CHECKING, Any

import yaml

from flamectl_operator.settings.catalogue import HEAD, catalogue, values
from flamectl_operator.settings.layers import Layer, SettingsError
from flamectl_operator.settings.model import OperatorConfig, Section

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from flamectl_operator.settings.layers import Effective

#: Characters of a file, and how deep it may be nested. All settings with their explanations take a tenth of the one and half
#: of the other. Reading YAML holds up everything else, and takes time with the square of the depth.
MAX_LENGTH = 50_000
MAX_DEPTH = 10

#: Columns of what is explained, and of values, which stay on one line.
_WIDTH = 100
_ONE_LINE = 10 * MAX_LENGTH

_PREAMBLE = """\
# The settings of flamectl-operator. Each is shown with its default, which holds for as long as the line is a
# comment: to change one, take the "# " away before it and before its section. A change takes effect within
# seconds, unless it says that it takes a restart. If something is wrong with it, an event of this object and the
# operator's log say so, and the settings before it stay in force. `flamectl-operator config` shows what an
# operator would use that is started now, and where it comes from.
"""


class _Loader(yaml.SafeLoader):
    """Refuses a key that is written twice, for the first one would be lost without a word, and what is nested too deep."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH and parent is not None:
            raise yaml.composer.ComposerError(None, None, "nested too deep", parent.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

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
    """What a file says.

    Args:
        text: Its content.
        origin: What it is called in messages.

    Raises:
        SettingsError: It is not YAML.
    """
    if len(text) > MAX_LENGTH:
        raise SettingsError(f"{origin}: longer than {MAX_LENGTH} characters")
    try:
        return Layer(origin, yaml.load(text, _Loader))  # noqa: S506 - it is a safe loader
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        # Other errors than its own: what looks like a date and is none, or has a tag (`!!int`) that does not fit.
        raise SettingsError(f"{origin}: not YAML: {' '.join(str(error).split())}") from error


def defaults() -> str:
    """A file in which every setting is explained, and commented out.

    So it says nothing but what somebody decides: a later version may have better defaults, and an earlier one does not stumble
    over settings that it does not know.
    """
    config = OperatorConfig()
    commented = (f"# {line}" if line else "" for line in _explained(config))
    return _PREAMBLE + "\n".join([*_head(config), *commented]) + "\n"


def show(effective: Effective) -> str:
    """All settings as a file, each with where it comes from in a comment."""
    config = effective.config
    return "\n".join([*_head(config), *_shown(config, effective)]) + "\n"


def show_json(effective: Effective) -> str:
    """The same for machines: each setting by its path with `value`, `origin` and `live`."""
    settings = catalogue()
    found = {
        path: {"value": value, "origin": effective.origins[path], "live": settings[path].live}
        for path, value in values(effective.config).items()
    }
    return json.dumps(found, indent=2) + "\n"


def _head(config: OperatorConfig) -> list[str]:
    return [f"apiVersion: {config.api_version}", f"kind: {config.kind}"]


def _explained(section: Section, prefix: str = "") -> Iterator[str]:
    indent = "  " * prefix.count(".")
    for key, value in _entries(section):
        path = f"{prefix}{key}"
        if isinstance(value, Section):
            if not prefix:
                yield ""
            yield from _comment(inspect.cleandoc(type(value).__doc__ or "").partition("\n\n")[0], indent)
            yield f"{indent}{key}:"
            yield from _explained(value, f"{path}.")
        elif path not in HEAD:
            setting = catalogue()[path]
            yield from _comment(setting.description + ("" if setting.live else " Takes a restart."), indent)
            yield f"{indent}{key}: {_scalar(value)}"


def _shown(section: Section, effective: Effective, prefix: str = "") -> Iterator[str]:
    indent = "  " * prefix.count(".")
    for key, value in _entries(section):
        path = f"{prefix}{key}"
        if isinstance(value, Section):
            yield f"{indent}{key}:"
            yield from _shown(value, effective, f"{path}.")
        elif path not in HEAD:
            yield f"{indent}{key}: {_scalar(value)}  # {effective.origins[path]}"


def _entries(section: Section) -> Iterator[tuple[str, object]]:
    for name, field in type(section).model_fields.items():
        yield field.alias or name, getattr(section, name)


def _comment(text: str, indent: str) -> Iterator[str]:
    yield from textwrap.wrap(
        " ".join(text.split()), _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
    )


def _scalar(value: object) -> str:
    """A value, or a list of them, on one line."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text: str = yaml.safe_dump(
        list(value) if isinstance(value, tuple) else value, default_flow_style=True, width=_ONE_LINE
    )
    return text.removesuffix("...\n").strip()
