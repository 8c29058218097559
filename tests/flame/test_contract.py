"""The rules of `contract.py` on the fake session manager, and on a real one that `FLAME_SESSION_MANAGER` names."""

from __future__ import annotations

import asyncio
import os
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.flame.contract import RULES, Bench
from tests.flame.model import FlameModel
from tests.flame.server import LOOPBACK, FlameServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.flame.contract import Rule

REAL_TIME = True
#: `host:port` of the frontend of a real session manager, Flame 0.6 or later.
REAL = os.environ.get("FLAME_SESSION_MANAGER", "")
#: How much faster than the clock time passes for the fake session manager.
SPEED = 10.0


class Hurried:
    """A timer whose seconds are short.

    Args:
        speed: How many of its seconds pass in one.
    """

    def __init__(self, speed: float) -> None:
        self._speed = speed

    def time(self) -> float:
        return asyncio.get_running_loop().time() * self._speed

    def call_later(self, delay: float, callback: Callable[[], object], /) -> Any:
        return asyncio.get_running_loop().call_later(delay / self._speed, callback)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("dialect", ["0.6", "0.7"])
async def test_fake_session_manager_keeps_the_rule(rule: Rule, dialect: str) -> None:
    async with FlameServer(FlameModel(Hurried(SPEED)), dialect).serve() as port:
        await rule(Bench(LOOPBACK, port, SPEED, "contract-"))


@pytest.mark.skipif(not REAL, reason="FLAME_SESSION_MANAGER names no session manager")
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
async def test_real_session_manager_keeps_the_rule(rule: Rule) -> None:
    host, _, port = REAL.rpartition(":")
    await rule(Bench(host, int(port), 1.0, f"contract-{uuid.uuid4().hex[:6]}-"))
