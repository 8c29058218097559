"""The queue between "something changed" and "look at it again", with the semantics of client-go's workqueue.

It holds keys, not events: however many events there are for a key while it waits, it is handed out once. A key is held by
one worker at a time; what is added for it meanwhile makes it come back when that worker is `done`. To these rules it adds
delayed adds, a backoff for keys that fail, and two priorities: a change that happened just now overtakes the initial list
and the resync, which are not urgent and come in thousands.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Generic, TypeVar

from flamectl_operator.runtime.observer import UNOBSERVED

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from flamectl_operator.runtime.backoff import ExponentialBackoff
    from flamectl_operator.runtime.observer import Observer

K = TypeVar("K", bound="Hashable")

#: Every so many picks the oldest key of low priority has its turn, so that a storm of changes cannot starve it for ever.
LOW_PRIORITY_TURN = 8


class Priority(IntEnum):
    """How urgent a key is; a key that is added twice keeps the more urgent one."""

    LOW = 0
    NORMAL = 1


class QueueShutDown(Exception):  # noqa: N818 - a signal that ends a worker's loop, as asyncio.QueueShutDown
    """The queue hands out no more keys."""


@dataclass(frozen=True, slots=True)
class _Timer:
    """A delayed add that has not come due."""

    handle: asyncio.TimerHandle
    priority: Priority


class WorkQueue(Generic[K]):
    """A queue of keys for any number of workers in one event loop.

    Args:
        backoff: The delays of `add_rate_limited`.
        observer: Hears of keys that come and go.
    """

    def __init__(self, backoff: ExponentialBackoff, observer: Observer = UNOBSERVED) -> None:
        self._backoff = backoff
        self._observer = observer
        self._ready: dict[Priority, OrderedDict[K, None]] = {priority: OrderedDict() for priority in Priority}
        self._processing: dict[K, float] = {}  # since when
        self._dirty: dict[K, Priority] = {}  # added again while a worker holds them
        self._added: dict[K, float] = {}  # when those that wait, dirty ones included, were first added
        self._timers: dict[K, _Timer] = {}
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._picks = 0
        self._shutting_down = False
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        """The number of keys that wait for a worker now: neither delayed ones nor those in a worker's hands."""
        return sum(len(keys) for keys in self._ready.values())

    def depth(self, priority: Priority) -> int:
        """The number of keys of a priority that need work, those included that are in a worker's hands and were added again."""
        return len(self._ready[priority]) + sum(each is priority for each in self._dirty.values())

    @property
    def processing(self) -> Mapping[K, float]:
        """The keys in workers' hands, and since when, by the event loop's clock."""
        return self._processing

    def add(self, key: K, priority: Priority = Priority.NORMAL) -> None:
        """Mark a key as in need of work; without effect after `shut_down`."""
        if self._shutting_down:
            return
        if key not in self._added:
            self._added[key] = _now()
            self._observer.key_added()
        if key in self._processing:
            self._dirty[key] = max(priority, self._dirty.get(key, priority))
        else:
            self._make_ready(key, priority)

    def add_after(self, key: K, delay: float, priority: Priority = Priority.NORMAL) -> None:
        """Add a key once `delay` seconds have passed; of several such adds the earliest counts."""
        if self._shutting_down:
            return
        self._observer.key_retried()
        if delay <= 0:
            self.add(key, priority)
            return
        due = _now() + delay
        waiting = self._timers.get(key)
        if waiting is not None:
            priority = max(priority, waiting.priority)
            due = min(due, waiting.handle.when())
            waiting.handle.cancel()
        handle = asyncio.get_running_loop().call_at(due, self._come_due, key)
        self._timers[key] = _Timer(handle, priority)

    def add_rate_limited(self, key: K) -> None:
        """Count a failure of the key and add it after the backoff for that many."""
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        self.add_after(key, self._backoff.delay(failures))

    def forget(self, key: K) -> None:
        """End the key's series of failures. It neither takes the key out of the queue nor cancels a delayed add."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Wait for a key and take it; the caller must call `done` with it, whatever happens.

        Raises:
            QueueShutDown: After `shut_down`, at once and for everyone who waits.
        """
        while True:
            if self._shutting_down:
                raise QueueShutDown
            if len(self):
                key = self._pick()
                self._processing[key] = now = _now()
                self._observer.key_taken(now - self._added.pop(key))
                self._idle.clear()
                return key
            await self._wait_for_key()

    def done(self, key: K) -> None:
        """Give a key back; if it was added meanwhile, it is ready again.

        Raises:
            ValueError: When no worker holds the key, which would be a bug that hides a lost key.
        """
        if key not in self._processing:
            raise ValueError(f"done() for a key that nobody works on: {key!r}")
        self._observer.key_done(_now() - self._processing.pop(key))
        if not self._processing:
            self._idle.set()
        priority = self._dirty.pop(key, None)
        if priority is not None:
            self._make_ready(key, priority)

    def shut_down(self) -> None:
        """Hand out no more keys and drop those that wait; workers in flight may finish."""
        self._shutting_down = True
        for timer in self._timers.values():
            timer.handle.cancel()
        self._timers.clear()
        self._dirty.clear()
        self._added.clear()
        for keys in self._ready.values():
            keys.clear()
        while self._getters:
            self._wake_one()

    async def drained(self) -> None:
        """Wait until no worker holds a key."""
        await self._idle.wait()

    def _make_ready(self, key: K, priority: Priority) -> None:
        if key in self._ready[Priority.NORMAL]:
            return
        if priority is Priority.NORMAL:
            self._ready[Priority.LOW].pop(key, None)
        self._ready[priority][key] = None
        self._wake_one()

    def _come_due(self, key: K) -> None:
        self.add(key, self._timers.pop(key).priority)

    def _pick(self) -> K:
        """Take the oldest urgent key, or in its turn the oldest of the others."""
        self._picks += 1
        low, normal = self._ready[Priority.LOW], self._ready[Priority.NORMAL]
        low_turn = self._picks % LOW_PRIORITY_TURN == 0
        keys = low if low and (low_turn or not normal) else normal
        return keys.popitem(last=False)[0]

    async def _wait_for_key(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter in self._getters:
                self._getters.remove(getter)
            elif len(self):
                # Woken for a key and cancelled before it could take it: another one must have the chance.
                self._wake_one()
            raise

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return


def _now() -> float:
    return asyncio.get_running_loop().time()
