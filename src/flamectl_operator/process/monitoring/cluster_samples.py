"""The metrics of a FlameCluster, read from the stored resource.

Readiness is read from the status that the operator wrote at the end of its last pass; nothing is computed here. Because users may
write the status as well, a value of the wrong type counts as missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flamectl_operator.api.status import ConditionType, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flamectl_operator.observed.flame_cluster import FlameClusterView, SpecSummary

#: The state of a FlameCluster without a status.
UNKNOWN = "Unknown"
STATES: tuple[str, ...] = (*State, UNKNOWN)
#: Conditions that most FlameClusters do not have; each gets a series only while it is true. Degraded needs a person to act, while
#: Suspended and Paused explain why a FlameCluster that is not ready needs no action.
EXCEPTIONS: tuple[str, ...] = (ConditionType.DEGRADED, ConditionType.SUSPENDED, ConditionType.PAUSED)

#: Reasons of `SessionManagerReachable` for a session manager that nobody asks, because of its TLS.
NOT_ASKED = frozenset({"TLSNotSupported", "AuthorityUnknown"})


@dataclass(frozen=True, slots=True)
class Entry:
    """A FlameCluster as metrics show it.

    Args:
        state: One of `STATES`.
        desired: The number of wanted executors.
        caches_desired: Object caches that there should be; None when the operator runs none.
        caches_ready: Object caches that are ready.
        registered: Executors that are registered with Flame; None when that is unknown.
        reachable: Whether the session manager answers the operator; None when that is unknown.
        sessions: Open sessions; None when that is unknown.
        pending: Tasks of open sessions that wait.
        running: Tasks of open sessions that run.
        failed: Tasks of open sessions that failed.
        paused: Open sessions that get no more executors.
    """

    namespace: str
    name: str
    state: str
    desired: int
    ready: int
    conditions: frozenset[str]
    caches_desired: int | None = None
    caches_ready: int = 0
    registered: int | None = None
    draining: int = 0
    reachable: bool | None = None
    sessions: int | None = None
    pending: int = 0
    running: int = 0
    failed: int = 0
    paused: int = 0


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
    entries = status.get("conditions")
    conditions = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    suspended = spec.suspend or _count(status.get("idle"), "suspendedGeneration") == cluster.metadata.generation
    return Entry(
        namespace=cluster.namespace,
        name=cluster.name,
        state=state if state in STATES else UNKNOWN,
        # The API server fills in the default of `replicas`.
        desired=0 if suspended else _desired(spec, status),
        ready=_number(status.get("executorManager"), "ready"),
        caches_desired=None if spec.object_cache.image is None else 0 if suspended else spec.object_cache.replicas,
        caches_ready=_number(status.get("objectCache"), "ready"),
        registered=_count(status.get("executorManager"), "registered"),
        draining=_number(status.get("executorManager"), "draining"),
        reachable=_reachable(conditions),
        sessions=_count(status.get("sessions"), "open"),
        pending=_number(status.get("sessions"), "pendingTasks"),
        running=_number(status.get("sessions"), "runningTasks"),
        failed=_number(status.get("sessions"), "failedTasks"),
        paused=_number(status.get("sessions"), "paused"),
        conditions=frozenset(str(each.get("type")) for each in conditions if each.get("status") == "True"),
    )


def _desired(spec: SpecSummary, status: dict[str, Any]) -> int:
    """Return the number of wanted executors, which the status has where it follows the demand."""
    if not bytes(spec.executor_manager.autoscaling):
        return spec.executor_manager.replicas
    executors = status.get("executorManager")
    return _number(executors.get("autoscaling") if isinstance(executors, dict) else None, "desired")


def _reachable(conditions: Sequence[dict[str, Any]]) -> bool | None:
    known = {"True": True, "False": False}
    found = [each for each in conditions if each.get("type") == ConditionType.SESSION_MANAGER_REACHABLE]
    # A session manager that no operator can ask by its spec is not one that does not answer.
    return known.get(str(found[0].get("status"))) if found and found[0].get("reason") not in NOT_ASKED else None


def _number(section: Any, field: str) -> int:
    return _count(section, field) or 0


def _count(section: Any, field: str) -> int | None:
    value = section.get(field) if isinstance(section, dict) else None
    return value if isinstance(value, int) else None
