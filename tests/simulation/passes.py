"""The start of the pass that the running code belongs to; the pass knows everything from before its start."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING
from unittest.mock import patch

from flamectl_operator import operator
from flamectl_operator.controller import Controller

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from flamectl_operator.controller import Key
    from flamectl_operator.runtime.outcome import Result

_BEGUN: ContextVar[float] = ContextVar("BEGUN")


class TimedController(Controller):
    """The operator's own, but that it notes when passes begin. Tasks that a pass starts take that over."""

    async def reconcile(self, key: Key) -> Result:
        """See `Controller.reconcile`."""
        _BEGUN.set(asyncio.get_running_loop().time())
        return await super().reconcile(key)


def passes_noted() -> AbstractContextManager[object]:
    """Operators that start meanwhile note when their passes begin."""
    return patch.object(operator, "Controller", TimedController)


def pass_begun() -> float:
    return _BEGUN.get()
