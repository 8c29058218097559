"""Finds the changed fields of a spec, so that an event can say why a Pod is replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from flamectl_operator.api.constants import REVISION_ANNOTATION, SESSION_MANAGER_ANNOTATION
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.api.model import Model
from flamectl_operator.desired.revision import executor_revision, is_fingerprint, session_manager_revision
from flamectl_operator.observed.component import Component
from flamectl_operator.planning.parts import STALE
from flamectl_operator.runtime.text import listing

#: The names of a field and of the objects around it.
Path: TypeAlias = tuple[str, ...]
_EDITED = "somebody changed or took off the annotation {}"
#: For executors that the operator created in a moment without a session manager, and that started before the next one.
_ALONE = "created while there was no session manager"
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
        found = tuple(_read(revision, before, now, last) for revision in (session_manager_revision, _executors))
        manager, executors = (tuple(map(_text, paths)) for paths in found)
        return SpecChanges(manager or self.session_manager, executors or self.executors, tuple(map(_text, last)))


def because(why: str, paths: tuple[str, ...]) -> str:
    """Return why a Pod is replaced, with the fields that changed if they are known."""
    if not paths:
        return why
    return f"{why} ({listing(paths, MAX_PATHS)} changed)"


def why_replaced(pods: Sequence[Component], wanted: str, paths: tuple[str, ...]) -> str:
    """Return why stale Pods are replaced: the fields that changed, or the annotation that somebody changed or took off."""
    found = {pod.revision for pod in pods}
    # An executor that is replaced in its present revision does not tell its session manager.
    if found == {wanted}:
        marks = [pod.pod.annotations.get(SESSION_MANAGER_ANNOTATION) for pod in pods]
        return _EDITED.format(SESSION_MANAGER_ANNOTATION) if any(marks) or None in marks else _ALONE
    return because(STALE, paths) if any(map(is_fingerprint, found)) else _EDITED.format(REVISION_ANNOTATION)


def changed_paths(before: FlameClusterSpec, now: FlameClusterSpec) -> tuple[Path, ...]:
    """Return the paths of the fields in which two specs differ. A list is one field."""
    first, second = (spec.model_dump(mode="json", by_alias=True) for spec in (before, now))
    return tuple(_differences((), first, second))


def _differences(path: Path, first: Any, second: Any) -> Iterator[Path]:
    if isinstance(first, dict) and isinstance(second, dict):
        for key in sorted(first.keys() | second.keys()):
            yield from _differences((*path, key), first.get(key), second.get(key))
    elif first != second:
        yield path


def _executors(name: str, spec: FlameClusterSpec) -> str:
    return executor_revision(name, spec, spec.executor_manager)


def _read(
    revision: Callable[[str, FlameClusterSpec], str],
    before: FlameClusterSpec,
    now: FlameClusterSpec,
    paths: Iterable[Path],
) -> Iterator[Path]:
    """Yield the changed fields that a revision hashes: with the earlier value of such a field the revision is another one."""
    present = revision("", now)
    return (path for path in paths if revision("", _with(now, before, path)) != present)


def _with(now: Any, before: Any, path: Path) -> Any:
    """Return a spec, or a part of one, with the field at a path as it was before."""
    if not path or not (isinstance(now, Model) and isinstance(before, Model)):
        return before
    fields = type(now).model_fields.items()
    name = next(name for name, field in fields if path[0] in {name, field.alias})
    return now.model_copy(update={name: _with(getattr(now, name), getattr(before, name), path[1:])})


def _text(path: Path) -> str:
    return ".".join(("spec", *path))
