"""Writes the log in a thread, because a write can block: a pipe is full while its reader stands still, or a disk hangs.

The event loop must go on meanwhile, because it renews the Lease. So lines wait for the thread in a queue of limited size. Lines
beyond that size are lost, and so are lines that cannot be written, as on a full disk. A line of the log tells their number when
writing succeeds again. A process that is killed loses the lines of its last 50 ms.
"""

import os
import select
from contextlib import suppress
from threading import Condition, Thread
from types import TracebackType
from typing import Self

import structlog

#: The file descriptor of standard error.
STDERR = 2
#: Bytes of lines that wait to be written. Ten thousand FlameClusters that all change write about half of that at once.
MAX_WAITING = 8 * 2**20
#: Seconds between two writes. Lines come in bursts, and those of a burst share a write, because the thread takes the interpreter
#: from the event loop for a moment each time that it wakes up.
WRITE_INTERVAL = 0.05
#: Seconds that the end of the process waits for the last lines to be written.
LAST_LINES_TIMEOUT = 2.0


def can_write(descriptor: int) -> bool:
    """Return whether a short text can be written to a descriptor without waiting."""
    with suppress(OSError):
        return bool(select.select([], [descriptor], [], 0)[1])
    return False


class LogWriter:
    """A text stream that never blocks and never fails. Writing begins and ends with the context."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._changed = Condition()
        self._waiting: list[bytes] = []
        self._size = 0  # bytes that wait or are being written
        self._lost = 0  # lines, since a line of the log last said how many
        self._idle = False  # whether the thread waits for a line
        self._closing = False
        # A daemon, because a thread that is blocked in a write must not keep the process from ending.
        self._thread = Thread(target=self._run, name="log", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until all lines are written, but not for ever. Later lines are written at once if nothing blocks."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(LAST_LINES_TIMEOUT)

    def write(self, text: str) -> int:
        """Take one line to be written, or lose it when too much waits already."""
        line = text.encode(errors="backslashreplace")
        with self._changed:
            if self._closing and not self._thread.is_alive():
                self._write([line])
            elif self._size + len(line) > MAX_WAITING:
                self._lost += 1
            else:
                self._waiting.append(line)
                self._size += len(line)
                if self._idle:
                    self._idle = False
                    self._changed.notify()
        return len(text)

    def flush(self) -> None:
        """Return at once, because the thread writes all lines within a moment."""

    def isatty(self) -> bool:
        """Return whether a person reads the stream."""
        return os.isatty(self._descriptor)

    def _run(self) -> None:
        while lines := self._take():
            written = self._write(lines)
            with self._changed:
                self._size -= sum(map(len, lines))
                self._lost += 0 if written else len(lines)
                # The line about them must have room, so it waits until nothing else does.
                lost = self._lost if written and not self._waiting else 0
                self._lost -= lost
            if lost:
                structlog.get_logger(component="log").warning("log lines lost", lines=lost)
            self._rest()

    def _take(self) -> list[bytes]:
        """Wait for lines and return them; none at the end."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._idle = True
                self._changed.wait()
            lines, self._waiting = self._waiting, []
            return lines

    def _rest(self) -> None:
        """Let lines gather for a moment, unless the end of the context is waiting."""
        with self._changed:
            if not self._closing:
                self._changed.wait(WRITE_INTERVAL)

    def _write(self, lines: list[bytes]) -> bool:
        """Write all of the lines, however long that takes. Return whether that succeeded."""
        rest = memoryview(b"".join(lines))
        with suppress(OSError):
            while rest:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:  # another process that shares the pipe made it non-blocking
                    room = select.poll()
                    room.register(self._descriptor, select.POLLOUT)
                    room.poll()
        return not rest
