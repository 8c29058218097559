"""The keys by which lists of a Pod spec merge, and entries of one list with the same key."""

from collections.abc import Hashable, Iterator
from typing import Any

#: The merge keys of lists in a Pod spec, by the name of the field, with the values that a key has by default. They are those of
#: server-side apply (`x-kubernetes-list-map-keys` in Kubernetes' OpenAPI description).
MERGE_KEYS: dict[str, dict[str, Any]] = {
    "containers": {"name": None},
    "initContainers": {"name": None},
    "ephemeralContainers": {"name": None},
    "volumes": {"name": None},
    "imagePullSecrets": {"name": None},
    "hostAliases": {"ip": None},
    "topologySpreadConstraints": {"topologyKey": None, "whenUnsatisfiable": None},
    "schedulingGates": {"name": None},
    "resourceClaims": {"name": None},
    "env": {"name": None},
    "ports": {"containerPort": None, "protocol": "TCP"},
    "volumeMounts": {"mountPath": None},
    "volumeDevices": {"devicePath": None},
}


def merge_key(field: str, entry: Any) -> tuple[Hashable, ...] | None:
    """Return the key of an entry of a keyed list; None when it has none, so that Kubernetes refuses the entry."""
    if not isinstance(entry, dict):
        return None
    defaults = MERGE_KEYS[field]
    values = [entry.get(name, default) for name, default in defaults.items()]
    invalid = [value for value in values if not isinstance(value, str | int | None)]
    return None if values[0] is None or invalid else tuple(values)


def repeated(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the paths of entries that would be merged into an earlier entry of their list, each with what is wrong."""
    if isinstance(value, dict):
        for field, part in value.items():
            if field in MERGE_KEYS and isinstance(part, list):
                yield from ((f".{field}{path}", problem) for path, problem in _repeated_in(field, part))
            yield from ((f".{field}{path}", problem) for path, problem in repeated(part))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from ((f"[{index}]{path}", problem) for path, problem in repeated(part))


def _repeated_in(field: str, entries: list[Any]) -> Iterator[tuple[str, str]]:
    known: dict[tuple[Hashable, ...], int] = {}
    for index, entry in enumerate(entries):
        key = merge_key(field, entry)
        if key is None:
            continue
        if key in known:
            names = " and ".join(MERGE_KEYS[field])
            yield f"[{index}]", f"must not have the {names} of {field}[{known[key]}]: the two would become one entry"
        else:
            known[key] = index
