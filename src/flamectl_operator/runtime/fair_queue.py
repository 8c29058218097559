"""Waiting keys in groups that take turns, so that a group with many keys does not delay the others."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class FairQueue(Generic[K]):
    """Hands out keys: the oldest key of each group in turn."""

    def __init__(self, group: Callable[[K], Hashable]) -> None:
        self._group = group
        self._groups: OrderedDict[Hashable, OrderedDict[K, None]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        """Return the number of keys."""
        return self._length

    def __contains__(self, key: K) -> bool:
        """Return whether a key waits."""
        return key in self._groups.get(self._group(key), ())

    def add(self, key: K) -> None:
        """Add a key, without effect if it waits already."""
        keys = self._groups.setdefault(self._group(key), OrderedDict())
        self._length += key not in keys
        keys[key] = None

    def discard(self, key: K) -> None:
        """Remove a key, without effect if it does not wait."""
        group = self._group(key)
        keys = self._groups.get(group)
        if keys is None or key not in keys:
            return
        del keys[key]
        self._length -= 1
        if not keys:
            del self._groups[group]

    def first(self, admits: Callable[[Hashable], bool] = lambda _group: True) -> K | None:
        """Return the next key of an admitted group; None without one."""
        return next((next(iter(keys)) for group, keys in self._groups.items() if admits(group)), None)

    def take(self, admits: Callable[[Hashable], bool] = lambda _group: True) -> K:
        """Remove and return the next key of an admitted group; the other groups keep their place. Raise KeyError without one."""
        key = self.first(admits)
        if key is None:
            raise KeyError("no key of an admitted group waits")
        self.discard(key)
        group = self._group(key)
        if group in self._groups:
            self._groups.move_to_end(group)
        return key

    def drop_newest(self) -> K:
        """Remove and return the newest key of the group with most keys; raise ValueError when no key waits."""
        group = max(self._groups, key=lambda each: len(self._groups[each]))
        key = next(reversed(self._groups[group]))
        self.discard(key)
        return key

    def clear(self) -> None:
        """Remove all keys."""
        self._groups.clear()
        self._length = 0
