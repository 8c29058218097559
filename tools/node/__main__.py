"""python -m tools.node check | build | run [--state-dir D] -- COMMAND ... | up [--state-dir D].

The order of things: what the machine lacks is said; binaries and images are built, with the machine's own network; then come
namespaces of the node's own, and in there its components and the command.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.controlplane.binaries import ensure_binaries as ensure_plane_binaries
from tools.controlplane.command_line import call, exit_code
from tools.controlplane.errors import WaitTimeoutError
from tools.controlplane.progress import STDERR
from tools.controlplane.waiting import wait_until
from tools.helm import ensure_helm
from tools.node import cgroups, leftovers
from tools.node.binaries import ensure_binaries
from tools.node.files import NodeFiles
from tools.node.images import ensure_images
from tools.node.inside import furnish
from tools.node.machine import missing_packages, why_not
from tools.node.node import RealNode

_FAILURE = 1
_INIT = Path(__file__).with_name("init.py")
_PREFIX = "flamectl-node-"
# Seconds until every process of the node has ended, once the first one has.
_DYING = 20.0
#: Names the state directory to whatever runs in the namespaces.
VARIABLE = "FLAMECTL_NODE"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return exit_code(_parser().parse_args(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.node", description="A real Kubernetes node.")
    commands = parser.add_subparsers(required=True, metavar="check | packages | build | run | up")

    check = commands.add_parser("check", help="say whether this machine can run a node, and if not why")
    check.set_defaults(run=_check)
    packages = commands.add_parser("packages", help="print the Debian packages that are missing")
    packages.add_argument("--install", action="store_true", help="install them, where this is Debian and we are root")
    packages.set_defaults(run=_packages)
    build = commands.add_parser("build", help="make binaries and images available")
    build.set_defaults(run=_build)

    run = commands.add_parser("run", help="start a node, run a command beside it, end everything")
    run.add_argument("--state-dir", type=Path, help="where logs and data go (default: a temporary directory)")
    run.add_argument("--or-skip", action="store_true", help="succeed where this machine can't run a node, and say why")
    run.add_argument("command", nargs="+", metavar="COMMAND", help="after `--`: the command and its arguments")
    run.set_defaults(run=_run)

    up = commands.add_parser("up", help="start a node, and a shell beside it; the node ends with the shell")
    up.add_argument("--state-dir", type=Path, help="where logs and data go (default: a temporary directory)")
    up.set_defaults(run=_run, or_skip=False, command=[os.environ.get("SHELL", "/bin/sh")])

    inside = commands.add_parser("inside")
    inside.add_argument("state_dir", type=Path)
    inside.add_argument("command", nargs="+")
    inside.set_defaults(run=_inside)
    return parser


def _check(_: argparse.Namespace) -> int:
    reason = why_not()
    print(reason or "this machine can run a node")
    return 0 if reason is None else _FAILURE


def _packages(options: argparse.Namespace) -> int:
    missing = missing_packages()
    if not missing:
        STDERR("no Debian package is missing")
    elif not options.install:
        print(" ".join(missing))
    elif shutil.which("apt-get") is None or os.geteuid() != 0:
        STDERR(f"not installed, which takes apt-get and root: {' '.join(missing)}")
    else:
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "--yes", "--no-install-recommends", *missing]
        for command in (["apt-get", "update"], install):
            if code := subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode:
                return code
        STDERR(f"installed {' '.join(missing)}")
    return 0


def _build(_: argparse.Namespace) -> int:
    _binaries()
    for archive in ensure_images(STDERR).all():
        print(archive)
    return 0


def _binaries() -> dict[str, Path]:
    # A scenario installs with it, and where the scenario runs there is no network to build it with.
    ensure_helm()
    return ensure_plane_binaries() | ensure_binaries(STDERR)


def _run(options: argparse.Namespace) -> int:
    reason = why_not()
    if reason is not None:
        STDERR(f"not run: {reason}")
        return 0 if options.or_skip else _FAILURE
    binaries, images = _binaries(), ensure_images(STDERR)
    with _state_directory(options.state_dir) as files:
        inputs = {
            "binaries": {name: str(path) for name, path in binaries.items()},
            "images": [str(p) for p in images.all()],
        }
        (files.root / "inputs.json").write_text(json.dumps(inputs), encoding="utf-8")
        namespaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
        init = [sys.executable, "-I", "-S", str(_INIT)]
        inside = [sys.executable, "-m", "tools.node", "inside", str(files.root), "--", *options.command]
        # The kernel ends the node when the first process of its namespace dies, and TERM would be a request to that process.
        return call([*namespaces, *init, *inside], ending=signal.SIGKILL)


@contextmanager
def _state_directory(wanted: Path | None) -> Iterator[NodeFiles]:
    """Make the state directory and the cgroup of its name, and remove what the node leaves of both."""
    root = Path(tempfile.mkdtemp(prefix=_PREFIX)) if wanted is None else wanted.absolute()
    root.mkdir(parents=True, exist_ok=True)
    files = NodeFiles(root)
    leftovers.remove(Path(tempfile.gettempdir()), _PREFIX)
    with leftovers.owned(root):
        cgroups.make(files.cgroup)
        try:
            yield files
        finally:
            # Processes that the kernel has killed leave their cgroup a moment later.
            with suppress(WaitTimeoutError):
                wait_until(lambda: cgroups.remove(files.cgroup), "the cgroup to be empty", timeout=_DYING)
            for directory in (files.containerd, files.var, files.kubelet):
                shutil.rmtree(directory, ignore_errors=True)
            if wanted is None:
                shutil.rmtree(root, ignore_errors=True)


def _inside(options: argparse.Namespace) -> int:
    files = NodeFiles(options.state_dir)
    inputs = json.loads((files.root / "inputs.json").read_text(encoding="utf-8"))
    begin = time.monotonic()
    furnish(files)
    binaries = {name: Path(path) for name, path in inputs["binaries"].items()}
    with RealNode(files, binaries) as node:
        node.import_images(Path(path) for path in inputs["images"])
        node.start_kubelet()
        STDERR(
            f"the node is ready after {time.monotonic() - begin:.0f} s; logs are in {node.log_file('kubelet').parent}"
        )
        environment = os.environ | {VARIABLE: str(files.root), "KUBECONFIG": str(node.kubeconfig)}
        return call(options.command, environment)


if __name__ == "__main__":
    sys.exit(main())
