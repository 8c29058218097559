"""What SIGTERM and SIGINT do once the event loop runs."""

import asyncio
import os
import signal
from types import FrameType
from typing import NoReturn

from flamectl_operator import SIGNALLED
from flamectl_operator.runtime.log_writer import STDERR, can_write

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set an event on the first SIGTERM or SIGINT; end the process at once on the next one."""
    loop = asyncio.get_running_loop()

    def ask() -> None:
        stop.set()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
            # The event loop may be stuck, so its signal handler may never run. The default action does nothing for a process
            # that is PID 1 in its container.
            signal.signal(number, _insist)

    for number in _SIGNALS:
        loop.add_signal_handler(number, ask)


def _insist(number: int, _frame: FrameType | None) -> NoReturn:
    if can_write(STDERR):
        os.write(STDERR, b"flamectl-operator: received a second stop signal, exits now\n")
    os._exit(SIGNALLED + number)
