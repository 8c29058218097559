"""The entry point, which handles signals before everything else is imported, because that takes about a second.

PID 1 of a container ignores signals without a handler, see pid_namespaces(7): a SIGTERM during the imports would be lost, and the
kubelet would wait for the whole grace period. At this point there is nothing to finish.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, NoReturn

from flamectl_operator import lean_imports

if TYPE_CHECKING:
    from types import FrameType

#: Shells add this to the number of the signal that ended a process.
_SIGNALLED = 128


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, _end)  # until the event loop sets its own handler
    interrupted = signal.signal(signal.SIGINT, _end)
    lean_imports.install()
    from flamectl_operator.process import cli  # noqa: PLC0415 - not before that

    # Python's own handler also works for PID 1, and lets commands clean up.
    signal.signal(signal.SIGINT, interrupted)
    cli.main()


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(_SIGNALLED + number)
