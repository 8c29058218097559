"""The names of a FlameCluster's children, which depend only on its name and, for executors, on their ids."""

from flamectl_operator.api.constants import EXECUTOR_MANAGER, OBJECT_CACHE, SESSION_MANAGER

#: The most digits of an executor's id, because with more the name would not be a valid hostname. A foreign Pod may still have
#: such a name.
MAX_ID_DIGITS = 10
#: The highest id.
MAX_ID: int = 10**MAX_ID_DIGITS - 1


def config_map(cluster: str) -> str:
    """Return the name of the ConfigMap with flame-cluster.yaml."""
    return f"{cluster}-config"


def client_config(cluster: str) -> str:
    """Return the name of the ConfigMap that clients mount."""
    return f"{cluster}-client"


def network_policy(cluster: str) -> str:
    """Return the name of the NetworkPolicy."""
    return f"{cluster}-network-policy"


def lock(cluster: str) -> str:
    """Return the name of the Lease of the deletion lock."""
    return f"{cluster}-lock"


def session_manager(cluster: str) -> str:
    """Return the name of the session manager's Pod and of its Service."""
    return f"{cluster}-{SESSION_MANAGER}"


def object_cache(cluster: str) -> str:
    """Return the name of the object cache's Service."""
    return f"{cluster}-{OBJECT_CACHE}"


def object_cache_replica(cluster: str, ordinal: int) -> str:
    """Return the name of the Pod of the object cache with this ordinal."""
    return f"{object_cache(cluster)}-{ordinal}"


def object_cache_ordinal(cluster: str, pod: str) -> int | None:
    """Return the ordinal in the name of an object cache's Pod, or None when no object cache of that cluster has this name."""
    return _number(f"{object_cache(cluster)}-", pod)


def executor(cluster: str, executor_id: int) -> str:
    """Return the name of the executor Pod with this id; it is also the hostname and the name of the node in Flame."""
    return f"{cluster}-{EXECUTOR_MANAGER}-{executor_id}"


def executor_id(cluster: str, pod: str) -> int | None:
    """Return the id in the name of an executor Pod, or None when the name is not that of an executor of the cluster."""
    return _number(f"{cluster}-{EXECUTOR_MANAGER}-", pod)


def _number(prefix: str, pod: str) -> int | None:
    suffix = pod.removeprefix(prefix)
    if suffix == pod or not (suffix.isascii() and suffix.isdecimal() and len(suffix) <= MAX_ID_DIGITS):
        return None
    return int(suffix) if suffix == str(int(suffix)) else None
