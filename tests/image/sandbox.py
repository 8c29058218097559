"""Runs a command as a container would: a root file system, a user, a network and processes of its own. Linux only.

No image is needed and no container engine: the programs and libraries below /usr are those of this machine, read-only, and so
is the Python that the base of an image stands for. It takes user namespaces, or to be root.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tools.controlplane.supervisor import bound_to_this_process

_INSIDE = Path(__file__).with_name("inside.py")

#: The directories of this machine that every container sees, so that its programs run. Links to one of them stay links.
_MACHINE = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/dev")


@dataclass(frozen=True)
class Mount:
    """A folder or file of this machine in a container.

    Args:
        source: Here.
        target: There, absolute.
        read_only: Whether it can't be written to.
    """

    source: Path
    target: str
    read_only: bool = True


@dataclass(frozen=True)
class Container:
    """A command and what it runs in.

    Args:
        root: Its root file system; `lay_out` has made it.
        command: Program and arguments.
        environment: All of it; `PATH` says where the program is looked for.
        directory: Where it starts.
        user: User and group id; None to be the one who may do everything in there.
        read_only: Whether the root file system can't be written to.
        mounts: More to see.
        addresses: IP addresses of a network of its own; none to use this machine's, or that of `network`.
        network: The process whose network it uses.
        hidden: Folders of this machine that it does not see, so that others can be mounted in their places or below.
        hostname: Its name for itself.
    """

    root: Path
    command: Sequence[str]
    environment: Mapping[str, str]
    directory: str = "/"
    user: tuple[int, int] | None = None
    read_only: bool = False
    mounts: Sequence[Mount] = field(default=())
    addresses: Sequence[str] = field(default=())
    network: int | None = None
    hidden: Sequence[str] = field(default=())
    hostname: str = "container"


def lay_out(root: Path) -> None:
    """Make an empty root file system: nothing but the places where this machine shows through."""
    root.mkdir(parents=True)
    root.chmod(0o755)
    for name in _MACHINE:
        here, there = Path(name), root / name.lstrip("/")
        if here.is_symlink():
            there.symlink_to(here.readlink())
        elif here.is_dir():
            there.mkdir()
    for name in ("proc", "tmp", "opt", "mnt"):
        (root / name).mkdir()
    (root / "tmp").chmod(0o1777)
    python().target_in(root).mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True)
class Python:
    """The Python that images are based on.

    Args:
        prefix: Where it is installed, on this machine and in containers.
    """

    prefix: Path

    @property
    def executable(self) -> Path:
        return self.prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"

    def target_in(self, root: Path) -> Path:
        return root / str(self.prefix).lstrip("/")


def python() -> Python:
    """The Python below the virtual environment that runs this."""
    return Python(Path(sys.base_prefix).resolve())


@cache
def why_not() -> str | None:
    """Why no container can be run on this machine; None if it can."""
    for program in ("unshare", "sh"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    probe = [*_namespaces(own_network=True), "sh", "-c", "mount --bind /usr /usr"]
    result = subprocess.run(probe, capture_output=True, text=True, check=False)
    return None if result.returncode == 0 else f"namespaces can't be made here: {result.stderr.strip()}"


def run(container: Container) -> str:
    """Run a container to its end.

    Returns:
        What it printed.

    Raises:
        RuntimeError: It failed; the text has what it printed.
    """
    with Running(container, subprocess.PIPE) as running:
        output, _ = running.process.communicate()
    text = output.decode(errors="replace")
    if running.process.returncode != 0:
        raise RuntimeError(f"{' '.join(container.command)} ended with {running.process.returncode}:\n{text[-6000:]}")
    return text


class Running:
    """A container that runs.

    Args:
        container: The command, and its directory and environment.
        output: Where what it prints goes.
    """

    def __init__(self, container: Container, output: IO[bytes] | int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            description = {
                "root": str(container.root),
                "command": list(container.command),
                "environment": dict(container.environment),
                "directory": container.directory,
                "user": container.user,
                "read_only": container.read_only,
                "mounts": [
                    {"source": str(each.source), "target": each.target, "read_only": each.read_only}
                    for each in (*_machine(container.hidden), *container.mounts)
                ],
                "addresses": list(container.addresses),
                "hostname": container.hostname,
                "orders": theirs.fileno(),
            }
            inside = [str(python().executable), "-I", str(_INSIDE), json.dumps(description)]
            self._orders = ours
            self.process = subprocess.Popen(
                bound_to_this_process(
                    [*_namespaces(own_network=bool(container.addresses), network=container.network), *inside]
                ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._orders.close()
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def signal(self, number: signal.Signals) -> None:
        """Send the command a signal."""
        self._orders.sendall(f"signal {int(number)}\n".encode("ascii"))

    def connect(self, address: str, port: int) -> socket.socket:
        """A connection within its network.

        Raises:
            OSError: Nobody listens there.
        """
        made = self._socket("connect")
        try:
            made.settimeout(60)
            made.connect((address, port))
        except OSError:
            made.close()
            raise
        return made

    def listen(self, address: str, port: int) -> socket.socket:
        """A socket that listens within its network."""
        return self._socket(f"listen {address} {port}")

    def _socket(self, request: str) -> socket.socket:
        self._orders.sendall(f"{request}\n".encode("ascii"))
        _, (number,), _, _ = socket.recv_fds(self._orders, 1, 1)
        return socket.socket(fileno=number)


def _machine(hidden: Sequence[str]) -> list[Mount]:
    shown = [Path(name) for name in _MACHINE if Path(name).is_dir() and not Path(name).is_symlink()]
    for folder in map(Path, hidden):
        # In place of each folder above it show the folders in there, which leaves room for the hidden one.
        for above in reversed(folder.parents[:-1]):
            shown.remove(above)
            shown += [each for each in above.iterdir() if each.is_dir()]
        if folder in shown:
            shown.remove(folder)
    prefix = python().prefix
    if not any(prefix.is_relative_to(each) for each in shown):
        shown.append(prefix)
    # Often a link to somewhere else.
    resolver = Path("/etc/resolv.conf").resolve()
    if resolver.exists() and not any(resolver.is_relative_to(each) for each in shown):
        shown.append(resolver)
    return [Mount(each, str(each)) for each in shown]


def _namespaces(*, own_network: bool, network: int | None = None) -> list[str]:
    joined = [] if network is None else ["nsenter", f"--net=/proc/{network}/ns/net", "--"]
    command = [*joined, "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--propagation=private"]
    if own_network:
        command.append("--net")
    if os.geteuid() != 0:
        command += ["--user", "--map-root-user"]
    return [*command, "--"]
