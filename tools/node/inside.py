"""Makes fresh namespaces into the node's machine: links, addresses, mounts, kernel settings."""

import subprocess
from pathlib import Path

from tools.node.files import ADDRESS, CommandError, NodeFiles

# A kubelet sets these for the whole machine when it starts (setupKernelTunables in pkg/kubelet/cm). With the values that it
# wants in files of ours over them, the machine keeps its own.
_TUNABLES = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}


def furnish(files: NodeFiles) -> None:
    """Set up the namespaces that this process is in. They must be new: everything else would be changed by it."""
    _hide_files_of_the_machine(files)
    _hide_tunables(files)
    _connect()


def _hide_files_of_the_machine(files: NodeFiles) -> None:
    # Files in /run and /var (sockets, network namespaces, leases of addresses, links to logs) stay in here.
    _run("mount", "-t", "tmpfs", "tmpfs", "/run")
    for name in ("lock", "netns"):
        (Path("/run") / name).mkdir()
    upper, work = files.var / "upper", files.var / "work"
    for directory in (upper, work, files.kubelet, files.containerd, files.pod_logs):
        directory.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/var,upperdir={upper},workdir={work}", "/var")
    # Mounts that the kubelet makes for a Pod must appear in the container as well.
    _run("mount", "--bind", str(files.kubelet), str(files.kubelet))
    _run("mount", "--make-rshared", str(files.kubelet))


def _hide_tunables(files: NodeFiles) -> None:
    for name, value in _TUNABLES.items():
        setting = Path("/proc/sys") / name
        if setting.exists():
            file = files.tunables / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{value}\n", encoding="ascii")
            _run("mount", "--bind", str(file), str(setting))


def _connect() -> None:
    # A pair of links that leads nowhere carries the node's address, because not every kernel has `dummy`.
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", "node0", "type", "veth", "peer", "name", "node0-end")
    _run("ip", "link", "set", "node0-end", "up")
    _run("ip", "addr", "add", f"{ADDRESS}/24", "dev", "node0")
    _run("ip", "link", "set", "node0", "up")
    # Packets to addresses of Services need a route until kube-proxy rewrites them.
    _run("ip", "route", "add", "default", "dev", "node0")
    # Settings below net/ belong to the network namespace.
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")
    bridged = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if bridged.exists():
        bridged.write_text("1", encoding="ascii")


def _run(*command: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise CommandError(f"`{' '.join(command)}` failed: {result.stderr.strip()}")
