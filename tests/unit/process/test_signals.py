"""Signals to a real process."""

import signal
import subprocess

import pytest

from tests.unit.support import line, python

SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)

PROGRAM = """
import asyncio, time
from flamectl_operator.process.signals import stop_on_signals

async def main():
    stop = asyncio.Event()
    stop_on_signals(stop)
    print("ready", flush=True)
    await stop.wait()
    print("asked", flush=True)
    {then}

asyncio.run(main())
"""


@SIGNALS
def test_first_signal_sets_the_event(number: signal.Signals) -> None:
    with python(PROGRAM.format(then="pass")) as running:
        assert line(running) == "ready"
        running.send_signal(number)
        assert line(running) == "asked"
        assert running.wait(120) == 0


#: Not one long sleep: Python does not notice a signal that comes right before the system call.
STUCK = "while True: time.sleep(0.1)"


@pytest.mark.parametrize("then", ["await asyncio.sleep(300)", STUCK], ids=["waiting", "stuck"])
@SIGNALS
def test_second_signal_ends_the_process(number: signal.Signals, then: str) -> None:
    with python(PROGRAM.format(then=then), stderr=subprocess.PIPE) as running:
        assert line(running) == "ready"
        running.send_signal(signal.SIGTERM)
        assert line(running) == "asked"
        running.send_signal(number)
        assert running.wait(120) == 128 + number
        assert running.stderr is not None
        assert running.stderr.read() == "flamectl-operator: received a second stop signal, exits now\n"
