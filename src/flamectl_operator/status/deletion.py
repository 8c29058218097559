"""The status of a FlameCluster that is being deleted and that a finalizer keeps.

Nobody repairs its objects any more, and Pods may end at any time, so the status stops saying that all is well.
"""

from __future__ import annotations

from datetime import datetime

from flamectl_operator.api.status import ConditionType, FlameClusterStatus, State, find
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.planning.deletion import in_brackets
from flamectl_operator.runtime.text import shortened
from flamectl_operator.status.conditions import ConditionWriter
from flamectl_operator.status.reason import DELETING


def told_deletion(status: FlameClusterStatus, cluster: FlameClusterView) -> bool:
    """Return whether the status tells the deletion, with the finalizers that still keep the FlameCluster."""
    ready = find(status, ConditionType.READY)
    return ready is not None and (ready.reason, ready.message) == (DELETING, _message(cluster))


def deletion_status(before: FlameClusterStatus, cluster: FlameClusterView, now: datetime) -> FlameClusterStatus:
    """Return the stored status with the deletion in place of what was well. The numbers stay as they were."""
    generation, message = cluster.metadata.generation, _message(cluster)
    writer = ConditionWriter(before.conditions, generation, now)
    kinds = (ConditionType.READY, ConditionType.PROGRESSING)
    told = {
        "observed_generation": generation,
        "state": State.PENDING,
        "reason": DELETING,
        "message": message,
        "conditions": writer.merge([writer.make(kind, DELETING, message, status=False) for kind in kinds]),
    }
    return before.model_copy(update=told)


def _message(cluster: FlameClusterView) -> str:
    return shortened(
        f"The FlameCluster is being deleted{in_brackets(cluster)}; the operator changes and restores nothing more"
    )
