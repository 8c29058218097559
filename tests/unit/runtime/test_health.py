import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from flamectl_operator.runtime.health import HEARTBEAT_INTERVAL, MAX_LAG, Heartbeat, report
from tests.unit.runtime.virtual_time import VirtualClock, VirtualTimeLoop


def fine() -> str:
    return ""


def broken() -> str:
    return "out of order"


# Reports


def test_passed_checks_are_reported_as_ok_or_one_by_one() -> None:
    checks = {"ping": fine, "log": fine}
    assert report("healthz", checks) == (True, "ok")
    assert report("healthz", checks, verbose=True) == (True, "[+]ping ok\n[+]log ok\nhealthz check passed\n")


@pytest.mark.parametrize("verbose", [False, True])
def test_failed_check_is_reported_with_its_reason(verbose: bool) -> None:  # noqa: FBT001
    checks = {"ping": fine, "engine": broken}
    text = "[+]ping ok\n[-]engine failed: out of order\nreadyz check failed\n"
    assert report("readyz", checks, verbose=verbose) == (False, text)


# The heart


def block(seconds: float) -> None:
    """Hold up the event loop, as a computation would."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.virtual_now += seconds


@pytest.fixture
async def heartbeat() -> AsyncIterator[Heartbeat]:
    heartbeat = Heartbeat(VirtualClock())
    async with _running(heartbeat):
        yield heartbeat


@asynccontextmanager
async def _running(heartbeat: Heartbeat) -> AsyncIterator[None]:
    task = asyncio.create_task(heartbeat.run())
    await asyncio.sleep(0)
    yield
    task.cancel()


async def test_blocked_loop_has_lag_until_the_next_heartbeat(heartbeat: Heartbeat) -> None:
    await asyncio.sleep(10.5)
    block(MAX_LAG + 2)
    assert heartbeat.check() == f"the event loop was blocked for {MAX_LAG + 1.5:.1f} s"

    await asyncio.sleep(0.1)
    assert heartbeat.lag == pytest.approx(MAX_LAG + 1.5)
    await asyncio.sleep(HEARTBEAT_INTERVAL)
    assert heartbeat.check() == ""


async def test_repeatedly_blocked_loop_fails_each_check(heartbeat: Heartbeat) -> None:
    for _ in range(5):
        await asyncio.sleep(0.01)
        block(MAX_LAG + HEARTBEAT_INTERVAL + 1)
        await asyncio.sleep(0.01)
        assert heartbeat.check()


async def test_lag_of_a_stopped_heartbeat_grows() -> None:
    heartbeat = Heartbeat(VirtualClock())
    async with _running(heartbeat):
        await asyncio.sleep(1)
    await asyncio.sleep(MAX_LAG + HEARTBEAT_INTERVAL + 1)
    assert heartbeat.check()
