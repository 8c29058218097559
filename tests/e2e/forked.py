"""Operators that are forked from a process that has imported everything already.

An operator takes a second of CPU for its imports, and the end-to-end tests start hundreds of operators. So each process of
tests has a *parent of operators*. The parent imports the command line once and forks. A forked operator begins at the entry
point, like one that was started by its command line, with an environment, a session and a log of its own.
"""

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Any

from flamectl_operator import entry
from tools.controlplane.launch import PR_SET_PDEATHSIG
from tools.controlplane.supervisor import bound_to_this_process
from tools.installation import OperatorProcess

#: The most bytes of an order: a command line and an environment.
_LARGEST = 1 << 20


class ForkedProcess:
    """A forked process, to the extent of `subprocess.Popen` that tests use.

    Args:
        answers: The parent's end of this process: its pid, and later its exit code, each as a line.
    """

    def __init__(self, answers: socket.socket) -> None:
        self._answers = answers.makefile("r")
        answers.close()
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""
        if self.returncode is None and select.select([self._answers], [], [], 0)[0]:
            self.returncode = int(self._answers.readline() or -signal.SIGKILL)
            self._answers.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process.

        Returns:
            The exit code.

        Raises:
            subprocess.TimeoutExpired: It did not end in so many seconds.
        """
        if self.returncode is None:
            select.select([self._answers], [], [], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("operator", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask the process to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process."""
        self.send_signal(signal.SIGKILL)


class _Parent:
    """The parent of operators of this process, seen from here."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            bound_to_this_process(command), pass_fds=[theirs.fileno()], env=environment, start_new_session=True
        )
        theirs.close()
        self._orders = ours
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
        atexit.register(self._end)

    def fork(self, arguments: Sequence[str], log: IO[bytes]) -> ForkedProcess:
        """Fork an operator.

        Args:
            arguments: Its command line, without the interpreter.
            log: Where its output goes.
        """
        ours, theirs = socket.socketpair()
        order = json.dumps({"arguments": arguments, "environment": dict(os.environ)}).encode()
        socket.send_fds(self._orders, [order], [log.fileno(), theirs.fileno()])
        theirs.close()
        return ForkedProcess(ours)

    def _end(self) -> None:
        self._orders.close()
        self._process.wait()


@functools.cache
def _parent() -> _Parent:
    return _Parent()


class ForkedOperator(OperatorProcess):
    """An operator that takes no time for its imports."""

    def _begin(self, log: IO[bytes]) -> Any:
        return _parent().fork(self._arguments, log)


# --- The parent's side


def _serve(orders: socket.socket) -> list[str]:
    """Fork until there are no more orders.

    Returns:
        The command line of the process that this one has become.
    """
    running: dict[int, socket.socket] = {}  # by pidfd
    while True:
        readable, _, _ = select.select([orders.fileno(), *running], [], [])
        for pidfd in readable:
            if pidfd == orders.fileno():
                continue
            ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
            assert ended is not None
            code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            with contextlib.suppress(OSError), running.pop(pidfd) as answers:
                answers.sendall(f"{code}\n".encode())
            os.close(pidfd)
        if orders.fileno() not in readable:
            continue
        order, descriptors, _, _ = socket.recv_fds(orders, _LARGEST, 2)
        if not order:
            os._exit(0)  # and the kernel ends what is left
        log, answers = descriptors[0], socket.socket(fileno=descriptors[1])
        pid = os.fork()
        if not pid:
            # The numbers of these descriptors will belong to others, so nothing may close them any more.
            for each in (orders, answers, *running.values()):
                each.detach()
            return _become(json.loads(order), log)
        os.close(log)
        answers.sendall(f"{pid}\n".encode())
        running[os.pidfd_open(pid)] = answers


def _become(order: dict[str, Any], log: int) -> list[str]:
    """Make a forked process like one that was just started."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, target in enumerate((nothing, log, log)):
        os.dup2(target, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(order["environment"])
    arguments: list[str] = order["arguments"]
    return arguments


def _main() -> None:
    entry.import_lazily()
    importlib.import_module("flamectl_operator.process.cli")
    gc.freeze()  # so that a garbage collection in a fork copies no pages
    sys.argv = ["flamectl-operator", *_serve(socket.socket(fileno=int(sys.argv[1])))]
    entry.main()


if __name__ == "__main__":
    _main()
