"""`make demo` without a terminal: the whole story, and nothing left of it afterwards."""

import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tools.controlplane.binaries import ensure_binaries
from tools.controlplane.waiting import wait_until
from tools.demo.story import chapters
from tools.installation import ROOT

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
def demo(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A demo that has nothing but this folder for its files."""
    with subprocess.Popen(
        [sys.executable, "-m", "tools.demo", "--plain", *arguments],
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


def test_demo_plays_all_chapters_in_order_and_leaves_nothing(tmp_path: Path) -> None:
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


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose path is no longer than one of a user's, so that commands with it fit their lines."""
    with tempfile.TemporaryDirectory(prefix="d-", dir="/tmp") as folder:
        yield Path(folder)


def test_ctrl_c_on_a_kept_demo_ends_make_with_success_and_one_line(short_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        environment = os.environ | {"TMPDIR": str(short_path), "COLUMNS": "80", "LINES": "24", "TERM": "xterm"}
        os.execvpe("make", ["make", "--silent", "demo", "ARGS=--keep --plain --pace=0"], environment)
    output = ""
    try:
        with os.fdopen(terminal, "rb+", buffering=0) as screen, suppress(OSError):  # the last process has ended
            while chunk := screen.read(1024):
                staying = "/metrics" in output
                output += chunk.decode(errors="replace")
                if "/metrics" in output and not staying:
                    log, address = _shown(output)
                    assert "serving" in log.read_text(encoding="utf-8")
                    wait_until(partial(_readmes_log_row, output), "the README's command to show the log")
                    with urllib.request.urlopen(address, timeout=60) as answer:
                        assert b"workqueue_depth" in answer.read()
                    screen.write(b"\x03")
    except BaseException:
        # make ends what it has started.
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        raise
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, output
    (after,) = output.partition("^C")[2].strip().splitlines()
    assert after.endswith("Stopping everything; nothing of it stays")
    assert max(len(line) for line in output.splitlines()) <= 80
    assert_nothing_is_left(short_path)


def _readmes_log_row(output: str) -> bool:
    row = re.search(r"`kubectl (-n flamectl-system logs [^`]*)`", (ROOT / "README.md").read_text(encoding="utf-8"))
    kubeconfig = re.search(r"KUBECONFIG=(\S+)", output)
    assert row is not None
    assert kubeconfig is not None
    command = [str(ensure_binaries()["kubectl"]), f"--kubeconfig={kubeconfig[1]}", *row[1].split()]
    return "serving" in subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _shown(output: str) -> tuple[Path, str]:
    """The operator's log and the address of its metrics, by what the demo says."""
    log = re.search(r"tail -f (\S+)", output)
    address = re.search(r"curl -s (http://\S+/metrics)", output)
    assert log is not None
    assert address is not None
    return Path(log[1]), address[1]
