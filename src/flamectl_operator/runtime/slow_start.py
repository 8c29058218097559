"""Calls whose number in flight grows while they succeed.

When the first of a thousand creates fails because a quota is used up, the other 999 would fail as well, and each of them costs
the API server as much as a successful one. ReplicaSets start slowly for the same reason (`slowStartBatch` in
`pkg/controller/replicaset/replica_set.go`). Their batches wait for the slowest call of each batch; here each success lets two
calls follow, as in TCP's slow start, so that the number in flight doubles with each round trip and nothing waits.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SlowStartResult:
    """The result of a series of calls.

    Args:
        succeeded: The number of calls that returned.
        errors: The exceptions of the failed calls, in the order of their indices.
        skipped: The number of calls that were not made, because an earlier call failed or `go_on` returned False.
        window: The number of calls that may be in flight at first, for a caller that continues later.
    """

    succeeded: int
    errors: tuple[Exception, ...]
    skipped: int
    window: int


class SlowStart:
    """A slow start that keeps its window from pass to pass when a pass runs out of time."""

    def __init__(self) -> None:
        self._window = 1

    def reset(self) -> None:
        """Start with one call again."""
        self._window = 1

    async def run(
        self, count: int, limit_in_flight: int, call: Callable[[int], Awaitable[None]], go_on: Callable[[], bool]
    ) -> SlowStartResult:
        """Make `count` calls; see `slow_start`."""
        result = await slow_start(count, self._window, limit_in_flight, call, go_on)
        self._window = result.window if result.skipped and not result.errors else 1
        return result


async def slow_start(
    count: int,
    window: int,
    limit_in_flight: int,
    call: Callable[[int], Awaitable[None]],
    go_on: Callable[[], bool] = lambda: True,
) -> SlowStartResult:
    """Make `count` calls, with one more in flight after each success; make no more calls after an error.

    Args:
        count: The number of calls.
        window: The most concurrent calls at first, at least 1.
        limit_in_flight: The most concurrent calls ever, at least 1.
        call: The call; it receives its index, from 0.
        go_on: Returns whether to make the next call; asked before each call.

    Raises:
        ValueError: `window` or `limit_in_flight` is less than 1.
        asyncio.CancelledError: The caller was cancelled; all running calls have been cancelled and have ended.
    """
    if window < 1 or limit_in_flight < 1:
        raise ValueError("window and limit_in_flight must be at least 1")
    calls = _Calls(call)
    return await calls.run(count, window, limit_in_flight, lambda: not calls.errors and go_on())


async def in_parallel(
    items: Sequence[T],
    limit_in_flight: int,
    call: Callable[[T], Awaitable[None]],
    go_on: Callable[[], bool] = lambda: True,
) -> SlowStartResult:
    """Make a call for each item in parallel; a failed call does not prevent the others.

    Args:
        items: The items.
        limit_in_flight: The most concurrent calls, at least 1.
        call: The call; it receives the item.
        go_on: Returns whether to make the next call; asked before each call.

    Raises:
        ValueError: `limit_in_flight` is less than 1.
        asyncio.CancelledError: The caller was cancelled; all running calls have been cancelled and have ended.
    """
    if limit_in_flight < 1:
        raise ValueError("limit_in_flight must be at least 1")
    calls = _Calls(lambda index: call(items[index]))
    return await calls.run(len(items), limit_in_flight, limit_in_flight, go_on)


class _Calls:
    """Makes calls in parallel and records their results.

    Args:
        call: The call; it receives its index.
    """

    def __init__(self, call: Callable[[int], Awaitable[None]]) -> None:
        self._call = call
        self._made = 0
        self._in_flight = 0
        #: The exceptions of the calls, by index.
        self.errors: dict[int, Exception] = {}

    async def run(self, count: int, window: int, limit: int, go_on: Callable[[], bool]) -> SlowStartResult:
        """Make calls until all are made or `go_on` returns False, and wait for all of them."""
        window = min(window, limit)
        async with asyncio.TaskGroup() as group:

            def fill() -> None:
                while self._in_flight < window and self._made < count and go_on():
                    group.create_task(make(self._made))
                    self._made += 1
                    self._in_flight += 1

            async def make(index: int) -> None:
                nonlocal window
                try:
                    await self._call(index)
                except Exception as error:  # noqa: BLE001 - the caller gets each of them
                    self.errors[index] = error
                else:
                    window = min(window + 1, limit)
                finally:
                    self._in_flight -= 1
                fill()

            fill()
        errors = tuple(self.errors[index] for index in sorted(self.errors))
        return SlowStartResult(self._made - len(errors), errors, skipped=max(0, count) - self._made, window=window)
