"""States of objects that a store ignores, because the objects were deleted or went out of sight later; see `store`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from flamectl_operator.kube.views import KubernetesObject

T = TypeVar("T", bound=KubernetesObject)
K = TypeVar("K")

#: The most uids of deleted objects that are remembered after the reflector reported the deletion.
_MAX_ENDED = 1000


@dataclass(frozen=True, slots=True)
class _Horizon:
    """States up to `version` are ignored, of one object or of all objects with one value of the index."""

    namespace: str
    version: int


class OutdatedStates(Generic[T]):
    """The states that a store ignores, of objects by uid or by the value of the store's index."""

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
        """Ignore all states of a deleted object; `version` is its last known one."""
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
