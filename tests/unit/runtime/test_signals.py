"""Signals to a real process."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)

PROGRAM = """
import asyncio, time
from flamectl_operator.runtime.signals import stop_on_signals

async def main():
    stop = asyncio.Event()
    stop_on_signals(stop)
    print("ready", flush=True)
    await stop.wait()
    print("asked", flush=True)
    {then}

asyncio.run(main())
"""


@contextmanager
def process(then: str) -> Iterator[subprocess.Popen[str]]:
    """A process that does something when it is asked to stop."""
    command = [sys.executable, "-c", PROGRAM.format(then=then)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def line(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


@SIGNALS
def test_the_first_signal_asks(number: signal.Signals) -> None:
    with process(then="pass") as running:
        assert line(running) == "ready"
        running.send_signal(number)
        assert line(running) == "asked"
        assert running.wait(120) == 0


#: Not one long sleep: Python does not notice a signal that comes right before the system call.
STUCK = "while True: time.sleep(0.1)"


@pytest.mark.parametrize("then", ["await asyncio.sleep(300)", STUCK], ids=["waiting", "stuck"])
@SIGNALS
def test_the_second_signal_insists(number: signal.Signals, then: str) -> None:
    with process(then=then) as running:
        assert line(running) == "ready"
        running.send_signal(signal.SIGTERM)
        assert line(running) == "asked"
        running.send_signal(number)
        assert running.wait(120) == 128 + number
        assert running.stderr is not None
        assert running.stderr.read() == "flamectl-operator: asked to stop once more, ends at once\n"
