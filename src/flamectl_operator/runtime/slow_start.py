"""Calls whose number in flight grows while they succeed.

When the first of a thousand creates fails because a quota is used up, the other 999 would fail as well. Each of them costs the
API server as much as a successful one. ReplicaSets start slowly for the same reason (`slowStartBatch` in
`pkg/controller/replicaset/replica_set.go`). Their batches wait for the slowest call of each batch. Here
nothing waits: each success lets two calls follow, as in TCP's slow start, so the number in flight doubles with each round trip.

It stops growing when calls take several times as long as the quickest one, as in TCP Vegas. A server that works on as many calls
as it can answers further ones no sooner: they wait in its queue, and the calls of others wait behind them.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from flamectl_operator.runtime.lru_cache import LRUCache

T = TypeVar("T")

#: A call that takes so many times as long as the quickest one has waited in a queue.
QUEUED_FACTOR = 4.0
#: Seconds that a call may take in any case, because shorter waits harm nobody.
QUICK_SECONDS = 0.005
#: Calls in flight at first when another one like them was accepted so many seconds ago at most.
AFTER_ACCEPTANCE = 4
ACCEPTANCE_LASTS = 2.0
#: The most groups whose acceptances are remembered.
MAX_GROUPS = 1024
#: The window does not shrink below this size, because calls may have become slow for another reason.
MIN_WINDOW = 16


@dataclass(frozen=True, slots=True)
class SlowStartResult:
    """The errors of calls by index, and the number of calls that were not made, because one failed or `go_on` returned False."""

    succeeded: int
    errors: tuple[Exception, ...]
    skipped: int


_NO_CALLS = SlowStartResult(0, (), 0)


class Window:
    """The number of calls that may be in flight, at first `size`."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._quickest = math.inf

    def note_success(self, seconds: float, limit: int) -> None:
        """Grow, up to a limit, after a call that was answered without waiting; shrink after one that waited in a queue."""
        self._quickest = min(self._quickest, seconds)
        if seconds <= QUEUED_FACTOR * max(self._quickest, QUICK_SECONDS):
            self.size = max(self.size, min(self.size + 1, limit))
        else:
            self.size = max(self.size - 1, min(self.size, MIN_WINDOW))


class SlowStart:
    """A slow start that keeps its window from pass to pass when a pass runs out of time."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start with one call again."""
        self.window = Window(1)

    def expect_success(self) -> None:
        """Start with a few calls, because the server has just accepted others like them."""
        self.window.size = max(self.window.size, AFTER_ACCEPTANCE)

    async def run(
        self,
        count: int,
        limit: Callable[[], int],
        call: Callable[[int], Awaitable[None]],
        go_on: Callable[[], bool] = lambda: True,
    ) -> SlowStartResult:
        """Make `count` calls, with one more in flight after each success; make no more calls after an error.

        Args:
            limit: Returns the most concurrent calls, at least 1; asked before each call.
            call: The call; it receives its index, from 0.
            go_on: Returns whether to make the next call; asked before each call.

        Raises:
            asyncio.CancelledError: The caller was cancelled; all running calls have been cancelled and have ended.
        """
        result = await _make_calls(count, self.window, limit, call, go_on, stop_at_error=True)
        if result.errors or not result.skipped:
            self.reset()
        return result


class Acceptances:
    """The caller of the latest call of each group, such as a namespace in which Pods are created, if that call succeeded.

    All times are of one clock.
    """

    def __init__(self) -> None:
        self._latest: LRUCache[tuple[Hashable, float]] = LRUCache(MAX_GROUPS)

    def note(self, group: Hashable, caller: Hashable, now: float) -> None:
        """Note that calls of somebody succeeded."""
        self._latest.put(group, (caller, now))

    def note_refusal(self, group: Hashable) -> None:
        """Forget earlier successes, because a call has failed since."""
        self._latest.put(group, (None, -math.inf))

    def by_another(self, group: Hashable, caller: Hashable, now: float) -> bool:
        """Return whether the latest call of a group succeeded for another caller, and not long ago.

        A caller knows by its own window how its own calls went.
        """
        latest, at = self._latest.find(group) or (None, -math.inf)
        return latest != caller and now - at <= ACCEPTANCE_LASTS


async def in_parallel(
    items: Sequence[T],
    limit: Callable[[], int],
    call: Callable[[T], Awaitable[None]],
    go_on: Callable[[], bool] = lambda: True,
) -> SlowStartResult:
    """Make a call for each item in parallel. A failed call does not prevent the others; a cancellation ends all of them."""
    window = Window(max(1, len(items)))
    return await _make_calls(len(items), window, limit, lambda index: call(items[index]), go_on)


async def _make_calls(
    count: int,
    window: Window,
    limit: Callable[[], int],
    call: Callable[[int], Awaitable[None]],
    go_on: Callable[[], bool],
    *,
    stop_at_error: bool = False,
) -> SlowStartResult:
    """Make calls until all are made or `go_on` returns False, and wait for all of them."""
    if not count:
        return _NO_CALLS
    now = asyncio.get_running_loop().time
    made = in_flight = 0
    errors: dict[int, Exception] = {}  # by index
    async with asyncio.TaskGroup() as group:

        def fill() -> None:
            nonlocal made, in_flight
            while in_flight < min(window.size, limit()) and made < count and not (stop_at_error and errors) and go_on():
                group.create_task(make(made))
                made += 1
                in_flight += 1

        async def make(index: int) -> None:
            nonlocal in_flight
            begun = now()
            try:
                await call(index)
            except Exception as error:  # noqa: BLE001 - the caller gets each of them
                errors[index] = error
            else:
                window.note_success(now() - begun, limit())
            finally:
                in_flight -= 1
            fill()

        fill()
    return SlowStartResult(made - len(errors), tuple(errors[index] for index in sorted(errors)), count - made)
