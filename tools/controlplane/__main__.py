"""python -m tools.controlplane build | run [--state-dir D] -- COMMAND ... | up [--state-dir D]."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.controlplane.binaries import ensure_binaries
from tools.controlplane.command_line import call, exit_code
from tools.controlplane.controlplane import ControlPlane


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return exit_code(_parser().parse_args(arguments))


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
        return call(options.command, environment)


def _up(options: argparse.Namespace) -> int:
    with ControlPlane(options.state_dir, nodes=options.nodes) as plane:
        print(f"The control plane is up, until Ctrl-C.\n\n  export KUBECONFIG={plane.kubeconfig}\n", flush=True)
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
