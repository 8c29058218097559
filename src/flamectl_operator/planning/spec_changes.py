"""Finds the fields of a spec that its author changed, and those that read differently because the installed CRD changed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from flamectl_operator.api.constants import REVISION_ANNOTATION, SESSION_MANAGER_ANNOTATION
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.api.model import Model
from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.desired.rendered_spec import RenderedSpec
from flamectl_operator.desired.revision import executor_revision, is_fingerprint, session_manager_revision
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.edited_images import is_stale
from flamectl_operator.planning.removals import RemovalReason
from flamectl_operator.runtime.text import listing

#: The names of a field and of the objects around it.
Path: TypeAlias = tuple[str, ...]
_EDITED = "somebody changed or took off the annotation {}"
_IMAGE_EDITED = "somebody changed the image of a container in the Pod"
#: For executors that the operator created in a moment without a session manager, and that started before the next one.
_ALONE = "created while there was no session manager"


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

    def after(self, before: FlameClusterSpec, now: FlameClusterSpec) -> "SpecChanges":
        """Return the changes after another generation. A change that a component does not read leaves the earlier ones."""
        last = changed_paths(before, now)
        found = tuple(_read(revision, before, now, last) for revision in (session_manager_revision, _executors))
        manager, executors = (tuple(map(_text, paths)) for paths in found)
        return SpecChanges(manager or self.session_manager, executors or self.executors, tuple(map(_text, last)))

    def unwanted(
        self, rendered: RenderedSpec, stored: FlameClusterStatus, observed: ObservedCluster, known: str | None
    ) -> tuple[str, ...]:
        """Return the fields of a valid spec that read differently since the status was written about the same generation.

        The API server applies the installed CRD to each object that it reads. When an older CRD is installed, `podTemplate` or
        `env` may be missing from then on, at the same generation. The status has a hash of the whole spec with its generation,
        and the revisions of the Pods. So a process that has just started notices it as well, even under a CRD that knows no such
        hash.

        Somebody may have edited the status. So a revision counts only if a Pod has it as well, and the hash of the spec does not
        count if this process knows better.

        Args:
            known: `specHash` of the status that this process last wrote or found right; None if there is none.

        Returns:
            Paths of the fields where they are known, otherwise of their component or the spec; empty if nothing changed.
        """
        desired, generation = rendered.desired, rendered.generation
        assert desired is not None
        recorded, read = stored.spec_hash, read_as(generation, desired)
        has_hash = recorded is not None and recorded.startswith(f"{generation}-")
        # Each of the two says that the status is about this generation, and somebody may have edited the other.
        if not (has_hash or stored.observed_generation == generation) or recorded == read:
            return ()
        if recorded == read_as_invalid(generation, rendered.spec_digest):
            return ()  # it reads as before, and other settings or another version of the operator accept it
        components = tuple(dict.fromkeys(self._of_components(desired, stored, observed)))
        if not has_hash or read == known:
            return components
        return self.last or components or ("spec",)

    def _of_components(
        self, desired: DesiredCluster, stored: FlameClusterStatus, observed: ObservedCluster
    ) -> Iterator[str]:
        manager, caches = observed.session_manager, desired.object_cache
        recorded = stored.session_manager.revision
        if recorded and manager is not None and manager.revision == recorded != desired.session_manager.revision:
            yield from self.session_manager or ("spec.sessionManager",)
        recorded = stored.executor_manager.revision
        if recorded and recorded in observed.group.by_revision and recorded != desired.group.template.revision:
            yield from self.executors or ("spec.executorManager",)
        recorded = stored.object_cache.revision
        wanted = caches.revision if caches is not None else ""
        if (
            recorded
            and recorded != wanted
            and any(cache.revision == recorded for cache in observed.object_caches.ours.values())
        ):
            yield "spec.objectCache"


def because(why: str, paths: tuple[str, ...]) -> str:
    """Return why a Pod is replaced, with the fields that changed if they are known."""
    if not paths:
        return why
    return f"{why} ({listing(paths)} changed)"


def why_replaced(pods: Sequence[Component], template: ComponentTemplate, paths: tuple[str, ...]) -> str:
    """Return why stale Pods are replaced: the changed fields, if known, or the annotation or image that somebody changed."""
    found, wanted = {pod.revision for pod in pods}, template.revision
    if found == {wanted} and any(is_stale(pod, template) for pod in pods):
        return _IMAGE_EDITED
    # An executor that is replaced in its present revision does not tell its session manager.
    if found == {wanted}:
        bindings = [pod.pod.annotations.get(SESSION_MANAGER_ANNOTATION) for pod in pods]
        return _EDITED.format(SESSION_MANAGER_ANNOTATION) if any(bindings) or None in bindings else _ALONE
    return (
        because(RemovalReason.STALE.value, paths)
        if any(map(is_fingerprint, found))
        else _EDITED.format(REVISION_ANNOTATION)
    )


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


def read_as(generation: int, desired: DesiredCluster) -> str:
    """Return `specHash` of a spec. An operator that knows no such field keeps the hash of an earlier generation."""
    return f"{generation}-{desired.spec_hash}"


def read_as_invalid(generation: int, digest: bytes) -> str:
    """Return `specHash` of an invalid spec, by the digest of all that was read."""
    return f"{generation}-invalid-{digest.hex()[:16]}"
