"""Ctrl-C on a terminal reaches the demo and not the `make` that started it."""

import os
import pty
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CTRL_C, CTRL_Z = b"\x03", b"\x1a"

DEMO = """
import signal, sys
from tools.demo.__main__ import foreground
with foreground():
    try:
        print("up", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        print("ended", flush=True)
"""
MAKE = """
import os, subprocess, sys
before = os.tcgetpgrp(0)
code = subprocess.run([sys.executable, "-c", sys.argv[1]]).returncode
print("code", code, "terminal is back", os.tcgetpgrp(0) == before, flush=True)
"""


def typed(keys: list[bytes]) -> str:
    """Return the output of a terminal where a parent like make runs a demo and these keys are typed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-c", MAKE, DEMO])
    output = b""
    try:
        while b"up" not in output:
            output += os.read(terminal, 1024)
        for key in keys:
            os.write(terminal, key)
        while chunk := os.read(terminal, 1024):
            output += chunk
    except OSError:
        pass  # Linux says so when the last process of a terminal has ended.
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    return output.decode()


def test_ctrl_c_after_ctrl_z_ends_the_demo_and_its_parent_continues() -> None:
    output = typed([CTRL_Z, CTRL_C])
    assert "ended" in output
    assert "code 0 terminal is back True" in output
    assert "Traceback" not in output
