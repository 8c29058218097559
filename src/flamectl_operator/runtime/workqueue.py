"""The queue between "something changed" and "look at it again", with the semantics of client-go's workqueue.

It holds keys, not events: a key with many events is handed out once. One worker at a time holds a key; when the key is added
meanwhile, it becomes ready again after that worker calls `done`. Beyond client-go's rules the queue has delayed adds, a backoff
for keys that fail, groups that take turns, and two priorities: a recent change overtakes the initial list and the resync, which
are not urgent and come in thousands.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

from flamectl_operator.runtime.backoff import ExponentialBackoff
from flamectl_operator.runtime.fair_queue import FairQueue
from flamectl_operator.runtime.slots import leaves_room
from flamectl_operator.runtime.telemetry import UNMEASURED, Telemetry

K = TypeVar("K", bound=Hashable)

#: Every eighth pick takes the oldest key of low priority, so that a storm of changes cannot starve such keys.
LOW_PRIORITY_TURN = 8


class Priority(IntEnum):
    """The priority of a key; a key that is added twice keeps the higher one."""

    LOW = 0
    NORMAL = 1


class QueueShutDown(Exception):  # noqa: N818 - a signal that ends a worker's loop, as asyncio.QueueShutDown
    """The queue hands out no more keys."""


@dataclass(frozen=True, slots=True)
class _Timer:
    handle: asyncio.TimerHandle
    priority: Priority


class WorkQueue(Generic[K]):
    """A queue of keys for any number of workers in one event loop.

    Args:
        group: Returns the group of a key. Groups take turns, so that a group with many keys does not delay the others. By default
            all keys are in one group.
        workers: The number of workers, of which a group leaves some to others, because the work on its keys may take long; None
            when it may have all.
    """

    def __init__(
        self,
        backoff: ExponentialBackoff,
        telemetry: Telemetry = UNMEASURED,
        group: Callable[[K], Hashable] = lambda _key: None,
        workers: int | None = None,
    ) -> None:
        self._group = group
        self._workers = workers
        self._backoff = backoff
        self._telemetry = telemetry
        self._ready: dict[Priority, FairQueue[K]] = {priority: FairQueue(group) for priority in Priority}
        self._processing: dict[K, float] = {}  # the time since when
        self._held: Counter[Hashable] = Counter()  # the keys that workers hold, by group
        self._dirty: dict[K, Priority] = {}  # added again while a worker holds them
        self._added: dict[K, float] = {}  # when each waiting key, also a dirty one, was first added
        self._timers: dict[K, _Timer] = {}
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._picks = 0
        self._shutting_down = False
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        """Return the number of keys that wait for a worker now, without delayed keys and keys that a worker holds."""
        return sum(len(keys) for keys in self._ready.values())

    def depth(self, priority: Priority) -> int:
        """Return the number of waiting keys of a priority, with keys that were added again while a worker holds them."""
        return len(self._ready[priority]) + sum(each is priority for each in self._dirty.values())

    @property
    def processing(self) -> Mapping[K, float]:
        """The keys that workers hold, with the event loop's time since when."""
        return self._processing

    def add(self, key: K, priority: Priority = Priority.NORMAL) -> None:
        """Add a key; without effect after `shut_down`."""
        if self._shutting_down:
            return
        if key not in self._added:
            self._added[key] = _now()
            self._telemetry.key_added()
        if key in self._processing:
            self._dirty[key] = max(priority, self._dirty.get(key, priority))
        else:
            self._make_ready(key, priority)

    def add_after(self, key: K, delay: float, priority: Priority = Priority.NORMAL) -> None:
        """Add a key after `delay` seconds; the earliest of several delayed adds counts."""
        if self._shutting_down:
            return
        due, waiting = _now() + delay, self._timers.get(key)
        if delay > 0 and waiting is not None and waiting.handle.when() <= due and waiting.priority >= priority:
            return
        self._telemetry.key_retried()
        if delay <= 0:
            self.add(key, priority)
            return
        if waiting is not None:
            priority = max(priority, waiting.priority)
            due = min(due, waiting.handle.when())
            waiting.handle.cancel()
        handle = asyncio.get_running_loop().call_at(due, lambda: self.add(key, self._timers.pop(key).priority))
        self._timers[key] = _Timer(handle, priority)

    def add_rate_limited(self, key: K) -> None:
        """Count a failure of the key and add the key after the backoff delay."""
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        self.add_after(key, self._backoff.delay(failures))

    def forget(self, key: K) -> None:
        """Reset the key's failures. The key stays in the queue, and so does a delayed add."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Wait for a key and take it; the caller must always call `done` with it. Raise QueueShutDown after `shut_down`."""
        while True:
            if self._shutting_down:
                raise QueueShutDown
            with suppress(KeyError):
                key = self._pick()
                self._processing[key] = now = _now()
                self._held[self._group(key)] += 1
                self._telemetry.key_taken(now - self._added.pop(key))
                self._idle.clear()
                return key
            await self._wait_for_key()

    def done(self, key: K) -> None:
        """Give a key back, ready again if it was added meanwhile. Raise ValueError if no worker holds it: a key may be lost."""
        if key not in self._processing:
            raise ValueError(f"done() for a key that no worker holds: {key!r}")
        self._telemetry.key_done(_now() - self._processing.pop(key))
        group = self._group(key)
        self._held[group] -= 1
        if not self._held[group]:
            del self._held[group]
        if not self._processing:
            self._idle.set()
        priority = self._dirty.pop(key, None)
        if priority is not None:
            self._make_ready(key, priority)
        elif self._workers is not None and len(self):
            self._wake_one()  # a group that left this worker to others may have it now

    def shut_down(self) -> None:
        """Stop handing out keys and drop waiting keys; workers may finish the keys that they hold."""
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
            self._ready[Priority.LOW].discard(key)
        self._ready[priority].add(key)
        self._wake_one()

    def _pick(self) -> K:
        """Take the oldest key of normal priority, or on every eighth pick of low priority; raise KeyError without one."""
        low, normal = self._ready[Priority.LOW], self._ready[Priority.NORMAL]
        low_turn = (self._picks + 1) % LOW_PRIORITY_TURN == 0
        first, second = (low, normal) if low_turn else (normal, low)
        try:
            key = first.take(self._admits)
        except KeyError:
            key = second.take(self._admits)
        self._picks += 1
        return key

    def _admits(self, group: Hashable) -> bool:
        return self._workers is None or leaves_room(self._held[group], self._workers - len(self._processing))

    async def _wait_for_key(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter in self._getters:
                self._getters.remove(getter)
            elif len(self):
                # Woken for a key and cancelled before it could take it: wake another one.
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
