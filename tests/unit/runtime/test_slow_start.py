from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from flamectl_operator.runtime.slow_start import slow_start_batch


class Calls:
    """Takes a second for each call and remembers when each began."""

    def __init__(self, failing: frozenset[int] = frozenset()) -> None:
        self.failing = failing
        self.begun: list[float] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def __call__(self, index: int) -> None:
        self.begun.append(asyncio.get_running_loop().time())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(1)
        finally:
            self.in_flight -= 1
        if index in self.failing:
            raise ValueError(index)

    @property
    def batches(self) -> list[int]:
        return list(Counter(self.begun).values())


async def test_batches_double_until_all_is_done() -> None:
    calls = Calls()
    result = await slow_start_batch(20, 1, 100, calls)
    assert calls.batches == [1, 2, 4, 8, 5]
    assert (result.succeeded, result.errors, result.skipped) == (20, (), 0)


async def test_the_first_failure_spares_the_others() -> None:
    calls = Calls(failing=frozenset({0}))
    result = await slow_start_batch(500, 1, 100, calls)
    assert calls.batches == [1]
    assert (result.succeeded, len(result.errors), result.skipped) == (0, 1, 499)


async def test_a_batch_with_an_error_is_finished_and_none_follows() -> None:
    calls = Calls(failing=frozenset({2, 5}))
    result = await slow_start_batch(100, 2, 100, calls)
    assert calls.batches == [2, 4]
    assert result.succeeded == 4
    assert [str(error) for error in result.errors] == ["2", "5"]
    assert result.skipped == 94


async def test_no_more_than_the_limit_are_in_flight() -> None:
    calls = Calls()
    await slow_start_batch(63, 1, 3, calls)
    assert calls.most_in_flight == 3


@pytest.mark.parametrize(("limit", "made"), [(1, 4), (3, 7), (100, 15)])
async def test_none_is_made_once_it_is_not_to_go_on(limit: int, made: int) -> None:
    calls, loop = Calls(), asyncio.get_running_loop()
    end = loop.time() + 3.5
    result = await slow_start_batch(63, 1, limit, calls, lambda: loop.time() < end)
    assert len(calls.begun) == made
    assert (result.succeeded, result.errors, result.skipped) == (made, (), 63 - made)


async def test_who_goes_on_later_can_begin_where_it_was() -> None:
    calls, loop = Calls(), asyncio.get_running_loop()
    end = loop.time() + 1.5
    result = await slow_start_batch(63, 1, 100, calls, lambda: loop.time() < end)
    assert (result.succeeded, result.next_size) == (3, 4)
    result = await slow_start_batch(60, result.next_size, 100, calls)
    assert calls.batches == [1, 2, 4, 8, 16, 32]


async def test_a_batch_that_was_cut_off_is_no_reason_for_a_larger_one() -> None:
    calls, loop = Calls(), asyncio.get_running_loop()
    end = loop.time() + 0.5
    result = await slow_start_batch(63, 8, 4, calls, lambda: loop.time() < end)
    assert (result.succeeded, result.skipped, result.next_size) == (4, 59, 8)


async def test_nothing_to_do_makes_no_call() -> None:
    calls = Calls()
    result = await slow_start_batch(0, 1, 1, calls)
    assert calls.begun == []
    assert (result.succeeded, result.skipped) == (0, 0)


@pytest.mark.parametrize(("initial", "limit"), [(0, 1), (1, 0)])
async def test_sizes_below_one_are_refused(initial: int, limit: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        await slow_start_batch(1, initial, limit, Calls())


async def test_cancelling_ends_the_calls_under_way() -> None:
    calls = Calls()
    batch = asyncio.create_task(slow_start_batch(8, 8, 8, calls))
    await asyncio.sleep(0.5)
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    assert calls.in_flight == 0
