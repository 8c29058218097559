"""An index of objects by a computed value, which keeps each result until one of its objects changes."""

from collections.abc import Callable, Hashable
from operator import itemgetter
from typing import Generic, TypeVar

T = TypeVar("T")

#: Namespace and name.
Key = tuple[str, str]


class Index(Generic[T]):
    """Finds objects by a computed value; an object whose value is None cannot be found."""

    def __init__(self, value_of: Callable[[T], Hashable | None]) -> None:
        self._value_of = value_of
        self._buckets: dict[Hashable, dict[Key, T]] = {}
        #: Values whose objects are not in the order of their keys, because some were added.
        self._unsorted: set[Hashable] = set()
        self._objects: dict[Hashable, tuple[T, ...]] = {}

    def get(self, value: Hashable) -> tuple[T, ...]:
        """Return the objects with this value, in the order of their keys."""
        found = self._objects.get(value)
        if found is None:
            bucket = self._buckets.get(value)
            if bucket is None:
                return ()
            if value in self._unsorted:
                self._unsorted.discard(value)
                bucket = self._buckets[value] = dict(sorted(bucket.items(), key=itemgetter(0)))
            found = self._objects[value] = tuple(bucket.values())
        return found

    def update(self, key: Key, old: T | None, new: T | None) -> None:
        """Replace `old` by `new`; None stands for no object."""
        before = self._value_of(old) if old is not None else None
        after = self._value_of(new) if new is not None else None
        if before is not None:
            self._objects.pop(before, None)
            if before != after:
                self._remove(before, key)
        if after is not None and new is not None:
            self._objects.pop(after, None)
            bucket = self._buckets.setdefault(after, {})
            if key not in bucket:
                self._unsorted.add(after)
            bucket[key] = new

    def _remove(self, value: Hashable, key: Key) -> None:
        bucket = self._buckets[value]
        del bucket[key]
        if not bucket:
            del self._buckets[value]
            self._unsorted.discard(value)
