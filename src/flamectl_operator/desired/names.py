"""The names of a FlameCluster's children. The executors' ids are the one part that is not a function of its name."""

from __future__ import annotations

from flamectl_operator.api.constants import EXECUTOR_MANAGER, OBJECT_CACHE, SESSION_MANAGER

#: Most digits of an executor's id: with more, its name would not be a legal hostname. Somebody else's Pod may have such a name
#: all the same.
MAX_ID_DIGITS = 10
#: The last one.
MAX_ID = 10**MAX_ID_DIGITS - 1


def config_map(cluster: str) -> str:
    """The ConfigMap that holds flame-cluster.yaml."""
    return f"{cluster}-config"


def lock(cluster: str) -> str:
    """The Lease that lets one operator at a time delete the cluster's Pods."""
    return f"{cluster}-lock"


def session_manager(cluster: str) -> str:
    """The session manager's Pod, and the Service before it."""
    return f"{cluster}-{SESSION_MANAGER}"


def session_manager_trial(cluster: str) -> str:
    """A session manager's Pod of a dry run, for the name of the real one is taken. There never is one."""
    return f"{session_manager(cluster)}-trial"


def object_cache(cluster: str) -> str:
    """The Service of the object cache."""
    return f"{cluster}-{OBJECT_CACHE}"


def executor(cluster: str, executor_id: int) -> str:
    """The Pod of the executor manager with this id; also its hostname, which is a node's name in Flame."""
    return f"{cluster}-{EXECUTOR_MANAGER}-{executor_id}"


def executor_id(cluster: str, pod: str) -> int | None:
    """The id in an executor's Pod name, or None when this is not the name of an executor of that cluster."""
    suffix = pod.removeprefix(f"{cluster}-{EXECUTOR_MANAGER}-")
    if suffix == pod or not (suffix.isascii() and suffix.isdecimal() and len(suffix) <= MAX_ID_DIGITS):
        return None
    return int(suffix) if suffix == str(int(suffix)) else None
