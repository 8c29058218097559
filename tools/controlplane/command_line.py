"""Exit codes and signals of the tools that run a command beside what they started, and end that in any case."""

import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import NoReturn

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.supervisor import bound_to_this_process

_FAILURE = 1
_SIGNALLED = 128  # what shells add to the number of the signal that ended a command


class _TerminatedError(BaseException):
    """TERM has come. Not an Exception, for the same reason as KeyboardInterrupt: nobody may take it for a failure."""


def exit_code(options: Namespace) -> int:
    """Run what the options say and return the exit code of the process; everything that was started ends before."""
    # A supervisor of ours (make, CI) ends us by TERM: take the same way out as after Ctrl-C.
    signal.signal(signal.SIGTERM, _terminate)
    # A shell starts what it puts into the background with INT ignored, and Python leaves it at that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return int(options.run(options))
    except ControlPlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return _FAILURE
    except KeyboardInterrupt:
        return _SIGNALLED + signal.SIGINT
    except _TerminatedError:
        return _SIGNALLED + signal.SIGTERM


def call(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, ending: signal.Signals = signal.SIGTERM
) -> int:
    """Run a command to its end and return its exit code, as a shell would give it.

    Args:
        command: Program and arguments; it must not outlive this process, whose state it uses.
        ending: The signal that it gets when this process gets TERM or dies.
    """
    with subprocess.Popen(bound_to_this_process(command, ending), env=environment) as process:
        try:
            code = _wait_through_interrupts(process, ending)
        finally:
            if process.poll() is None:
                process.kill()
    return code if code >= 0 else _SIGNALLED - code


def _wait_through_interrupts(process: subprocess.Popen[bytes], ending: signal.Signals) -> int:
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # The terminal has sent Ctrl-C to the command as well, and the command decides what that means.
            continue
        except _TerminatedError:
            # This came to us only.
            process.send_signal(ending)


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _TerminatedError
