"""python -m tools.controlplane build | run [--state-dir D] -- COMMAND ... | up [--state-dir D]."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tools.controlplane.binaries import ensure_binaries
from tools.controlplane.controlplane import ControlPlane
from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.supervisor import bound_to_this_process

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

_FAILURE = 1
_SIGNALLED = 128  # what shells add to the number of the signal that ended a command


class _TerminatedError(BaseException):
    """TERM has come. Not an Exception, for the same reason as KeyboardInterrupt: nobody may take it for a failure."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Without the name of the program; by default those of this process.

    Returns:
        The exit code.
    """
    options = _parser().parse_args(arguments)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.controlplane", description="A local control plane.")
    commands = parser.add_subparsers(required=True, metavar="build | run | up")

    build = commands.add_parser("build", help="make the binaries available, and print where they are")
    build.set_defaults(run=_build)

    run = commands.add_parser("run", help="start, run a command with KUBECONFIG set, stop")
    _add_plane_options(run)
    run.add_argument("command", nargs="+", metavar="COMMAND", help="after `--`: the command and its arguments")
    run.set_defaults(run=_run)

    up = commands.add_parser("up", help="start, and stay until Ctrl-C")
    _add_plane_options(up)
    up.set_defaults(run=_up)
    return parser


def _add_plane_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state-dir", type=Path, help="where logs and data go (default: a temporary directory)")
    parser.add_argument("--nodes", type=int, default=20, help="how many Nodes it has (default: %(default)s)")


def _build(_: argparse.Namespace) -> int:
    for name, path in ensure_binaries().items():
        print(f"{name}\t{path}")
    return 0


def _run(options: argparse.Namespace) -> int:
    with ControlPlane(options.state_dir, nodes=options.nodes) as plane:
        environment = os.environ | {
            "FLAMECTL_CONTROL_PLANE": str(plane.state_dir),
            "KUBECONFIG": str(plane.kubeconfig),
        }
        return _call(options.command, environment)


def _up(options: argparse.Namespace) -> int:
    with ControlPlane(options.state_dir, nodes=options.nodes) as plane:
        print(f"The control plane is up, until Ctrl-C.\n\n  export KUBECONFIG={plane.kubeconfig}\n", flush=True)
        signal.pause()
    return 0


def _call(command: Sequence[str], environment: dict[str, str]) -> int:
    """Run a command to its end and return its exit code, as a shell would give it."""
    # It must not outlive the control plane that it was given.
    with subprocess.Popen(bound_to_this_process(command, signal.SIGTERM), env=environment) as process:
        try:
            code = _wait_through_interrupts(process)
        finally:
            if process.poll() is None:
                process.kill()
    return code if code >= 0 else _SIGNALLED - code


def _wait_through_interrupts(process: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # The terminal has sent Ctrl-C to the command as well, and it decides what that means.
            continue
        except _TerminatedError:
            # This came to us only.
            process.terminate()


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _TerminatedError


if __name__ == "__main__":
    sys.exit(main())
