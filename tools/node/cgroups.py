"""The cgroup that the node's Pods are below, in each hierarchy of the machine (cgroup v1) or in the only one (v2)."""

from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_V2_CONTROLLERS = "+cpu +cpuset +memory +pids"


def make(name: str) -> None:
    """Make the cgroup."""
    subtree = _ROOT / "cgroup.subtree_control"
    if subtree.exists():
        subtree.write_text(_V2_CONTROLLERS, encoding="ascii")
    for hierarchy in _hierarchies():
        (hierarchy / name).mkdir(exist_ok=True)
    with suppress(FileNotFoundError):
        (_ROOT / name / "cgroup.subtree_control").write_text(_V2_CONTROLLERS, encoding="ascii")


def remove(name: str) -> bool:
    """Remove the cgroup and all below it, as far as no process is in there, and return whether all of it is gone."""
    for hierarchy in _hierarchies():
        top = hierarchy / name
        # The deepest first: only an empty cgroup can be removed, and its files don't count.
        below = sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True)
        for directory in (*below, top):
            with suppress(OSError):
                directory.rmdir()
    return name not in names(name)


def names(prefix: str) -> set[str]:
    """Return the names of cgroups with a prefix at the top of any hierarchy."""
    return {path.name for hierarchy in _hierarchies() for path in hierarchy.glob(f"{prefix}*") if path.is_dir()}


def _hierarchies() -> list[Path]:
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return [path for path in _ROOT.iterdir() if (path / "cgroup.procs").exists() and not path.is_symlink()]
