"""A limit on concurrency that can be changed while callers wait, and the share of a key in it."""

import asyncio
import math
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

#: A group may have so many times what stays free for others. So a group alone gets three quarters of all.
OF_FREE = 3


def leaves_room(held: int, free: int) -> bool:
    """Return whether a group may have one more slot besides those it holds, because enough stay free for groups to come."""
    return held + 1 <= OF_FREE * free


class Slots:
    """A semaphore with a limit that can be changed.

    Groups of callers take turns, so that a group with many callers does not delay the others. Callers of a group wait in the
    order in which they came.

    Args:
        limit: The most slots that all holders have together, at least 1.
        of_group: The most slots that the holders of a group have together; None for all slots.
        leave_room: Whether groups leave some slots to others that come later. Then callers take one slot each.
    """

    def __init__(self, limit: int, of_group: int | None = None, *, leave_room: bool = False) -> None:
        self._limit = limit
        self._leave_room = leave_room
        self._of_group = of_group
        #: Slots that the holders of each group have.
        self._held: Counter[Hashable] = Counter()
        #: The callers that wait, by group; the group whose turn is next comes first.
        self._lines: OrderedDict[Hashable, deque[_Caller]] = OrderedDict()
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
        """Wait until there are so many slots, and take them; they must not be more than the limits."""
        if self.taken + count <= self._limit and self._may_have(group, count) and self._next() is None:
            self._hold(group, count)
            return
        caller = _Caller(asyncio.get_running_loop().create_future(), count)
        self._lines.setdefault(group, deque()).append(caller)
        try:
            await caller.admitted
        except asyncio.CancelledError:
            if caller.admitted.done() and not caller.admitted.cancelled():
                self.give_back(count, group)  # admitted and cancelled in the same iteration of the loop
            else:
                self._leave(group, caller)
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

    def _may_have(self, group: Hashable, count: int) -> bool:
        if self._leave_room and not leaves_room(self._held[group], self._limit - self.taken):
            return False
        return self._of_group is None or self._held[group] + count <= self._of_group

    def _admit(self) -> None:
        while (found := self._next()) is not None:
            group, caller = found
            if self.taken + caller.count > self._limit:
                return
            self._leave(group, caller)
            if group in self._lines:
                self._lines.move_to_end(group)
            self._hold(group, caller.count)
            caller.admitted.set_result(None)

    def _next(self) -> "tuple[Hashable, _Caller] | None":
        """Return the caller whose turn it is. A caller that was just cancelled leaves its line when it runs."""
        for group, line in self._lines.items():
            first = next((each for each in line if not each.admitted.done()), None)
            if first is not None and self._may_have(group, first.count):
                return group, first
        return None

    def _leave(self, group: Hashable, caller: "_Caller") -> None:
        line = self._lines[group]
        line.remove(caller)
        if not line:
            del self._lines[group]


@dataclass(frozen=True, eq=False)
class _Caller:
    admitted: asyncio.Future[None]
    count: int


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
