"""The requirements of a node, and the ones that this machine lacks."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

#: The Debian package of each command.
PACKAGES = {
    "buildah": "buildah",
    "conntrack": "conntrack",
    "containerd": "containerd",
    "ctr": "containerd",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "iptables": "iptables",
    "nft": "nftables",
    "openssl": "openssl",
    "runc": "runc",
    "unshare": "util-linux",
}
_PLUGINS_PACKAGE = "containernetworking-plugins"
_PLUGINS = ("bridge", "host-local", "loopback", "portmap")
_PLUGIN_DIRECTORIES = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))

_FILESYSTEMS = Path("/proc/filesystems")
# A namespace of each kind that the node has, and the one kind of link that it makes.
_TRIAL = (
    "unshare",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--mount-proc",
    "ip",
    "link",
    "add",
    "trial0",
    "type",
    "veth",
)


def plugin_directory() -> Path | None:
    """Return the directory with the CNI plugins, None if there is none that has all of them."""
    return next((place for place in _PLUGIN_DIRECTORIES if all((place / name).is_file() for name in _PLUGINS)), None)


def missing_packages(which: Callable[[str], str | None] = shutil.which) -> list[str]:
    """Return the Debian packages that have to be installed, sorted."""
    missing = {package for command, package in PACKAGES.items() if which(command) is None}
    if plugin_directory() is None:
        missing.add(_PLUGINS_PACKAGE)
    return sorted(missing)


def why_not() -> str | None:
    """Return why this machine can't run a node, None if it can."""
    if sys.platform != "linux":
        return f"a node takes Linux, and this is {sys.platform}"
    if os.geteuid() != 0:
        return "a node takes root: containerd and the kubelet mount file systems and make cgroups"
    if missing := missing_packages():
        packages = " ".join(missing)
        return f"Debian packages are missing; install them with `make node-packages`, which runs: apt-get install {packages}"
    return _kernel_lacks()


def _kernel_lacks() -> str | None:
    if "overlay" not in _filesystems():
        # The kernel loads the module when somebody asks for it.
        subprocess.run(["modprobe", "overlay"], capture_output=True, check=False)
    if "overlay" not in _filesystems():
        return "the kernel has no overlayfs"
    trial = subprocess.run(_TRIAL, capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        return f"namespaces or veth links are not allowed here: {trial.stderr.strip()}"
    return None


def _filesystems() -> set[str]:
    return {line.split()[-1] for line in _FILESYSTEMS.read_text(encoding="ascii").splitlines() if line.strip()}
