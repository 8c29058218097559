"""What metrics say of a FlameCluster, read from the resource as it is stored.

Readiness is read from the status, which the operator wrote at the end of its last pass; nothing is computed here. Others may
have written into the status as well, so a value that makes no sense counts as missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flamectl_operator.api.status import ConditionType, State

if TYPE_CHECKING:
    from flamectl_operator.kube.views import FlameClusterView

#: For a FlameCluster whose status says nothing (yet).
UNKNOWN = "Unknown"
STATES: tuple[str, ...] = (*State, UNKNOWN)
#: Conditions that most FlameClusters do not have; each gets a series only while it is true. Degraded calls for somebody, while
#: Suspended and Paused explain why a FlameCluster that is not ready calls for nobody.
EXCEPTIONS: tuple[str, ...] = (ConditionType.DEGRADED, ConditionType.SUSPENDED, ConditionType.PAUSED)


@dataclass(frozen=True, slots=True)
class Entry:
    """A FlameCluster in the census.

    Args:
        namespace: Its namespace.
        name: Its name.
        state: One of `STATES`.
        desired: Executors that there should be.
        ready: Executors that are ready.
        conditions: Types of its conditions that are true.
    """

    namespace: str
    name: str
    state: str
    desired: int
    ready: int
    conditions: frozenset[str]


def take(cluster: FlameClusterView) -> Entry:
    """Reads a FlameCluster; never raises."""
    spec, status = cluster.spec, cluster.status
    state = status.get("state")
    entries = status.get("conditions")
    conditions = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return Entry(
        namespace=cluster.namespace,
        name=cluster.name,
        state=state if state in STATES else UNKNOWN,
        # The API server fills in the default of `replicas`.
        desired=0 if spec.get("suspend") is True else _number(spec.get("executorManager"), "replicas"),
        ready=_number(status.get("executorManager"), "ready"),
        conditions=frozenset(str(each.get("type")) for each in conditions if each.get("status") == "True"),
    )


def _number(section: Any, field: str) -> int:
    value = section.get(field) if isinstance(section, dict) else None
    return value if isinstance(value, int) else 0
