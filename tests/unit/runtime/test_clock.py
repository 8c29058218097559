from __future__ import annotations

import asyncio
from datetime import timedelta

from flamectl_operator.runtime.clock import SystemClock


async def test_the_wall_clock_is_in_utc() -> None:
    assert SystemClock().now().utcoffset() == timedelta(0)


async def test_the_monotonic_clock_is_that_of_the_event_loop() -> None:
    assert SystemClock().monotonic() == asyncio.get_running_loop().time()


async def test_sleeping_lets_time_pass_and_negative_sleep_does_not_fail() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(5)
    await clock.sleep(-1)
    assert clock.monotonic() == before + 5
