"""A limit on concurrency that can be changed while callers wait, and the share of a key in it."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, TypeVar

from flamectl_operator.runtime.fair_queue import FairQueue

#: A group may have so many times what stays free for others. So a group alone gets three quarters of all.
OF_FREE = 3


def leaves_room(held: int, free: int) -> bool:
    """Return whether a group may have one more slot besides those it holds, because enough stay free for groups to come."""
    return held + 1 <= OF_FREE * free


class Slots:
    """A semaphore with a limit of at least 1 that can be changed.

    Groups of callers take turns. They leave some slots to others that come later if they `leave_room`; then callers take one
    slot each.
    """

    def __init__(self, limit: int, *, leave_room: bool = False) -> None:
        self._limit = limit
        self._leave_room = leave_room
        #: Slots that the holders of each group have.
        self._held: Counter[Hashable] = Counter()
        self._waiting: FairQueue[_Caller] = FairQueue(attrgetter("group"))
        #: Slots that holders have.
        self.taken = 0

    def resize(self, limit: int) -> None:
        """Change the limit; callers that hold a slot keep it."""
        self._limit = limit
        self._admit()

    @asynccontextmanager
    async def slot(self, group: Hashable = None) -> AsyncIterator[None]:
        """Wait for a slot and keep it while the context is entered."""
        await self.take(group=group)
        try:
            yield
        finally:
            self.give_back(group=group)

    async def take(self, count: int = 1, group: Hashable = None) -> None:
        """Wait until there are so many slots, and take them; they must not be more than the limit."""
        if self.taken + count <= self._limit and self._admits(group) and self._next() is None:
            self._hold(group, count)
            return
        caller = _Caller(asyncio.get_running_loop().create_future(), count, group)
        self._waiting.add(caller)
        try:
            await caller.admitted
        except asyncio.CancelledError:
            if caller.admitted.done() and not caller.admitted.cancelled():
                self.give_back(count, group)  # admitted and cancelled in the same iteration of the loop
            else:
                self._waiting.discard(caller)
                self._admit()  # slots may have been free for the next caller
            raise

    def give_back(self, count: int = 1, group: Hashable = None) -> None:
        """Let others have slots."""
        self._hold(group, -count)
        self._admit()

    def _hold(self, group: Hashable, count: int) -> None:
        self.taken += count
        self._held[group] += count
        if not self._held[group]:
            del self._held[group]

    def _admits(self, group: Hashable) -> bool:
        return not self._leave_room or leaves_room(self._held[group], self._limit - self.taken)

    def _admit(self) -> None:
        while (caller := self._next()) is not None and self.taken + caller.count <= self._limit:
            self._waiting.take(self._admits)
            self._hold(caller.group, caller.count)
            caller.admitted.set_result(None)

    def _next(self) -> "_Caller | None":
        """Return the caller whose turn it is, which was not just cancelled."""
        while (caller := self._waiting.first(self._admits)) is not None and caller.admitted.done():
            self._waiting.discard(caller)
        return caller


@dataclass(frozen=True, eq=False)
class _Caller:
    admitted: asyncio.Future[None]
    count: int
    group: Hashable


K = TypeVar("K", bound=Hashable)

#: The share of a key while others work. A few requests in flight still make hundreds in a second.
BESIDE_OTHERS = 4
#: A key counts as active for so many seconds after its last step began, because it waits for others between its steps.
ACTIVE_SECONDS = 0.5


class Shares(Generic[K]):
    """The shares of keys that use one limit: much for a key that works alone, little while others work beside it.

    Without shares, each request of a key that writes seven objects would wait behind all those that a key with thousands of
    objects has in flight. All times are of the event loop.
    """

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
        """Return the share of a key, which is `most` when the key works alone."""
        _, seen = self._other if self._last[0] == key else self._last
        alone = asyncio.get_running_loop().time() - seen >= ACTIVE_SECONDS
        return most if alone else min(most, BESIDE_OTHERS)
