"""The leftovers of a node whose owner was killed: its state directory and its cgroup.

Everything else belongs to the node's namespaces and ends with them. The owner of a state directory holds a lock in it, which the
kernel releases when the owner dies, so the next run can tell the directories of dead nodes from those of living ones.
"""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.node import cgroups
from tools.node.files import NodeError

_LOCK = ".lock"


@contextmanager
def owned(root: Path) -> Iterator[None]:
    """Own a state directory while the context is entered."""
    with (root / _LOCK).open("w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NodeError(f"another node runs in {root}") from None
        yield


def remove(directory: Path, prefix: str) -> None:
    """Remove the state directories and the cgroups of nodes whose owners are dead."""
    living: set[str] = set()
    for root in directory.glob(f"{prefix}*"):
        # A node that starts has a directory before it has a lock.
        if (root / _LOCK).exists():
            try:
                with owned(root):
                    shutil.rmtree(root, ignore_errors=True)
            except NodeError:
                living.add(root.name)
    for name in cgroups.names(prefix) - living:
        cgroups.remove(name)
