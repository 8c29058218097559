"""A share in something that several keys use: much for a key that works alone, little while others work beside it.

Without shares, each request of a key that writes seven objects would wait behind all those that a key with thousands of objects
has in flight.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

#: The share of a key while others work. A few requests in flight still make hundreds in a second.
BESIDE_OTHERS = 4
#: A key counts as active for so many seconds after its last step began, because it waits for others between its steps.
ACTIVE_SECONDS = 0.5


class Shares(Generic[K]):
    """The shares of all keys. All times are of the event loop."""

    def __init__(self) -> None:
        #: The key that worked last, the last one beside it, and when they did.
        self._last: tuple[K | None, float] = (None, -math.inf)
        self._other: tuple[K | None, float] = (None, -math.inf)

    def note_work(self, key: K) -> None:
        """Note that a key works now."""
        if key != self._last[0]:
            self._other = self._last
        self._last = (key, asyncio.get_running_loop().time())

    def share(self, key: K, most: int) -> int:
        """Return the share of a key."""
        _, seen = self._other if self._last[0] == key else self._last
        alone = asyncio.get_running_loop().time() - seen >= ACTIVE_SECONDS
        return most if alone else min(most, BESIDE_OTHERS)
