"""Ctrl-C goes to the demo alone, so that `make` does not end as if something had failed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def foreground() -> Iterator[None]:
    """Be the terminal's foreground process group, as a shell's command is, and give the terminal back in the end.

    A terminal sends Ctrl-C to all processes of its foreground group. `make` is in the group that this process was started
    in, and would end with an error although the demo ends well. Without a terminal this changes nothing.
    """
    terminal = _terminal()
    if terminal is None:
        yield
        return
    before = os.getpgrp()
    # A process of the background that moves the foreground gets TTOU. Ctrl-Z would stop the demo and leave nobody to go on.
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTTOU, signal.SIGTSTP)}
    os.setpgid(0, 0)
    os.tcsetpgrp(terminal, os.getpgrp())
    try:
        yield
    finally:
        os.tcsetpgrp(terminal, before)
        os.setpgid(0, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _terminal() -> int | None:
    """Return the terminal whose foreground group this process is in and may leave, if there is one."""
    try:
        number = sys.stdin.fileno()
        if os.tcgetpgrp(number) != os.getpgrp() or os.getsid(0) == os.getpid():
            return None
    except (OSError, ValueError):
        # No file, or none that is the terminal of this session.
        return None
    return number
