"""Doing many like things carefully: first one, then two, then four.

When the first of a thousand creates fails because a quota is used up, the other 999 would fail as well, and each of them
costs the API server as much as one that works. So did ReplicaSets learn to start slowly (`slowStartBatch` in
`pkg/controller/replicaset/replica_set.go`).
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
    """How a batch of batches ended.

    Args:
        succeeded: The number of calls that returned.
        errors: What the others raised, in the order of their indices.
        skipped: The number of calls that were not made, because an earlier one failed or `go_on` said no.
        next_size: The size that the next batch would have had, for a caller that goes on later.
    """

    succeeded: int
    errors: tuple[Exception, ...]
    skipped: int
    next_size: int


async def slow_start_batch(
    count: int,
    initial: int,
    limit_in_flight: int,
    call: Callable[[int], Awaitable[None]],
    go_on: Callable[[], bool] = lambda: True,
) -> SlowStartResult:
    """Make `count` calls in batches that double while all goes well; after a batch with an error none follows.

    Args:
        count: How many calls to make.
        initial: The size of the first batch, at least 1.
        limit_in_flight: The most calls under way at one time, at least 1, however large a batch has become.
        call: Is given the index of the call, from 0.
        go_on: Asked before each call whether it is still to be made.

    Raises:
        ValueError: When `initial` or `limit_in_flight` is less than 1.
        asyncio.CancelledError: When cancelled; calls under way are cancelled and have ended by then.
    """
    if initial < 1 or limit_in_flight < 1:
        raise ValueError("initial and limit_in_flight must be at least 1")
    started, size, batch = 0, initial, _Batch(limit_in_flight, call, go_on)
    while started < count and not batch.errors and go_on():
        end = min(started + size, count)
        await batch.run(range(started, end))
        if batch.made < end:
            break
        started, size = end, 2 * size
    errors = tuple(batch.errors[index] for index in sorted(batch.errors))
    return SlowStartResult(batch.made - len(errors), errors, skipped=max(0, count) - batch.made, next_size=size)


async def in_parallel(
    items: Sequence[T],
    limit_in_flight: int,
    call: Callable[[T], Awaitable[None]],
    go_on: Callable[[], bool] = lambda: True,
) -> SlowStartResult:
    """Make a call for each item side by side; one that fails keeps no other from being made.

    Args:
        items: What to make calls for.
        limit_in_flight: The most calls under way at one time, at least 1.
        call: Is given the item.
        go_on: Asked before each call whether it is still to be made.

    Raises:
        ValueError: When `limit_in_flight` is less than 1.
        asyncio.CancelledError: When cancelled; calls under way are cancelled and have ended by then.
    """
    return await slow_start_batch(
        len(items), max(1, len(items)), limit_in_flight, lambda index: call(items[index]), go_on
    )


class _Batch:
    """Makes calls side by side, and keeps account of them.

    Args:
        limit_in_flight: See above.
        call: See above.
        go_on: See above.
    """

    def __init__(self, limit_in_flight: int, call: Callable[[int], Awaitable[None]], go_on: Callable[[], bool]) -> None:
        self._slots = asyncio.Semaphore(limit_in_flight)
        self._call = call
        self._go_on = go_on
        self.made = 0
        #: What calls raised, by index.
        self.errors: dict[int, Exception] = {}

    async def run(self, indices: range) -> None:
        """Makes the calls with these indices."""
        async with asyncio.TaskGroup() as group:
            for index in indices:
                group.create_task(self._run(index))

    async def _run(self, index: int) -> None:
        async with self._slots:
            if not self._go_on():
                return
            self.made += 1
            try:
                await self._call(index)
            except Exception as error:  # noqa: BLE001 - the caller gets every one of them
                self.errors[index] = error
