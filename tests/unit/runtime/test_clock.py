import asyncio

import pytest

from flamectl_operator.runtime.clock import STOOD_STILL, notice_standstills
from tests.unit.runtime.virtual_time import VirtualClock


@pytest.mark.parametrize(("late", "reported"), [(STOOD_STILL, []), (STOOD_STILL + 1, [STOOD_STILL + 1])])
async def test_look_that_is_late_by_more_than_the_limit_is_a_standstill(late: float, reported: list[float]) -> None:
    found: list[float] = []
    clock = _LateClock(late)

    with pytest.raises(asyncio.CancelledError):
        await notice_standstills(clock, found.append)

    assert found == reported


class _LateClock(VirtualClock):
    """A clock whose first sleep lasts longer than it should, and whose second one is cancelled."""

    def __init__(self, late: float) -> None:
        super().__init__()
        self._late, self._now = late, 100.0

    def boottime(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if self._now > 100.0:
            raise asyncio.CancelledError
        self._now += seconds + self._late
