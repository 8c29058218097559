"""Where the process begins: it can be asked to end before everything else is imported, which takes a second or so.

The first process of a container is deaf to signals for which it has no handler, see pid_namespaces(7): a SIGTERM in that time
would be lost, and the kubelet would wait for the whole grace period. Nothing has been done yet that would have to be finished.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

#: What shells add to the number of the signal that ended a process.
_SIGNALLED = 128


def main() -> None:
    """Entry point of the console script."""
    signal.signal(signal.SIGTERM, _end)  # until the event loop has one of its own
    interrupted = signal.signal(signal.SIGINT, _end)
    from flamectl_operator import cli  # noqa: PLC0415 - not before that

    # Python's own handler is heard by a first process as well, and lets commands clean up.
    signal.signal(signal.SIGINT, interrupted)
    cli.main()


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(_SIGNALLED + number)
