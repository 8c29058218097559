"""A network of Pods on this machine: a namespace with a bridge, and one namespace for each Pod with an interface `eth0` on it."""

import os
import shutil
import subprocess
from contextlib import ExitStack
from functools import cache
from types import TracebackType
from typing import Self

from tests.image import sandbox
from tools.controlplane.supervisor import bound_to_this_process

_BRIDGE = "bridge0"


class Network:
    """Namespaces that exist until the `with` statement ends; nothing of them shows in the network of this machine."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._links = 0

    def __enter__(self) -> Self:
        """Make the bridge."""
        with ExitStack() as stack:
            self._stack = stack
            self._switch = self._namespace()
            _in(self._switch, "ip", "link", "add", _BRIDGE, "type", "bridge")
            _in(self._switch, "ip", "link", "set", _BRIDGE, "up")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the processes that hold the namespaces; the kernel removes everything else."""
        self._stack.close()

    def attach(self, address: str) -> int:
        """Make the namespace of a Pod.

        Args:
            address: The Pod's IP address.

        Returns:
            A process in that namespace.
        """
        pod, end = self._namespace(), f"link{self._links}"
        self._links += 1
        # The same for each Pod of an address, because neighbours remember it.
        hardware = "02:00:" + ":".join(f"{int(part):02x}" for part in address.split("."))
        peer = ["peer", "name", "eth0", "address", hardware, "netns", str(pod)]
        _in(self._switch, "ip", "link", "add", end, "type", "veth", *peer)
        _in(self._switch, "ip", "link", "set", end, "master", _BRIDGE, "up")
        _in(pod, "ip", "addr", "add", f"{address}/24", "dev", "eth0")
        for interface in ("lo", "eth0"):
            _in(pod, "ip", "link", "set", interface, "up")
        return pod

    def detach(self, pod: int) -> None:
        """Remove the namespace of a Pod whose processes have ended.

        Args:
            pod: What `attach` returned.
        """
        # By hand, because the kernel removes a namespace some time after its last process has ended.
        _in(pod, "ip", "link", "del", "eth0")

    def _namespace(self) -> int:
        """Return a process in a new network namespace."""
        holder = ["unshare", "--net", "sh", "-c", "echo made; exec sleep infinity"]
        process = subprocess.Popen(bound_to_this_process(holder), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        assert process.stdout is not None
        self._stack.callback(process.stdout.close)
        assert process.stdout.readline() == b"made\n", "the namespace was not made"
        return process.pid


@cache
def why_not() -> str | None:
    """Why no network of Pods can be made on this machine; None if it can."""
    if os.geteuid() != 0:
        return "network namespaces take root"
    missing = [program for program in ("ip", "nsenter", "unshare") if shutil.which(program) is None]
    if missing:
        return f"there is no {' and no '.join(missing)}"
    if (reason := sandbox.why_not()) is not None:
        return reason
    try:
        with Network() as network:
            network.attach("10.0.0.2")
    except (AssertionError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"") or str(error).encode()
        return f"no network of namespaces can be made here: {said.decode(errors='replace').strip()}"
    return None


def _in(process: int, *command: str) -> None:
    inside = ["nsenter", f"--net=/proc/{process}/ns/net", "--", *command]
    subprocess.run(inside, check=True, capture_output=True, stdin=subprocess.DEVNULL)
