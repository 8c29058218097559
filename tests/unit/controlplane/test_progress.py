"""A person who waits for a build sees a line that moves, on a terminal and in a log."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

from tools.controlplane.progress import Reporter, run_with_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_line_is_replaced_on_a_terminal() -> None:
    terminal = Terminal()
    report = Reporter(terminal)
    report.moving("one", 0.5)
    report.moving("two", 1)
    report("three")
    report("four")
    first, rest = terminal.getvalue().split("\r\x1b[K", 1)
    assert first == "[#####.....] one"
    assert rest == "[##########] two\r\x1b[Kcontrolplane: three\ncontrolplane: four\n"


def test_progress_line_has_no_bar_without_a_terminal() -> None:
    log = io.StringIO()
    Reporter(log).moving("one", 0.5)
    assert log.getvalue() == "controlplane: one\n"


def test_long_command_shows_progress_until_it_ends(tmp_path: Path) -> None:
    ticks: list[float] = []
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def tick(seconds: float) -> None:
        ticks.append(seconds)
        if len(ticks) == 3:
            pipe.write_text("now", encoding="utf-8")

    command = [sys.executable, "-c", f"print(open({str(pipe)!r}).read()); raise SystemExit(7)"]
    log = tmp_path / "log"
    assert run_with_progress(command, log, tick, 0.01, directory=tmp_path, environment=os.environ) == 7
    assert ticks == sorted(ticks)
    assert log.read_text(encoding="utf-8") == "now\n"
