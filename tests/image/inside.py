"""Becomes a container: the first process in namespaces of its own, which makes its file system, and then starts the command.

    unshare ... python -I inside.py DESCRIPTION

DESCRIPTION is JSON, see `Description` in sandbox.py. A file of its own that needs nothing but the standard library: it is run
by whatever Python makes the image's base.
"""

import array
import ctypes
import fcntl
import json
import os
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 0x1000, 0x4000, 0x40000, 0x2  # linux/mount.h
SYS_MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 0x1
CLONE_NEWUSER = 0x10000000
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 38, 24  # linux/prctl.h
LAST_CAPABILITY = 63
SIOCSIFADDR, SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8916, 0x8913, 0x8914, 0x1  # linux/sockios.h

_libc = ctypes.CDLL(None, use_errno=True)


def main(description: dict[str, Any]) -> NoReturn:
    """Make the container, run its command and end as it ends."""
    root = Path(description["root"])
    _checked("make mounts private", _libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    _bind(root, root)
    for mount in description["mounts"]:
        target = root / mount["target"].lstrip("/")
        _bind(Path(mount["source"]), target)
        if mount["read_only"]:
            _make_read_only(target, AT_RECURSIVE)
    if description["read_only"]:
        # Alone: what can be written of what is mounted below stays so.
        _make_read_only(root, 0)
    # After that: its entries are written to by whoever they are about. In a nested container it can't be mounted anew.
    if _libc.mount(b"proc", os.fsencode(root / "proc"), b"proc", 0, None) != 0:
        _bind(Path("/proc"), root / "proc")
    _checked(
        "mount /dev/shm", _libc.mount(b"shm", os.fsencode(root / "dev" / "shm"), b"tmpfs", 0, b"size=64m,mode=1777")
    )
    if description["addresses"]:
        _set_up_network(description["addresses"])
    socket.sethostname(description["hostname"])
    _enter(root)
    os.chdir(description["directory"])

    child = os.fork()
    if child == 0:
        _become(description)
    orders = socket.socket(fileno=description["orders"])
    threading.Thread(target=_obey, args=(orders, child), daemon=True).start()
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) % 256)


def _become(description: dict[str, Any]) -> NoReturn:
    """Become the command, as its user."""
    os.close(description["orders"])
    if description["user"] is not None:
        _drop_to(*description["user"])
    command: list[str] = description["command"]
    os.environ["PATH"] = description["environment"]["PATH"]  # that is where execvpe looks
    try:
        os.execvpe(command[0], command, description["environment"])
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(127)


def _drop_to(user: int, group: int) -> None:
    """Have no rights but those of a user: no capabilities, and no way to get any."""
    _checked("set no_new_privs", _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if Path("/proc/self/uid_map").read_text(encoding="ascii").split()[1:] == ["0", "4294967295"]:
        for capability in range(LAST_CAPABILITY + 1):
            _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # EINVAL for those that this kernel does not have
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
    else:
        # Without privileges there is one user only, who can be given the number. What that user owns cannot be told apart.
        _checked("make a user namespace", _libc.unshare(CLONE_NEWUSER))
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} 0 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} 0 1", encoding="ascii")


def _bind(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    done = _libc.mount(os.fsencode(source), os.fsencode(target), None, MS_BIND | MS_REC, None)
    _checked(f"mount {source} at {target}", done)


def _make_read_only(target: Path, flags: int) -> None:
    attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
    done = _libc.syscall(
        SYS_MOUNT_SETATTR, AT_FDCWD, os.fsencode(target), flags, attributes, ctypes.c_size_t(len(attributes))
    )
    _checked(f"make {target} read-only", done)


def _enter(root: Path) -> None:
    """Make a file system the root, and let go of the one before. Not by chroot: who did that may make no user namespaces."""
    os.chdir(root)
    _checked("change the root", _libc.pivot_root(b".", b"."))
    _checked("let go of the old root", _libc.umount2(b".", MNT_DETACH))


def _set_up_network(addresses: list[str]) -> None:
    """Switch the loopback interface on and give it more addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for number, address in enumerate(["127.0.0.1", *addresses]):
            name = f"lo:{number}".encode() if number else b"lo"
            wanted = struct.pack("16sHH4s8x", name, socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(control, SIOCSIFADDR, wanted)
            request = array.array("B", struct.pack("16sH14x", name, 0))
            fcntl.ioctl(control, SIOCGIFFLAGS, request)
            (flags,) = struct.unpack_from("H", request, 16)
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", name, flags | IFF_UP))


def _obey(orders: socket.socket, child: int) -> None:
    """Do what is ordered, a line each.

    `signal NUMBER` sends the command a signal. `connect` and `listen ADDRESS PORT` make a socket and hand it over: it belongs
    to this network, whoever uses it.
    """
    for line in orders.makefile(encoding="ascii"):
        what, *rest = line.split()
        if what == "signal":
            os.kill(child, int(rest[0]))
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
            if what == "listen":
                made.bind((rest[0], int(rest[1])))
                made.listen()
            socket.send_fds(orders, [b"."], [made.fileno()])


def _checked(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot {what}: {os.strerror(number)}")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
