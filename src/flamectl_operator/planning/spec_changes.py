"""Finds the changed fields of a spec, so that an event can say why a Pod is replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flamectl_operator.api.flamecluster import FlameClusterSpec

#: Fields that replace no Pod.
_HARMLESS = (
    "spec.executorManager.replicas",
    "spec.executorManager.autoscaling",
    "spec.executorManager.drain",
    "spec.idle",
    "spec.tls.caBundle",
    "spec.executorManager.updateStrategy",
    "spec.sessionManager.updateStrategy",
    "spec.paused",
    "spec.suspend",
    "spec.lockOptions",
    "spec.clientConfig",
    "spec.networkPolicy",
    "spec.objectCache.replicas",
    *(
        f"spec.{component}.persistence.{field}"
        for component in ("sessionManager", "objectCache")
        for field in ("size", "storageClassName", "accessModes", "deletionPolicy")
    ),
)
#: Paths that an event has room for.
MAX_PATHS = 3


@dataclass(frozen=True)
class SpecChanges:
    """The changes that made Pods stale, as far as this process has seen them.

    Args:
        session_manager: Paths that the session manager reads.
        executors: Paths that the executors read.
        last: All paths of the last change.
    """

    session_manager: tuple[str, ...] = ()
    executors: tuple[str, ...] = ()
    last: tuple[str, ...] = ()

    def after(self, before: FlameClusterSpec, now: FlameClusterSpec) -> SpecChanges:
        """Return the changes after another generation. A change that a component does not read leaves the earlier ones."""
        last = changed_paths(before, now)
        paths = [path for path in last if not path.startswith(_HARMLESS)]
        manager = tuple(path for path in paths if not path.startswith(("spec.executorManager", "spec.objectCache")))
        executors = tuple(path for path in paths if not path.startswith("spec.sessionManager"))
        return SpecChanges(manager or self.session_manager, executors or self.executors, last)


def because(why: str, paths: tuple[str, ...]) -> str:
    """Return why a Pod is replaced, with the fields that changed if they are known."""
    if not paths:
        return why
    few = ", ".join(paths[:MAX_PATHS]) + (", ..." if len(paths) > MAX_PATHS else "")
    return f"{why} ({few} changed)"


def changed_paths(before: FlameClusterSpec, now: FlameClusterSpec) -> tuple[str, ...]:
    """Return the paths of the fields in which two specs differ. A list is one field."""
    first, second = (spec.model_dump(mode="json", by_alias=True) for spec in (before, now))
    return tuple(_differences("spec", first, second))


def _differences(path: str, first: Any, second: Any) -> Iterator[str]:
    if isinstance(first, dict) and isinstance(second, dict):
        for key in sorted(first.keys() | second.keys()):
            yield from _differences(f"{path}.{key}", first.get(key), second.get(key))
    elif first != second:
        yield path
