"""Limits on the size of a spec, checked before anything reads the whole spec.

Every user with the *edit* role may write a FlameCluster. Without limits, a spec of a megabyte would take seconds to validate and
render, and the operator could serve no other FlameCluster meanwhile. Real specs are far smaller: the largest sample has 4 KiB.
"""

from collections.abc import Iterator
from typing import Any

from flamectl_operator.api.constants import COMPONENT_FIELDS
from flamectl_operator.api.problems import Problem, path_of

#: Bytes of a whole spec as JSON.
MAX_SPEC_SIZE = 256 * 1024
#: Bytes of `configOverrides`, of `networkPolicy`, and of each `podTemplate`, as JSON.
MAX_FIELD_SIZE = 64 * 1024
#: Values (objects, lists, strings, numbers) in one of these fields.
MAX_NODES = 4096
#: The deepest nesting of objects and lists in one field. The API server accepts ten thousand levels, whose paths and indentation
#: take memory that grows with the square of the depth. Pods and flame-cluster.yaml need a dozen levels.
MAX_DEPTH = 64
#: Fields that consist of fields, for the path of a value that is too large.
_COMPONENTS = frozenset(field.removeprefix("spec.") for field in COMPONENT_FIELDS.values())
#: Fields whose size has a limit of its own.
_LARGE_FIELDS = frozenset({"configOverrides", "networkPolicy", "podTemplate"})


def size_problems(size: int) -> Iterator[Problem]:
    """Yield the problem of a spec that is too large to be decoded, by its bytes as JSON."""
    if size > MAX_SPEC_SIZE:
        yield Problem("spec", f"must have at most {_kib(MAX_SPEC_SIZE)} as JSON, has {_kib(size)}")


def cost_problems(raw: Any) -> Iterator[Problem]:
    """Yield the problems of fields of a spec within `MAX_SPEC_SIZE`: too large, too many values, or nested too deeply."""
    for location, value in _fields(raw if isinstance(raw, dict) else {}):
        nodes, depth, size = _measure(value)
        path = path_of(location)
        if depth > MAX_DEPTH:
            yield Problem(path, f"must not be nested more than {MAX_DEPTH} levels deep")
        elif nodes > MAX_NODES:
            yield Problem(path, f"must have at most {MAX_NODES} values, has {nodes}")
        elif size > MAX_FIELD_SIZE and location[-1] in _LARGE_FIELDS:
            yield Problem(path, f"must have at most {_kib(MAX_FIELD_SIZE)}, has {_kib(size)}")


def number_of_values(raw: Any) -> int:
    """Return how many values (objects, lists, strings, numbers) a spec without `cost_problems` has."""
    return sum(_measure(value)[0] for _location, value in _fields(raw if isinstance(raw, dict) else {}))


def _fields(raw: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in raw.items():
        if name in _COMPONENTS and isinstance(value, dict):
            yield from (((name, part), below) for part, below in value.items())
        else:
            yield (name,), value


def _measure(value: Any) -> tuple[int, int, int]:
    """Return the number of values, the depth and the characters of a value, counted to one level below `MAX_DEPTH`."""
    nodes, characters, level = 0, 0, [value]
    for depth in range(MAX_DEPTH + 2):
        if not level:
            return nodes, depth - 1, characters
        nodes += len(level)
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                characters += sum(map(len, each))
                below += each.values()
            elif isinstance(each, list):
                below += each
            elif isinstance(each, str):
                characters += len(each.encode())
        level = below
    return nodes, MAX_DEPTH + 1, characters


def _kib(size: int) -> str:
    return f"{-(-size // 1024)} KiB"
