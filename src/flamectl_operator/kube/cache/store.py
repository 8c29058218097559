"""The cache of one resource, which is never older than this process's own writes.

A reflector feeds a store with lists and watch events, which are complete but late. Passes feed it with the responses to their own
writes, which are immediate. So a pass that created a Pod sees the Pod when it looks again, and does not create it twice. A pass
that deleted a Pod neither deletes nor counts it again.

The rules below order the two sources by resourceVersion. All writes, lists, events and bookmarks of a cluster share one sequence
of resourceVersions, which may be compared as numbers (KEP-5504):

- Of two states of an object, the one with the higher resourceVersion is newer, in any order of arrival.
- The reflector's *synced version* is the resourceVersion up to which it has delivered everything. A response about a missing
  object that is not newer than the synced version is outdated: the object was deleted since, or is not selected.
- A list shows one moment. An object that is missing from the list is gone, unless the store knows a later state of it.
- The same holds for a list that a pass requested, of all objects with one value of the index. An object that was neither in the
  list nor known is gone, so earlier states of it that the reflector may still bring are ignored.
- An object that was deleted without leaving a terminating state is gone at once. A tombstone keeps its uid while the reflector
  may still bring states of it: until a list from after the deletion, or the DELETED event. A watch also sends DELETED when an
  object loses the label, and ADDED when it has the label again. So more events may follow a DELETED, and the store remembers the
  uid for as long as there is room.
- A response may show that an object is no longer selected, or that another object has its name. Then the object is out of sight
  at once. The store ignores states of it up to that response, from events and from other responses. A whole list that is newer
  than the response counts.
- Of two states of an object with the same resourceVersion, the one that arrived last counts. They differ where another CRD was
  installed, or where etcd was set back.

After etcd was set back to a copy, no rule can order states from before and after. `contradictions.py` recognizes this, and the
process ends, because only a process that knows nothing may take in lower resourceVersions.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Generic, TypeVar

from flamectl_operator.kube.cache.changes import Change, ChangeCount, Handler, as_changes, notify
from flamectl_operator.kube.cache.contradictions import (
    Known,
    OutdatedStates,
    cannot_follow,
    contradicts_list,
    version_of,
)
from flamectl_operator.kube.cache.index import Index, Key
from flamectl_operator.kube.client import EventType, WatchEvent
from flamectl_operator.kube.views import KubernetesObject

T = TypeVar("T", bound=KubernetesObject)


class Store(Generic[T]):
    """The objects of one resource, fed by one reflector for all namespaces, or by one for each of several namespaces.

    Args:
        index: Returns the value under which `by_index` finds an object, or None.
        uses: Returns the value under which `users` finds an object, or None; None where nobody looks for users.
        selects: Returns whether the reflector's label selector matches an object.
        transform: Returns the part of an object to keep, with the same identity and index value, as an informer's transform.
    """

    def __init__(
        self,
        index: Callable[[T], Hashable | None] = lambda _obj: None,
        selects: Callable[[T], bool] = lambda _obj: True,
        transform: Callable[[T], T] = lambda obj: obj,
        changes: ChangeCount | None = None,
        uses: Callable[[T], Hashable | None] | None = None,
    ) -> None:
        self._selects = selects
        self._transform = transform
        self._objects: dict[Key, T] = {}
        self._change_count = changes or ChangeCount()
        self._by_index: Index[T] = Index(index)
        self._by_use: Index[T] | None = None if uses is None else Index(uses)
        self._past: OutdatedStates[T] = OutdatedStates(index)
        self._synced_versions: dict[str | None, int] = {}  # by the namespace of the reflector, None for all namespaces
        self._newest = 0  # of all versions, also of responses
        self._handlers: list[Handler[T]] = []  # of all subscribers
        self._response_handlers: list[Handler[T]] = []  # of subscribers that also receive responses

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._objects)

    def get(self, namespace: str, name: str) -> T | None:
        """Return the object of that name, if there is one."""
        return self._objects.get((namespace, name))

    def all(self) -> tuple[T, ...]:
        """Return all objects, sorted by namespace and name."""
        return tuple(self._objects[key] for key in sorted(self._objects))

    def by_index(self, value: Hashable) -> tuple[T, ...]:
        """Return the objects with this value of the index, sorted by name."""
        return self._by_index.get(value)

    def users(self, value: Hashable) -> tuple[T, ...]:
        """Return the objects that use this value, sorted by name."""
        return () if self._by_use is None else self._by_use.get(value)

    def synced_version(self, namespace: str | None = None) -> int:
        """Return the synced version of a namespace's reflector; 0 before its first list."""
        return self._synced_versions.get(namespace, self._synced_versions.get(None, 0))

    def kept(self, obj: T) -> T:
        """Return the store's object if it equals the given one, to hold it once, else the part that it would keep."""
        current, kept = self._objects.get(_key(obj)), self._transform(obj)
        return current if current is not None and current == kept else kept

    def before_request(self, namespace: str = "", name: str = "") -> Known[T]:
        """Return what is known before a request is sent: a list, or a request for an object."""
        deleted = self._past.deleted() if not name else frozenset()
        return Known(self._objects.get((namespace, name)), self._newest, self.synced_version(namespace), deleted)

    def differs_at_its_version(self, before: T, answer: T) -> bool:
        """Return whether an answer differs from the object that was stored before, at the same resourceVersion."""
        same = version_of(before) == version_of(answer) and before.terminating == answer.terminating
        return same and self._transform(answer) != before

    def overlooked(self, known: Known[T], items: Iterable[T], present: Collection[str] = ()) -> str:
        """Return which object the reflector should have brought before a request was sent; empty if there is none.

        Args:
            present: The uids that the store had before the request, if it was a list.
        """
        for item in items:
            unknown = item.uid not in present and (known.obj is None or known.obj.uid != item.uid)
            if unknown and version_of(item) <= known.synced and self._selects(item):
                version = version_of(item)
                return f'"{item.name}" has resourceVersion {version}, but the watch was at {known.synced} without it'
        return ""

    def contradicts_event(self, event: WatchEvent[T]) -> str:
        """Return why the change of an event cannot follow what is known; empty if it can.

        A deletion shows the object as it was before, so it says nothing.
        """
        current = self._objects.get(_key(event.object))
        later = event.type in {EventType.ADDED, EventType.MODIFIED} and version_of(event.object) > version_of(current)
        return cannot_follow(current, event.object) if later else ""

    def contradicts_list(self, known: Known[T], items: Iterable[T], resource_version: str) -> str:
        """Return how a list contradicts what was known before it was requested; empty if it does not."""
        return contradicts_list(known, lambda item: self._objects.get(_key(item)), items, int(resource_version))

    def subscribe(self, handler: Handler[T], *, responses: bool = False) -> None:
        """Subscribe to changes.

        Args:
            responses: Whether to receive also the changes that responses bring; otherwise only those that the reflector brings. A
                change that a response brought is not repeated when the reflector brings it.
        """
        self._handlers.append(handler)
        if responses:
            self._response_handlers.append(handler)

    def absorb(self, obj: T) -> None:
        """Store the response to a create, patch, update or get; remove an object that is not selected, as the watch will do."""
        self._newest = max(self._newest, version_of(obj))
        if self._is_past(obj):
            return
        current = self._objects.get(_key(obj))
        if current is not None and current.uid == obj.uid:
            if not self._supersedes(obj, current):
                return
        elif version_of(obj) <= max(self.synced_version(obj.namespace), version_of(current)):
            return
        elif current is not None:
            self._past.add_disappearance(current, version_of(obj))
        if self._selects(obj):
            notify(self._response_handlers, as_changes(current, self._set(obj)))
            return
        if current is not None:
            self._remove(current)
            notify(self._response_handlers, [Change(current, None)])
        self._past.add_disappearance(obj, version_of(obj))

    def absorb_list(self, items: Iterable[T], resource_version: str, namespace: str, value: Hashable) -> None:
        """Store all pages of a list of a namespace's objects with one value of the index.

        A known object that was not in the list stays, because it may be gone or may have another value by now.
        """
        for item in items:
            self.absorb(item)
        moment = int(resource_version)
        self._newest = max(self._newest, moment)
        if moment > self.synced_version(namespace):
            self._past.add_list(value, namespace, moment)

    def absorb_deletion(self, obj: T, response: T | None) -> None:
        """Record an accepted deletion: the object stays visible if the response shows it terminating; otherwise it is gone."""
        if response is not None and response.terminating:
            self.absorb(response)
            return
        current = self._objects.get(_key(obj))
        version = version_of(obj)
        if current is not None and current.uid == obj.uid:
            self._remove(current)
            notify(self._response_handlers, [Change(current, None)])
            version = max(version, version_of(current))
        elif version <= self.synced_version(obj.namespace):
            return  # the reflector has already reported the deletion
        self._past.add_deletion(obj, version)

    def apply(self, event: WatchEvent[T], namespace: str | None = None) -> None:
        """Store an event of the watch of a namespace, or of all namespaces."""
        version = version_of(event.object)
        passed = self._synced_versions.get(namespace, 0)
        self._synced_versions[namespace] = max(passed, version)
        self._newest = max(self._newest, version)
        if event.type is EventType.BOOKMARK:
            self._past.forget_disappearances(namespace, self._synced_versions[namespace])
            return
        if event.type is EventType.DELETED:
            changes = self._take_deletion(event.object, news=version > passed)
        else:
            changes = self._take_state(event.object, news=version > passed, initial=False)
        self._past.forget_disappearances(namespace, self._synced_versions[namespace])
        notify(self._handlers, changes)

    def replace(self, items: Iterable[T], resource_version: str, namespace: str | None = None) -> None:
        """Store a whole list of a namespace, or of all, and report the changes; ignore one older than the synced version."""
        moment = int(resource_version)
        initial = namespace not in self._synced_versions
        if moment < self._synced_versions.get(namespace, 0):
            return
        self._synced_versions[namespace] = moment
        self._newest = max(self._newest, moment)
        # The list is newer than what these records know, whatever the resourceVersions of its objects are.
        self._past.forget_disappearances(namespace, moment)
        changes: list[Change[T]] = []
        listed: set[str] = set()
        for item in items:
            listed.add(item.uid)
            changes += self._take_state(item, news=True, initial=initial)
        changes += self._drop_missing(listed, moment, namespace)
        notify(self._handlers, changes)

    def clear(self, namespace: str | None = None) -> None:
        """Remove all objects of a namespace, or of all namespaces, because the API server does not know the resource."""
        gone = [obj for obj in self._objects.values() if namespace in {None, obj.namespace}]
        for obj in gone:
            self._remove(obj)
        self._past.clear(namespace)
        notify(self._handlers, [Change(obj, None) for obj in gone])

    def _take_state(self, obj: T, *, news: bool, initial: bool) -> list[Change[T]]:
        """Store a state from the reflector. `news` tells whether it is newer than everything before."""
        if self._is_past(obj):
            return []
        current = self._objects.get(_key(obj))
        if not (news if current is None else self._supersedes(obj, current)):
            return []
        return as_changes(current, self._set(obj), initial=initial)

    def _take_deletion(self, obj: T, *, news: bool) -> list[Change[T]]:
        if self._past.end(obj):
            return []
        current = self._objects.get(_key(obj))
        if current is not None and current.uid == obj.uid:
            if version_of(obj) < version_of(current):
                return []
            self._remove(current)
            return [Change(current, None)]
        # No subscriber knows yet of the deletion of an object that a response replaced by one of the same name.
        return [Change(obj, None)] if news else []

    def _is_past(self, obj: T) -> bool:
        """Return whether a state is older than the known deletion or disappearance of its object."""
        current = self._objects.get(_key(obj))
        return self._past.has(obj, stored=current is not None and current.uid == obj.uid)

    def _drop_missing(self, listed: set[str], moment: int, namespace: str | None) -> list[Change[T]]:
        """Remove the objects that a list shows to be gone, and the tombstones that it makes obsolete."""
        missing = [
            obj
            for obj in self._objects.values()
            if namespace in {None, obj.namespace} and obj.uid not in listed and version_of(obj) <= moment
        ]
        for obj in missing:
            self._remove(obj)
        self._past.forget_deletions(listed, moment, namespace)
        return [Change(obj, None) for obj in missing]

    def _supersedes(self, new: T, current: T) -> bool:
        """Return whether a state is newer than the current one.

        With equal numbers the last one counts, except that an object stays terminating after the response to its deletion.
        """
        number, known = version_of(new), version_of(current)
        if number != known or new.uid != current.uid:
            return number > known
        return (new.terminating or not current.terminating) and self._transform(new) != current

    def _set(self, obj: T) -> T:
        """Store an object, and return the part of it that is kept."""
        key, obj = _key(obj), self._transform(obj)
        old = self._objects.get(key)
        self._objects[key] = obj
        self._change_count.total += 1
        self._by_index.update(key, old, obj)
        if self._by_use is not None:
            self._by_use.update(key, old, obj)
        return obj

    def _remove(self, obj: T) -> None:
        key = _key(obj)
        del self._objects[key]
        self._change_count.total += 1
        self._by_index.update(key, obj, None)
        if self._by_use is not None:
            self._by_use.update(key, obj, None)


def _key(obj: KubernetesObject) -> Key:
    metadata = obj.metadata
    return (metadata.namespace, metadata.name)
