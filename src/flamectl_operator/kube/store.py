"""What the API server has, as far as we know, and never older than what we did ourselves.

A store is fed from two sides: by a reflector with lists and watch events, which come late but completely, and by the
passes with the answers to their own writes, which come at once. So a pass that created a Pod sees it when it looks again,
and cannot create it twice; one that deleted a Pod does not find it there to be deleted, or counted, once more.

The rules that keep the two in order, all of them about resourceVersions. These are numbers of one line that all writes,
lists, events and bookmarks of a cluster share (they may be compared: KEP-5504):

- Of two states of an object, the one with the higher resourceVersion is newer, whichever arrived first.
- The reflector's *synced version* is the resourceVersion up to which it delivered everything. An answer that is not newer than
  that, about an object which is not there, speaks of something that has been deleted since, or is not ours to watch.
- A list shows one moment. An object that is missing from it is gone, unless we know of a state of it after that moment.
- So does a list that a pass has asked for, of the objects of one value of the index. What was not in it and was not known is
  gone: states of it from before that moment are ignored, which the reflector may still bring.
- An object whose deletion left nothing behind is gone at once. Its uid is kept in a tombstone as long as the reflector may
  still bring states of it: until a list from after its end, or its DELETED event. A watch sends DELETED also each time that
  an object loses the label, and ADDED when it has the label again. So more events may come after a DELETED, and for them the
  uid is remembered for as long as there is room.
- An answer may show that an object is no longer selected, or that another object has its name. The object is then out of sight
  at once. States of it up to that answer are ignored, whether the reflector or another answer brings them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Generic, TypeVar

from flamectl_operator.kube.client import EventType
from flamectl_operator.kube.index import Index, Key
from flamectl_operator.kube.views import KubernetesObject

if TYPE_CHECKING:
    from flamectl_operator.kube.client import WatchEvent

T = TypeVar("T", bound=KubernetesObject)
K = TypeVar("K")

#: How many objects whose end the reflector told are remembered, by their uids.
_ENDED = 1000


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What a subscriber is told.

    Args:
        old: The object as it was; None for a new one.
        new: The object as it is; None for one that is gone.
        initial: Whether it was there when the operator started, so that nothing has happened to it just now.
    """

    old: T | None
    new: T | None
    initial: bool = False


Handler = Callable[[Change[T]], None]


@dataclass(frozen=True, slots=True)
class _Horizon:
    """States up to `version` count no more: of one object, or of all with a value of the index that a list was of."""

    namespace: str
    version: int


class Store(Generic[T]):
    """The objects of one resource.

    A store may be fed by one reflector for all namespaces, or by one for each of several namespaces, not by both kinds.

    Args:
        index: Gives the value under which `by_index` finds an object, or None for an object it shall not find.
        selects: Whether the reflector watches an object, as its label selector says; all of them if not given.
    """

    def __init__(
        self, index: Callable[[T], Hashable | None] | None = None, selects: Callable[[T], bool] | None = None
    ) -> None:
        self._selects = selects or _everything
        self._objects: dict[Key, T] = {}
        self._index_value = index or _no_value
        self._by_index: Index[T] = Index(self._index_value)
        self._tombstones: dict[str, _Horizon] = {}  # by uid
        self._ended: dict[str, None] = {}  # uids of which there was a tombstone, the oldest first
        self._out_of_sight: dict[str, _Horizon] = {}  # by uid
        self._listed: dict[Hashable, _Horizon] = {}  # by value of the index, what was not in a list of ours
        self._synced_versions: dict[str | None, int] = {}  # by the namespace of the reflector, None for all namespaces
        self._handlers: list[Handler[T]] = []  # of all subscribers
        self._answer_handlers: list[Handler[T]] = []  # of those who are told of answers too

    def __len__(self) -> int:
        """The number of objects."""
        return len(self._objects)

    def get(self, namespace: str, name: str) -> T | None:
        """The object of that name, if there is one."""
        return self._objects.get((namespace, name))

    def all(self) -> tuple[T, ...]:
        """All objects, by namespace and name."""
        return tuple(self._objects[key] for key in sorted(self._objects))

    def by_index(self, value: Hashable) -> tuple[T, ...]:
        """The objects for which the index function gives this value, by name."""
        return self._by_index.get(value)

    def synced_version(self, namespace: str | None = None) -> int:
        """The resourceVersion up to which the reflector of a namespace, or of all, delivered everything; 0 before its list."""
        return self._synced_versions.get(namespace, self._synced_versions.get(None, 0))

    def known(self, obj: T) -> T:
        """The store's object if it is in the same state as the given one, so that nobody keeps it twice; else the given one."""
        current = self._objects.get(_key(obj))
        if current is None or current.uid != obj.uid:
            return obj
        same = current.metadata.resource_version == obj.metadata.resource_version
        return current if same and (current.terminating or not obj.terminating) else obj

    def subscribe(self, handler: Handler[T], *, answers: bool = False) -> None:
        """Be told of each change that is news.

        Args:
            handler: Is called with the change.
            answers: Whether to be told also of what answers bring; otherwise only of what the reflector does. What an answer
                brought is no news any more when the reflector brings it too.
        """
        self._handlers.append(handler)
        if answers:
            self._answer_handlers.append(handler)

    def observe(self, obj: T) -> None:
        """Take in the answer to a create, patch, update or get.

        An object that is not selected is taken out, as the watch is going to do: nobody would say when it changes.
        """
        if self._is_past(obj):
            return
        current = self._objects.get(_key(obj))
        if current is not None and current.uid == obj.uid:
            if not _supersedes(obj, current):
                return
        elif version_of(obj) <= max(self.synced_version(obj.namespace), version_of(current)):
            return
        elif current is not None:
            self._out_of_sight[current.uid] = _Horizon(current.namespace, version_of(obj))
        if self._selects(obj):
            self._set(obj)
            _notify(self._answer_handlers, _changes(current, obj))
            return
        if current is not None:
            self._remove(current)
            _notify(self._answer_handlers, [Change(current, None)])
        self._out_of_sight[obj.uid] = _Horizon(obj.namespace, version_of(obj))

    def observe_list(
        self, items: Iterable[T], resource_version: str, namespace: str, value: Hashable, unreadable: Collection[T] = ()
    ) -> None:
        """Take in the answer to a list of all objects of a namespace for which the index function gives a value.

        What is known and was not in the list stays: it may be gone, or have another value by now.

        Args:
            items: The objects of all pages.
            resource_version: The list's.
            namespace: The namespace.
            value: The value.
            unreadable: Objects that are there but cannot be understood. Where there are such, all states are believed that the
                reflector may still bring, for among them are the last ones of these that could be.
        """
        for item in items:
            self.observe(item)
        moment = int(resource_version)
        if moment > self.synced_version(namespace) and not unreadable:
            self._listed[value] = _Horizon(namespace, moment)

    def observe_deletion(self, obj: T, response: T | None) -> None:
        """Take in that the API server accepted the deletion of an object.

        Args:
            obj: The object that was deleted, exactly the one with this uid.
            response: The object in the answer, None if the answer held none. With a deletionTimestamp it is on its way
                out and stays visible so; otherwise it is gone already.
        """
        if response is not None and response.terminating:
            self.observe(response)
            return
        current = self._objects.get(_key(obj))
        version = version_of(obj)
        if current is not None and current.uid == obj.uid:
            self._remove(current)
            _notify(self._answer_handlers, [Change(current, None)])
            version = max(version, version_of(current))
        elif version <= self.synced_version(obj.namespace):
            return  # the reflector is past it and said all there is to say
        self._tombstones[obj.uid] = _Horizon(obj.namespace, version)

    def apply(self, event: WatchEvent[T], namespace: str | None = None) -> None:
        """Take in an event of the watch over a namespace, or over all."""
        version = version_of(event.object)
        passed = self._synced_versions.get(namespace, 0)
        self._synced_versions[namespace] = max(passed, version)
        if event.type in {EventType.BOOKMARK, EventType.UNREADABLE}:
            self._forget_out_of_sight(namespace)
            return  # of what cannot be understood, the last state that could be stays
        if event.type is EventType.DELETED:
            changes = self._take_deletion(event.object, news=version > passed)
        else:
            changes = self._take_state(event.object, news=version > passed, initial=False)
        self._forget_out_of_sight(namespace)
        _notify(self._handlers, changes)

    def replace(
        self, items: Iterable[T], resource_version: str, namespace: str | None = None, unreadable: Iterable[T] = ()
    ) -> None:
        """Take in a whole list of a namespace, or of all, and find out what was missed.

        Args:
            items: The objects of all pages.
            resource_version: The list's. One from before the reflector's synced version has no news and is ignored.
            namespace: The namespace that was listed, None for all.
            unreadable: Objects that are there but cannot be understood: the last states that could be stay.
        """
        moment = int(resource_version)
        initial = namespace not in self._synced_versions
        if moment < self._synced_versions.get(namespace, 0):
            return
        self._synced_versions[namespace] = moment
        changes: list[Change[T]] = []
        listed = {obj.uid for obj in unreadable}
        for item in items:
            listed.add(item.uid)
            changes += self._take_state(item, news=True, initial=initial)
        changes += self._drop_missing(listed, moment, namespace)
        self._forget_out_of_sight(namespace)
        _notify(self._handlers, changes)

    def clear(self, namespace: str | None = None) -> None:
        """Take in that the API server does not know the resource, so that a namespace, or all of them, has no object of it."""
        gone = [obj for obj in self._objects.values() if namespace in {None, obj.namespace}]
        for obj in gone:
            self._remove(obj)
        _forget(self._tombstones, namespace)
        _forget(self._out_of_sight, namespace)
        _forget(self._listed, namespace)
        self._ended.clear()
        _notify(self._handlers, [Change(obj, None) for obj in gone])

    def _take_state(self, obj: T, *, news: bool, initial: bool) -> list[Change[T]]:
        """Take in a state that the reflector brought; `news` when it is from after what it brought before."""
        if self._is_past(obj):
            return []
        current = self._objects.get(_key(obj))
        if not (news if current is None else _supersedes(obj, current)):
            return []
        self._set(obj)
        return _changes(current, obj, initial=initial)

    def _take_deletion(self, obj: T, *, news: bool) -> list[Change[T]]:
        tombstone = self._tombstones.get(obj.uid)
        if tombstone is not None:
            # An event older than the tombstone says that the object lost its label for a while: its end is yet to come.
            if version_of(obj) >= tombstone.version:
                self._end(obj.uid)
            return []
        if obj.uid in self._ended:
            return []
        current = self._objects.get(_key(obj))
        if current is not None and current.uid == obj.uid:
            if version_of(obj) < version_of(current):
                return []
            self._remove(current)
            return [Change(current, None)]
        # Nobody was told yet of the end of an object that our own answers replaced by one of the same name.
        return [Change(obj, None)] if news else []

    def _is_past(self, obj: T) -> bool:
        """Whether a state is from before its object was gone or out of sight, as far as we know."""
        if obj.uid in self._tombstones or obj.uid in self._ended:
            return True
        current = self._objects.get(_key(obj))
        known = current is not None and current.uid == obj.uid
        ends = (self._out_of_sight.get(obj.uid), None if known else self._listed.get(self._index_value(obj)))
        return any(end is not None and version_of(obj) <= end.version for end in ends)

    def _end(self, uid: str) -> None:
        """The reflector has told the end of an object, unless that was only one of its absences."""
        del self._tombstones[uid]
        self._ended[uid] = None
        if len(self._ended) > _ENDED:
            del self._ended[next(iter(self._ended))]

    def _forget_out_of_sight(self, namespace: str | None) -> None:
        """Forget what was out of sight at a moment that the reflector has passed: what it brings from now on is newer."""
        passed = self._synced_versions[namespace]
        _forget(self._out_of_sight, namespace, passed)
        _forget(self._listed, namespace, passed)

    def _drop_missing(self, listed: set[str], moment: int, namespace: str | None) -> list[Change[T]]:
        """Remove what a list shows to be gone, and the tombstones of which it is the end."""
        missing = [
            obj
            for obj in self._objects.values()
            if namespace in {None, obj.namespace} and obj.uid not in listed and version_of(obj) <= moment
        ]
        for obj in missing:
            self._remove(obj)
        for uid, tombstone in list(self._tombstones.items()):
            if namespace in {None, tombstone.namespace} and uid not in listed and tombstone.version <= moment:
                del self._tombstones[uid]
        return [Change(obj, None) for obj in missing]

    def _set(self, obj: T) -> None:
        key = _key(obj)
        old = self._objects.get(key)
        self._objects[key] = obj
        self._by_index.update(key, old, obj)

    def _remove(self, obj: T) -> None:
        key = _key(obj)
        del self._objects[key]
        self._by_index.update(key, obj, None)


def _forget(records: dict[K, _Horizon], namespace: str | None, passed: float = inf) -> None:
    """Forget what speaks of states up to a version, in one namespace or in all."""
    for key, each in list(records.items()):
        if namespace in {None, each.namespace} and each.version <= passed:
            del records[key]


def version_of(obj: KubernetesObject | None) -> int:
    """The resourceVersion as a number; 0 for no object and for one that was never stored."""
    return int(obj.metadata.resource_version or 0) if obj is not None else 0


def _changes(old: T | None, new: T, *, initial: bool = False) -> list[Change[T]]:
    """What becomes of a name when an object takes it, or takes it on."""
    if old is None or old.uid == new.uid:
        return [Change(old, new, initial)]
    return [Change(old, None), Change(None, new, initial)]


def _notify(handlers: Iterable[Handler[T]], changes: Iterable[Change[T]]) -> None:
    for change in changes:
        for handler in handlers:
            handler(change)


def _supersedes(new: KubernetesObject, current: KubernetesObject) -> bool:
    """Whether a state is newer than the one we have. Of two with the same number, the one that is terminating."""
    number, known = version_of(new), version_of(current)
    same_object = new.uid == current.uid
    return number > known or (number == known and same_object and new.terminating and not current.terminating)


def _key(obj: KubernetesObject) -> Key:
    return (obj.namespace, obj.name)


def _everything(_obj: KubernetesObject) -> bool:
    return True


def _no_value(_obj: KubernetesObject) -> None:
    return None
