"""From the paths of a Pod's fields, as the API server names them, to the paths of a FlameCluster's fields."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A path below a Pod's spec in a message of the API server.
_PATH = re.compile(r"(?<![\w.])spec\.([A-Za-z][\w.\[\]]*)")
_CONTAINER = re.compile(r"(containers|initContainers)\[(\d+)\](?:\.(\w+)(\S*))?")
#: Fields of the main container for which the component itself has a field.
_COMPONENT_FIELDS = frozenset({"image", "imagePullPolicy", "env", "resources"})


def authored_paths(message: str, component: str, pod_spec: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Return a message with each path of a Pod's field replaced by the FlameCluster's path.

    Args:
        message: The API server's message about a Pod.
        component: Name of the component, which is also the name of its main container.
        asked: The spec of the component's podTemplate.
    """
    prefix = f"spec.{to_camel(component.replace('-', '_'))}"

    def replace(match: re.Match[str]) -> str:
        path = match[1]
        container = _CONTAINER.match(path)
        name = _name(pod_spec, container[1], int(container[2])) if container is not None else None
        if container is None or name is None:
            return f"{prefix}.podTemplate.spec.{path}"
        kind, field, rest = container[1], container[3] or "", container[4] or ""
        if name == component and field in _COMPONENT_FIELDS:
            # The operator's own variables come before the author's, so an index would be another one.
            return f"{prefix}.{field}" + ("" if field == "env" else rest)
        place = next((index for index, each in enumerate(_entries(asked, kind)) if _is(each, name)), None)
        where = f"[{place}]" if place is not None else f"[name={name}]"
        return f"{prefix}.podTemplate.spec.{kind}{where}" + (f".{field}{rest}" if field else "")

    return _PATH.sub(replace, message)


def _name(pod_spec: Mapping[str, Any], kind: str, index: int) -> str | None:
    entries = _entries(pod_spec, kind)
    return entries[index].get("name") if index < len(entries) and isinstance(entries[index], dict) else None


def _entries(spec: Mapping[str, Any], kind: str) -> list[Any]:
    entries = spec.get(kind)
    return entries if isinstance(entries, list) else []


def _is(entry: Any, name: str) -> bool:
    return isinstance(entry, dict) and entry.get("name") == name
