"""Finds answers that contradict what the cache knew when their requests were sent, and remembers states that a store ignores.

A read shows etcd as it is after the request was sent, and each write gets a higher resourceVersion than all writes before it.
So an answer that is older than the cache was shows that etcd was set back to a copy, or that something else answered in place of
the API server. So does an answer with an unknown object whose resourceVersion the watch has passed. The watches cannot show this:
when other writes have used up the resourceVersions that were lost, a watch resumes as if nothing had happened, and the changes in
between are never reported. The resourceVersion of an object does not show it either when somebody has written the object since.
But its generation never becomes lower, and a deletion is never taken back.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Generic, TypeVar

from flamectl_operator.kube.errors import ConnectionLostError
from flamectl_operator.kube.views import KubernetesObject

T = TypeVar("T", bound=KubernetesObject)
K = TypeVar("K")

#: The most uids of deleted objects that are remembered after the reflector reported the deletion.
_MAX_ENDED = 1000


@dataclass(frozen=True, slots=True)
class _Horizon:
    """The version up to which a store ignores the states of one object, or of all objects with one value of the index."""

    namespace: str
    version: int


class OutdatedStates(Generic[T]):
    """The states that a store ignores, because their objects were deleted or went out of sight later; see `store`."""

    def __init__(self, index: Callable[[T], Hashable | None]) -> None:
        self._index = index
        self.tombstones: dict[str, _Horizon] = {}  # by uid
        self.ended: dict[str, None] = {}  # uids of former tombstones, oldest first
        self._out_of_sight: dict[str, _Horizon] = {}  # by uid
        self._listed: dict[Hashable, _Horizon] = {}  # by value of the index, for objects missing from a requested list

    def has(self, obj: T, *, stored: bool) -> bool:
        """Return whether a state is older than the known deletion or disappearance of its object."""
        uid = obj.uid
        if uid in self.tombstones or uid in self.ended:
            return True
        if not (self._out_of_sight or self._listed):
            return False
        ends = (self._out_of_sight.get(uid), None if stored else self._listed.get(self._index(obj)))
        return any(end is not None and version_of(obj) <= end.version for end in ends)

    def deleted(self) -> frozenset[str]:
        """Return the uids of objects that responses showed to be gone."""
        return frozenset((*self.tombstones, *self.ended))

    def add_deletion(self, obj: T, version: int) -> None:
        """Ignore all states of a deleted object, whose last known resourceVersion is the version."""
        self.tombstones[obj.uid] = _Horizon(obj.namespace, version)

    def add_disappearance(self, obj: T, version: int) -> None:
        """Ignore the states of an object up to a version."""
        self._out_of_sight[obj.uid] = _Horizon(obj.namespace, version)

    def add_list(self, value: Hashable, namespace: str, version: int) -> None:
        """Ignore states up to a version of unknown objects with a value of the index."""
        self._listed[value] = _Horizon(namespace, version)

    def end(self, obj: T) -> bool:
        """Take the reflector's report of a deletion; return whether a response has already shown it."""
        tombstone = self.tombstones.get(obj.uid)
        # An event older than the tombstone means that the object lost its label for a while; its deletion is still to come.
        if tombstone is not None and version_of(obj) >= tombstone.version:
            del self.tombstones[obj.uid]
            self.ended[obj.uid] = None
            if len(self.ended) > _MAX_ENDED:
                del self.ended[next(iter(self.ended))]
        return tombstone is not None or obj.uid in self.ended

    def forget_deletions(self, listed: Collection[str], moment: int, namespace: str | None) -> None:
        """Drop tombstones of objects that a list of a namespace, or of all, shows to be gone."""
        for uid, tombstone in list(self.tombstones.items()):
            if namespace in {None, tombstone.namespace} and uid not in listed and tombstone.version <= moment:
                del self.tombstones[uid]

    def forget_disappearances(self, namespace: str | None, passed: float) -> None:
        """Drop the other records that the reflector has passed, because its later states are newer."""
        _forget(self._out_of_sight, namespace, passed)
        _forget(self._listed, namespace, passed)

    def clear(self, namespace: str | None) -> None:
        """Drop all records of a namespace, or of all namespaces."""
        _forget(self.tombstones, namespace)
        self.forget_disappearances(namespace, inf)
        self.ended.clear()


def version_of(obj: KubernetesObject | None) -> int:
    """Return the resourceVersion as a number; 0 for no object or an object that was never stored."""
    return int(obj.metadata.resource_version or 0) if obj is not None else 0


def _forget(records: dict[K, _Horizon], namespace: str | None, passed: float = inf) -> None:
    """Drop the records up to a version, in one namespace or in all."""
    if not records:  # as nearly always
        return
    for key, each in list(records.items()):
        if namespace in {None, each.namespace} and each.version <= passed:
            del records[key]


class OutdatedAnswerError(ConnectionLostError):
    """The answer is older than the cache was when the request was sent. As after a lost answer, a write may have been applied."""


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """The state of a store before a request is sent.

    Args:
        obj: The object that the request is about; None if the store has none, or for a list.
        newest: The highest resourceVersion that the store has been given.
        synced: The resourceVersion up to which the reflector of the namespace has brought everything.
        deleted: uids of objects that are known to be gone.
    """

    obj: T | None
    newest: int
    synced: int = 0
    deleted: frozenset[str] = frozenset()


#: The most states of objects of which it is remembered that they were read differently.
MAX_DIFFERENCES = 1000


@dataclass
class Doubts:
    """Reports contradictions of the cache to subscribers, which list everything again."""

    _handlers: list[Callable[[str], None]] = field(default_factory=list)
    #: uid and resourceVersion of what was read differently.
    _different: set[tuple[str, str]] = field(default_factory=set)

    def subscribe(self, handler: Callable[[str], None]) -> None:
        """Call a function with each contradiction."""
        self._handlers.append(handler)

    def report(self, what: str) -> None:
        """Report a contradiction."""
        for handler in self._handlers:
            handler(what)

    def report_difference(self, what: str, obj: KubernetesObject) -> None:
        """Report that an object differs from the cache at the same resourceVersion, once for this resourceVersion.

        A list shows whether etcd was set back. If the object differs again afterwards, two answers show one state in two ways,
        and lists without an end would keep all passes from beginning.
        """
        state = (obj.uid, obj.metadata.resource_version)
        if state in self._different:
            return
        if len(self._different) >= MAX_DIFFERENCES:
            self._different.clear()
        self._different.add(state)
        self.report(what)


def outdated(known: Known[T], answer: T, *, created: bool = False) -> str:
    """Return how an answer about an object is older than what was known before the request; empty if it is not."""
    version, seen = version_of(answer), version_of(known.obj)
    if created and known.obj is None:
        version, seen = version - 1, known.newest
    if version >= seen:
        return cannot_follow(known.obj, answer)
    return f'"{answer.name}" has resourceVersion {version_of(answer)}, but resourceVersion {seen} was seen before'


def cannot_follow(before: T | None, after: T) -> str:
    """Return why no write leads from one state of an object to another; empty if a write may, or if they are of two objects."""
    if before is None or before.uid != after.uid:
        return ""
    seen, generation = before.metadata.generation, after.metadata.generation
    if generation < seen:
        return f'"{after.name}" has generation {generation}, but generation {seen} was seen before'
    if before.terminating and not after.terminating:
        return f'"{after.name}" is not being deleted, but it was before'
    return ""


def contradicts_list(
    known: Known[T], stored: Callable[[T], T | None], items: Iterable[T], resource_version: int
) -> str:
    """Return how a list contradicts what was known before its first page was requested; empty if it does not."""
    if resource_version < known.newest:
        return f"the list is of resourceVersion {resource_version}, but resourceVersion {known.newest} was seen before"
    for item in items:
        current = stored(item)
        if item.uid in known.deleted:
            return f'the list has "{item.name}", which was deleted'
        if current is None or version_of(current) > resource_version:
            continue
        version, seen = version_of(item), version_of(current)
        if version < seen or (version == seen and item.uid != current.uid):
            return (
                f'the list has "{item.name}" at resourceVersion {version}, but resourceVersion {seen} was seen before'
            )
        if how := cannot_follow(current, item):
            return f"in the list, {how}"
    return ""
