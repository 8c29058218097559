"""RecordBeforeActing: stores everything in the status that must survive a crash, before the pass acts on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.planning.scale import ids_to_reserve
from flamectl_operator.reconcile.base import STATUS, Subreconciler
from flamectl_operator.runtime.outcome import DONE, Outcome
from flamectl_operator.status.compute import compute_status, durable_fields, required_durable_fields
from flamectl_operator.status.recent_failures import recent_failures

if TYPE_CHECKING:
    from flamectl_operator.reconcile.reconcile_pass import Pass


class RecordBeforeActing(Subreconciler):
    """Reserve executor ids, count failures, and record the beginning of a suspension; the pass stops unless all is stored."""

    name = "RecordBeforeActing"
    summary = (
        "Records executor ids, failures and the beginning of a suspension in the status before the pass acts on them."
    )
    reads = ("FlameCluster", "ConfigMap", "Services", "NetworkPolicy", "PersistentVolumeClaims", "Pods", "Flame")
    writes = (STATUS,)

    async def run(self, pass_: Pass, /) -> Outcome:
        """Write the status if one of its durable fields must change."""
        if pass_.spec is None:
            return DONE
        observed, now = pass_.observe(), pass_.now()
        if pass_.may_act and (fields := pass_.unwanted_changes(observed)):
            return await pass_.status.refuse_spec(fields)
        needed = ids_to_reserve(observed, pass_.spec, now, pass_.max_creates) if pass_.may_act else 0
        ids = pass_.ids.missing(needed)
        required = required_durable_fields(pass_.generation, observed, pass_.spec, ids.stop)
        stored = pass_.status.stored
        # A failed Pod is told even if the process dies right after it deleted the Pod.
        told = recent_failures(stored, observed, pass_.spec, now.wall) == stored.recent_failures
        if required != durable_fields(stored) or not told:
            status = compute_status(pass_.status_input(observed, ids.stop), now.wall)
            if (stopped := await pass_.status.record(status)) is not None:
                return stopped
        pass_.ids.reserve(ids)
        return DONE
