"""The metrics of a FlameCluster, read from the stored resource.

Readiness is read from the status that the operator wrote at the end of its last pass; nothing is computed here. Because users may
write the status as well, a value of the wrong type counts as missing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from flamectl_operator.api.status import ConditionType, State
from flamectl_operator.desired.unvalidated import as_object, entries
from flamectl_operator.observed.flame_cluster import FlameClusterView, SpecSummary

#: The state of a FlameCluster without a status.
UNKNOWN = "Unknown"
STATES: tuple[str, ...] = (*State, UNKNOWN)
#: Conditions that most FlameClusters do not have; each gets a series only while it is true. Degraded needs a person to act, while
#: Suspended and Paused explain why a FlameCluster that is not ready needs no action.
EXCEPTIONS: tuple[str, ...] = (ConditionType.DEGRADED, ConditionType.SUSPENDED, ConditionType.PAUSED)

#: Reasons of `SessionManagerReachable` for a session manager that nobody asks, because of its TLS.
NOT_ASKED = frozenset({"TLSNotSupported", "AuthorityUnknown"})
#: Fields of `status.sessions` that are shown only while `open` is known, by their metric.
_WORK = {
    "tasks_pending": "pendingTasks",
    "tasks_running": "runningTasks",
    "tasks_failed": "failedTasks",
    "sessions_paused": "paused",
}


class Numbers(NamedTuple):
    """The values of the metrics of a FlameCluster, each named as its metric without `flamectl_`; None where it has no series."""

    executors_desired: int
    executors_ready: int
    object_caches_desired: int | None = None
    object_caches_ready: int | None = None
    executors_registered: int | None = None
    executors_draining: int | None = None
    sessions_open: int | None = None
    tasks_pending: int | None = None
    tasks_running: int | None = None
    tasks_failed: int | None = None
    sessions_paused: int | None = None
    session_manager_reachable: bool | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A FlameCluster as metrics show it: its state, one of `STATES`, and the types of the conditions that are true."""

    namespace: str
    name: str
    state: str
    numbers: Numbers
    conditions: frozenset[str]


class ClusterSamples:
    """Counts FlameClusters at each scrape. Reads each version once, because decoding thousands of statuses takes long."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], Entry] = {}  # by the version of a FlameCluster

    def sample(self, clusters: Iterable[FlameClusterView]) -> list[Entry]:
        """Return an entry for each FlameCluster, and forget the others."""
        known: dict[tuple[str, ...], Entry] = {}
        for cluster in clusters:
            meta = cluster.metadata
            version = (meta.namespace, meta.name, meta.uid, meta.resource_version)
            known[version] = self._known.get(version) or sample(cluster)
        self._known = known
        return list(known.values())


def sample(cluster: FlameClusterView) -> Entry:
    """Read a FlameCluster; never raises."""
    spec, status = cluster.spec_summary, cluster.status
    state = status.get("state")
    conditions = entries(status, "conditions")
    suspended = spec.suspend or _count(status.get("idle"), "suspendedGeneration") == cluster.metadata.generation
    executors, caches, sessions = status.get("executorManager"), spec.object_cache, status.get("sessions")
    open_sessions = _count(sessions, "open")
    numbers = Numbers(
        # The API server fills in the default of `replicas`.
        executors_desired=0 if suspended else _desired(spec, executors),
        executors_ready=_number(executors, "ready"),
        object_caches_desired=None if caches.image is None else 0 if suspended else caches.replicas,
        object_caches_ready=None if caches.image is None else _number(status.get("objectCache"), "ready"),
        executors_registered=_count(executors, "registered"),
        executors_draining=_count(executors, "draining") or None,
        sessions_open=open_sessions,
        **{name: None if open_sessions is None else _number(sessions, field) for name, field in _WORK.items()},
        session_manager_reachable=_reachable(conditions),
    )
    return Entry(
        cluster.namespace,
        cluster.name,
        state if state in STATES else UNKNOWN,
        numbers,
        frozenset(str(each.get("type")) for each in conditions if each.get("status") == "True"),
    )


def _desired(spec: SpecSummary, executors: Any) -> int:
    """Return the number of wanted executors, which the status has where it follows the demand."""
    if not bytes(spec.executor_manager.autoscaling):
        return spec.executor_manager.replicas
    return _number(as_object(executors).get("autoscaling"), "desired")


def _reachable(conditions: Sequence[dict[str, Any]]) -> bool | None:
    known = {"True": True, "False": False}
    found = [each for each in conditions if each.get("type") == ConditionType.SESSION_MANAGER_REACHABLE]
    # A session manager that no operator can ask by its spec is not one that does not answer.
    return known.get(str(found[0].get("status"))) if found and found[0].get("reason") not in NOT_ASKED else None


def _number(section: Any, field: str) -> int:
    return _count(section, field) or 0


def _count(section: Any, field: str) -> int | None:
    value = as_object(section).get(field)
    return value if isinstance(value, int) else None
