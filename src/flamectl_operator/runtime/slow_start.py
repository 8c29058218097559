"""Doing many like things carefully: first one, then two, then four.

When the first of a thousand creates fails because a quota is used up, the other 999 would fail as well, and each of them
costs the API server as much as one that works. So did ReplicaSets learn to start slowly (`slowStartBatch` in
`pkg/controller/replicaset/replica_set.go`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@dataclass(frozen=True, slots=True)
class SlowStartResult:
    """How a batch of batches ended.

    Args:
        succeeded: The number of calls that returned.
        errors: What the others raised, in the order of their indices.
        skipped: The number of calls never made because one before them failed.
    """

    succeeded: int
    errors: tuple[Exception, ...]
    skipped: int


async def slow_start_batch(
    count: int, initial: int, limit_in_flight: int, call: Callable[[int], Awaitable[None]]
) -> SlowStartResult:
    """Make `count` calls in batches that double while all goes well; after a batch with an error none follows.

    Args:
        count: How many calls to make.
        initial: The size of the first batch, at least 1.
        limit_in_flight: The most calls under way at one time, at least 1, however large a batch has become.
        call: Is given the index of the call, from 0.

    Raises:
        ValueError: When `initial` or `limit_in_flight` is less than 1.
        asyncio.CancelledError: When cancelled; calls under way are cancelled and have ended by then.
    """
    if initial < 1 or limit_in_flight < 1:
        raise ValueError("initial and limit_in_flight must be at least 1")
    started, size = 0, min(initial, count)
    errors: list[Exception] = []
    while size > 0 and not errors:
        errors = await _run_batch(range(started, started + size), limit_in_flight, call)
        started += size
        size = min(2 * size, count - started)
    return SlowStartResult(succeeded=started - len(errors), errors=tuple(errors), skipped=max(0, count) - started)


async def _run_batch(indices: range, limit_in_flight: int, call: Callable[[int], Awaitable[None]]) -> list[Exception]:
    """Make the calls of one batch and return what they raised, by index."""
    slots = asyncio.Semaphore(limit_in_flight)
    errors: dict[int, Exception] = {}

    async def run(index: int) -> None:
        async with slots:
            try:
                await call(index)
            except Exception as error:  # noqa: BLE001 - the caller gets every one of them
                errors[index] = error

    async with asyncio.TaskGroup() as group:
        for index in indices:
            group.create_task(run(index))
    return [errors[index] for index in sorted(errors)]
