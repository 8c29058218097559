"""`make demo` without a terminal: the whole story, and nothing left of it afterwards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.controlplane.waiting import wait_until
from tools.demo.story import chapters
from tools.installation import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(1200)

#: Seconds that the whole of it may take on a loaded machine; it takes fifteen.
WHOLE_STORY = 600.0


def processes_of(folder: Path) -> list[str]:
    """The command lines that name a folder: each process of a control plane, and its operator, has its files in one."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        if str(folder) in command:
            found.append(command)
    return found


@contextmanager
def demo(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A demo that has nothing but this folder for its files."""
    with subprocess.Popen(
        [sys.executable, "-m", "tools.demo", "--plain"],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def assert_nothing_is_left(folder: Path) -> None:
    wait_until(lambda: processes_of(folder) == [], "the last process to be gone")
    assert list(folder.iterdir()) == []


def test_the_demo_plays_all_chapters_in_order_and_leaves_nothing(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        wait_until(lambda: processes_of(tmp_path), "the control plane to start", timeout=WHOLE_STORY)
        output, _ = process.communicate(timeout=WHOLE_STORY)
    assert process.returncode == 0, output
    assert re.findall(r"^ *\d+\.\ds  Chapter \d of \d: (.*)$", output, re.MULTILINE) == [
        chapter.title for chapter in chapters()
    ]
    assert len(re.findall(r"^ *\d+\.\ds    done in ", output, re.MULTILINE)) == len(chapters())
    assert "\x1b" not in output
    assert_nothing_is_left(tmp_path)


def test_a_demo_that_is_interrupted_leaves_nothing_either(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "Chapter 2" in line:
                break
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=WHOLE_STORY)
    assert process.returncode == 128 + signal.SIGINT, output
    assert "Traceback" not in output
    assert_nothing_is_left(tmp_path)
