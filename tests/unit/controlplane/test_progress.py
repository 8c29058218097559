"""Whoever waits for a build sees a line that moves, on a terminal and in a log."""

from __future__ import annotations

import io
import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

from tools.controlplane.build import TARGETS, build, news
from tools.controlplane.progress import COLUMNS, Reporter, about, run_with_progress
from tools.controlplane.versions import read_versions

if TYPE_CHECKING:
    from pathlib import Path


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Quick(Reporter):
    """Moves a thousand times a second, so that a test does not wait."""

    interval = 0.001


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


def test_progress_is_shown_each_second_on_a_terminal_and_every_ten_elsewhere() -> None:
    assert Reporter(Terminal()).interval == 1
    assert Reporter(io.StringIO()).interval == 10


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


# As the real one: modules that it downloads, then packages that it compiles, until the file `enough` is there.
SLOW_GO = """#!/bin/sh
here=$(dirname "$0")
if [ "$1" = version ]; then echo "go version go1.99.0 linux/amd64"; exit; fi
while [ $# -gt 1 ]; do
  if [ "$1" = -o ]; then output=$2; fi
  shift
done
echo "go: downloading example.com/module v1.0.0"
until [ -e "$here/downloaded" ]; do sleep 0.01; done
printf 'errors\\nexample.com/module/package\\n'
until [ -e "$here/compiled" ]; do sleep 0.01; done
: > "$output"
"""


@pytest.mark.parametrize("stream", [Terminal, io.StringIO], ids=["terminal", "log"])
def test_build_shows_its_progress_in_80_columns(
    stream: type[io.StringIO], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    go.write_text(SLOW_GO, encoding="utf-8")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")

    class Watched(stream):  # type: ignore[valid-type,misc]
        def write(self, text: str) -> int:
            if "1 downloads" in text:
                (tmp_path / "downloaded").touch()
            if "2 packages" in text:
                (tmp_path / "compiled").touch()
            return super().write(text)  # type: ignore[no-any-return]

    heard = Watched()
    out = tmp_path / "out"
    out.mkdir()
    build(["kube-controller-manager"], out, read_versions(), Quick(heard))
    lines = re.split(r"\r\x1b\[K|\n", heard.getvalue())
    assert lines[0].startswith("controlplane: building Kubernetes v1.")
    assert any(re.search(r"kube-controller-manager \(1 of 1\): 2 packages, 0:\d\d of 1:\d\d$", line) for line in lines)
    assert lines[-2].startswith("controlplane: built kube-controller-manager (1 of 1) in 0:")
    assert [line for line in lines if len(line) > COLUMNS] == []


@pytest.mark.parametrize(
    ("passed", "told"), [(450, "2345 packages, 7:30 of 7:30"), (1425, "23:45, longer than estimated")]
)
def test_line_of_a_build_says_when_it_takes_longer_and_fits_80_columns(
    tmp_path: Path, passed: float, told: str
) -> None:
    log = tmp_path / "log"
    log.write_text("example.com/package\n" * 2345, encoding="utf-8")
    assert news(log, passed, 450) == told
    terminal = Terminal()
    Reporter(terminal).moving(f"{max(TARGETS, key=len)} (5 of 6): {told}", 0.5)
    assert terminal.getvalue().endswith(told)


@pytest.mark.parametrize(
    ("seconds", "text"), [(1, "10 seconds"), (41, "50 seconds"), (60, "a minute"), (61, "2 minutes")]
)
def test_estimate_is_rounded_up(seconds: float, text: str) -> None:
    assert about(seconds) == text
