"""From the paths of a Pod's fields, as the API server names them, to the paths of a FlameCluster's fields."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from flamectl_operator.api.constants import COMPONENT_FIELDS
from flamectl_operator.api.quantity import quantity_or_none
from flamectl_operator.desired.unvalidated import as_object

#: A path below a Pod's spec in a message of the API server.
_PATH = re.compile(r"(?<![\w.])spec\.([A-Za-z][\w.\[\]]*)")
_CONTAINER = re.compile(r"(containers|initContainers)\[(\d{1,9})\](?:\.(\w+)(\S*))?")
#: A limit of a container, as the API server names it beside that of its whole Pod.
_OF_WHOLE = re.compile(r"\bspec\.resources\.(containers|initContainers)\[(\d{1,9})\]\[([^\]]+)\]\.(\w+)")
#: The index of a container in a message about one value of it, the path of the field, and the value.
_OF_CONTAINER = re.compile(
    r"\bspec\.(?P<list>containers|initContainers)\[(?P<index>\d{1,9})\](?P<path>(?:\.\w+|\[[^\]]+\])+)"
    r': (?:Invalid value|Unsupported value|Duplicate value|Not found): "?(?P<value>[^"\s:,]+)'
)
_INDEX = re.compile(r"\d{1,9}")
# A key has at most 317 characters. A text of thousands may begin such a path at many of them, and end none.
_STEP = re.compile(r"\.(\w+)|\[([^\]]{1,317})\]")
#: A label or an annotation in a message of the API server.
_METADATA = re.compile(r"(?<![\w.])metadata\.(labels|annotations)\[([^\]]{1,317})\]")
#: An entry of a list at the begin of a path.
_ENTRY = re.compile(r"(\w+)\[(\d{1,9})\]")
#: Fields of the main container for which the component itself has a field.
_CONTAINER_FIELDS = frozenset({"image", "imagePullPolicy", "env", "resources"})


def authored_paths(message: str, component: str, pod_spec: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Return a message with each path of a Pod's field replaced by the FlameCluster's path; `asked` is the podTemplate's spec."""
    prefix = COMPONENT_FIELDS[component]

    def replace(match: re.Match[str]) -> str:
        path = match[1]
        container = _CONTAINER.match(path)
        entries, index = (_entries(pod_spec, container[1]), int(container[2])) if container is not None else ([], 0)
        if container is not None and index >= len(entries):
            return match[0]  # of a webhook: the FlameCluster has no field for it
        made = as_object(entries[index]) if container is not None else {}
        name = made.get("name")
        if container is None or name is None:
            return f"{prefix}.podTemplate.spec.{_placed(path, pod_spec, asked)}"
        kind, field, rest = container[1], container[3] or "", container[4] or ""
        if name == component and field in _CONTAINER_FIELDS:
            # The operator's own variables come before the author's, so an index would be another one.
            return f"{prefix}.{field}" + ("" if field == "env" else rest)
        authored = _entries(asked, kind)
        place = next((index for index, each in enumerate(authored) if as_object(each).get("name") == name), None)
        where = f"[{place}]" if place is not None else f"[name={name}]"
        theirs = as_object(authored[place]) if place is not None else {}
        return f"{prefix}.podTemplate.spec.{kind}{where}" + (f".{_placed(field + rest, made, theirs)}" if field else "")

    return _PATH.sub(replace, _OF_WHOLE.sub(r"spec.\1[\2].resources.\4[\3]", message))


def as_manifested(message: str, pod_spec: Mapping[str, Any]) -> str:
    """Return a message about a Pod with the indices that its containers have in the manifest.

    A webhook may put a container before them, as Istio does with `holdApplicationUntilProxyStarts`. The value that the API server
    quotes tells which container it means.
    """

    def replace(match: re.Match[str]) -> str:
        kind, index = match["list"], int(match["index"])
        holding = [
            place
            for place, each in enumerate(_entries(pod_spec, kind))
            if any(_equal(leaf, match["value"]) for leaf in _leaves(_at(each, match["path"])))
        ]
        if index in holding or len(holding) != 1:
            return match[0]
        return match[0].replace(f"{kind}[{index}]", f"{kind}[{holding[0]}]", 1)

    return _OF_CONTAINER.sub(replace, message)


def names_added_container(message: str, pod_spec: Mapping[str, Any]) -> bool:
    """Return whether a message is about a container behind those of the manifest, which only a webhook can have added."""
    found = (_CONTAINER.match(path) for path in _PATH.findall(message))
    return any(int(each[2]) >= len(_entries(pod_spec, each[1])) for each in found if each is not None)


def authored_metadata(message: str, place: str = "", metadata: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return a message with the path of each label and annotation replaced by the FlameCluster's path.

    Args:
        place: The path of the metadata that the object has besides the common labels and annotations.
        metadata: This metadata; empty for an object that has none from its author.
    """

    def replace(match: re.Match[str]) -> str:
        kind, key = match.groups()
        if key in as_object(metadata.get(kind)):
            return f"{place}.{kind}[{key}]"
        return f"spec.common{kind.capitalize()}[{key}]"

    return _METADATA.sub(replace, message)


def _placed(path: str, made: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Return a path with the place of an entry in the author's list (`asked`); without a place for one of the operator."""
    match = _ENTRY.match(path)
    entries = _entries(made, match[1]) if match is not None else []
    if match is None or int(match[2]) >= len(entries):
        return path
    entry = entries[int(match[2])]
    place = next((index for index, each in enumerate(_entries(asked, match[1])) if _within(each, entry)), None)
    return f"{match[1]}{'' if place is None else f'[{place}]'}{path[match.end() :]}"


def _within(asked: Any, made: Any) -> bool:
    """Return whether an entry is the one that its author wrote, to which the operator may have added fields."""
    if isinstance(asked, dict) and isinstance(made, dict):
        return all(made.get(key) == value for key, value in asked.items())
    return bool(asked == made)


def _entries(spec: Mapping[str, Any], kind: str) -> list[Any]:
    entries = spec.get(kind)
    return entries if isinstance(entries, list) else []


def _at(value: Any, path: str) -> Any:
    """Return what is at a path such as `.resources.limits[cpu]`; None where there is nothing."""
    for field, key in _STEP.findall(path):
        if isinstance(value, list):
            value = value[int(key)] if _INDEX.fullmatch(key) and int(key) < len(value) else None
        else:
            value = as_object(value).get(field or key)
    return value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)
    elif value is not None:
        yield value


def _equal(leaf: Any, words: str) -> bool:
    """Return whether a value is the one that the API server quotes, which writes quantities in a notation of its own."""
    found, said = quantity_or_none(leaf), quantity_or_none(words)
    return str(leaf) == words or (found is not None and found == said)
