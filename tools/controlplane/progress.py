"""Says what goes on during a long wait: one line that is rewritten on a terminal, elsewhere a line every ten seconds."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

COLUMNS = 80
_PREFIX = "controlplane: "
_ERASE_LINE = "\r\x1b[K"
_BAR = 10
_MINUTE = 60


@dataclass(slots=True)
class Reporter:
    """Prints lines of progress, by default to stderr, where they don't get into the output of a command."""

    stream: TextIO | None = None
    _unfinished: bool = field(default=False, init=False)

    def __call__(self, line: str) -> None:
        """Print a line that stays."""
        self._write(f"{_PREFIX}{line}\n")
        self._unfinished = False

    def moving(self, line: str, done: float | None = None) -> None:
        """Print a line that the next one replaces on a terminal.

        Args:
            done: The share of the work that is done, between 0 and 1. A terminal shows a bar for it.
        """
        if not self._terminal:
            self(line)
            return
        text = line if done is None else f"{_bar(done)} {line}"
        # One column less than there are: a full line would make some terminals begin another one.
        self._write(text[: COLUMNS - 1])
        self._unfinished = True

    @property
    def interval(self) -> float:
        """Seconds between two moving lines."""
        return 1.0 if self._terminal else 10.0

    @property
    def _stream(self) -> TextIO:
        return sys.stderr if self.stream is None else self.stream

    @property
    def _terminal(self) -> bool:
        return self._stream.isatty()

    def _write(self, text: str) -> None:
        self._stream.write(f"{_ERASE_LINE if self._unfinished else ''}{text}")
        self._stream.flush()


#: The reporter of this process. One object, because it remembers the line that the next one replaces.
STDERR = Reporter()


def run_with_progress(
    command: Sequence[str],
    log: Path,
    tick: Callable[[float], None],
    interval: float,
    *,
    directory: Path,
    environment: Mapping[str, str],
) -> int:
    """Run a command to its end and return its exit code.

    Args:
        tick: Called after each interval, with the seconds since the start.
        interval: Seconds.
    """
    begin = time.monotonic()
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            while True:
                try:
                    return process.wait(interval)
                except subprocess.TimeoutExpired:
                    tick(time.monotonic() - begin)
        except BaseException:
            process.kill()
            raise


def clock(seconds: float) -> str:
    """Return a duration as `3:05`."""
    minutes, rest = divmod(int(seconds), _MINUTE)
    return f"{minutes}:{rest:02}"


def about(seconds: float) -> str:
    """Return a duration as `40 seconds` or `8 minutes`, rounded up."""
    if seconds < _MINUTE:
        return f"{-(-int(seconds) // 10) * 10} seconds"
    minutes = -(-int(seconds) // _MINUTE)
    return "a minute" if minutes == 1 else f"{minutes} minutes"


def _bar(done: float) -> str:
    full = round(_BAR * min(max(done, 0.0), 1.0))
    return f"[{'#' * full}{'.' * (_BAR - full)}]"
