"""A dictionary of bounded size, which forgets the least recently used entry."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class LRUCache(Generic[V]):
    """A dictionary that drops the least recently used entries.

    Args:
        capacity: The most entries, or the most that they may weigh together.
        weigh: Returns the weight of a key, such as its bytes; 1 by default. Needed where others decide how large keys are.
    """

    def __init__(self, capacity: int, weigh: Callable[[Any], int] = lambda _key: 1) -> None:
        self._capacity = capacity
        self._weigh = weigh
        self._weight = 0
        self._values: OrderedDict[Hashable, V] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._values)

    def find(self, key: Hashable) -> V | None:
        """Return the value of a key; None if it is unknown."""
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def put(self, key: Hashable, value: V) -> None:
        """Set the value of a key."""
        if key not in self._values:
            self._weight += self._weigh(key)
        self._values[key] = value
        self._values.move_to_end(key)
        while self._weight > self._capacity:
            oldest, _ = self._values.popitem(last=False)
            self._weight -= self._weigh(oldest)

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return the value of a key, which is made if it is unknown."""
        value = self.find(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value
