import asyncio
from collections import Counter

import pytest

from flamectl_operator.runtime.slow_start import (
    ACCEPTANCE_LASTS,
    AFTER_ACCEPTANCE,
    MIN_WINDOW,
    QUEUED_FACTOR,
    QUICK_SECONDS,
    Acceptances,
    SlowStart,
    Window,
)


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


def _grown(size: int) -> SlowStart:
    """Return a slow start whose earlier calls succeeded."""
    start = SlowStart()
    start.window.size = size
    return start


async def test_calls_in_flight_double_with_each_round_trip() -> None:
    calls = Calls()
    result = await SlowStart().run(20, lambda: 100, calls)
    assert calls.batches == [1, 2, 4, 8, 5]
    assert (result.succeeded, result.errors, result.skipped) == (20, (), 0)


async def test_no_call_follows_when_the_first_one_fails() -> None:
    calls = Calls(failing=frozenset({0}))
    result = await SlowStart().run(500, lambda: 100, calls)
    assert calls.batches == [1]
    assert (result.succeeded, len(result.errors), result.skipped) == (0, 1, 499)


async def test_few_calls_begin_together_when_one_like_them_was_accepted() -> None:
    calls, start = Calls(), SlowStart()
    start.expect_success()
    await start.run(20, lambda: 100, calls)
    assert calls.batches == [AFTER_ACCEPTANCE, 2 * AFTER_ACCEPTANCE, 8]


async def test_acceptance_does_not_slow_down_a_window_that_has_grown() -> None:
    start = _grown(50)
    start.expect_success()
    assert start.window.size == 50


async def test_calls_begin_one_by_one_when_one_like_them_was_refused_after_the_acceptance() -> None:
    start = SlowStart()
    start.expect_success()
    await start.run(20, lambda: 100, Calls(failing=frozenset({0})))
    calls = Calls()
    await start.run(3, lambda: 100, calls)
    assert calls.batches == [1, 2]


def test_acceptance_holds_for_others_in_its_group_until_a_refusal_or_for_a_short_time() -> None:
    accepted = Acceptances()
    accepted.note("here", "one", 10.0)
    assert accepted.by_another("here", "two", 10.0 + ACCEPTANCE_LASTS)
    assert not accepted.by_another("here", "two", 10.1 + ACCEPTANCE_LASTS)
    assert not accepted.by_another("here", "one", 10.0)
    assert not accepted.by_another("there", "two", 10.0)

    accepted.note_refusal("here")
    assert not accepted.by_another("here", "two", 10.0)


async def test_calls_in_flight_are_finished_after_an_error_and_none_follows() -> None:
    calls = Calls(failing=frozenset({2, 5}))
    result = await _grown(2).run(100, lambda: 100, calls)
    assert calls.batches == [2, 4]
    assert result.succeeded == 4
    assert [str(error) for error in result.errors] == ["2", "5"]
    assert result.skipped == 94


async def test_no_more_than_the_limit_are_in_flight() -> None:
    calls = Calls()
    await SlowStart().run(63, lambda: 3, calls)
    assert calls.most_in_flight == 3


@pytest.mark.parametrize(("limit", "made"), [(1, 4), (3, 9), (100, 15)])
async def test_no_call_follows_after_go_on_returns_false(limit: int, made: int) -> None:
    calls, loop = Calls(), asyncio.get_running_loop()
    end = loop.time() + 3.5
    result = await SlowStart().run(63, lambda: limit, calls, lambda: loop.time() < end)
    assert len(calls.begun) == made
    assert (result.succeeded, result.errors, result.skipped) == (made, (), 63 - made)


async def test_caller_that_continues_later_begins_with_the_window_it_reached() -> None:
    calls, loop = Calls(), asyncio.get_running_loop()
    end = loop.time() + 1.5
    start = SlowStart()
    result = await start.run(63, lambda: 100, calls, lambda: loop.time() < end)
    assert (result.succeeded, result.skipped) == (3, 60)
    await start.run(60, lambda: 100, calls)
    assert calls.batches == [1, 2, 4, 8, 16, 32]


async def test_limit_that_changes_holds_for_the_next_calls() -> None:
    calls, loop = Calls(), asyncio.get_running_loop()
    begun = loop.time()
    await _grown(8).run(20, lambda: 2 if 1 <= loop.time() - begun < 3 else 8, calls)
    assert calls.batches == [8, 2, 2, 8]


async def test_cancelling_ends_the_running_calls() -> None:
    calls = Calls()
    batch = asyncio.create_task(_grown(8).run(8, lambda: 8, calls))
    await asyncio.sleep(0.5)
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    assert calls.in_flight == 0


async def test_slow_call_does_not_hold_up_the_others() -> None:
    begun: list[tuple[int, float]] = []
    start = asyncio.get_running_loop().time()

    async def call(index: int) -> None:
        begun.append((index, asyncio.get_running_loop().time() - start))
        await asyncio.sleep(100 if index == 1 else 1)

    await SlowStart().run(9, lambda: 4, call)

    # Calls 1 and 2 begin after the first success. While call 1 takes long, each of the others lets more calls follow.
    assert begun == [(0, 0), (1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3), (7, 3), (8, 4)]


async def test_window_stops_growing_when_the_server_lets_calls_wait() -> None:
    most, in_flight, free_at = Counter[bool](), 0, 0.0
    loop = asyncio.get_running_loop()

    async def call(index: int) -> None:
        nonlocal in_flight, free_at
        in_flight += 1
        most[index < 100] = max(most[index < 100], in_flight)
        free_at = max(free_at, loop.time()) + 1  # one call after the other
        await asyncio.sleep(free_at - loop.time())
        in_flight -= 1

    begun = loop.time()
    await SlowStart().run(200, lambda: 64, call)

    assert most[False] <= most[True] <= MIN_WINDOW + 1
    assert loop.time() - begun == 200


def test_window_shrinks_while_calls_wait_and_grows_again() -> None:
    window = Window(MIN_WINDOW + 10)
    window.note_success(1.0, 64)
    for _ in range(20):
        window.note_success(QUEUED_FACTOR + 1, 64)
    assert window.size == MIN_WINDOW

    window.note_success(1.0, 64)
    assert window.size == MIN_WINDOW + 1


def test_window_does_not_grow_over_the_limit_and_survives_a_lower_one() -> None:
    window = Window(5)
    for limit in (6, 6, 2):
        window.note_success(1.0, limit)
    assert window.size == 6


def test_short_waits_do_not_count() -> None:
    window = Window(1)
    window.note_success(QUICK_SECONDS / 100, 64)
    window.note_success(QUICK_SECONDS * QUEUED_FACTOR, 64)
    assert window.size == 3
