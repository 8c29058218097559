"""Being asked to stop: the first signal asks, the second one insists."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

#: What shells add to the number of the signal that ended a process.
_SIGNALLED = 128

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Have SIGTERM and SIGINT set an event; once that has happened, the next one ends the process at once.

    Args:
        stop: Set by the first signal, in the running event loop.
    """
    loop = asyncio.get_running_loop()

    def ask() -> None:
        stop.set()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            # The event loop may be what is stuck, so its handler is of no use here. The default action is none for a process that
            # is the first one in its container.
            signal.signal(number, _insist)

    for number in _SIGNALS:
        loop.add_signal_handler(number, ask)


def _insist(number: int, _frame: FrameType | None) -> NoReturn:
    os.write(2, b"flamectl-operator: asked to stop once more, ends at once\n")
    os._exit(_SIGNALLED + number)
