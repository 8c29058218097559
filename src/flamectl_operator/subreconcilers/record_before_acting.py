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

    async def run(self, subject: Pass) -> Outcome:
        """Write the status if one of its durable fields must change."""
        if subject.spec is None:
            return DONE
        observed, now = subject.observe(), subject.now()
        if subject.may_act and (fields := subject.unwanted_changes(observed)):
            return await subject.status.refuse_spec(fields)
        needed = ids_to_reserve(observed, subject.spec, now, subject.max_creates) if subject.may_act else 0
        ids = subject.ids.missing(needed)
        required = required_durable_fields(subject.generation, observed, subject.spec, ids.stop)
        stored = subject.status.stored
        # A failed Pod is told even if the process dies right after it deleted the Pod.
        told = recent_failures(stored, observed, subject.spec, now.wall) == stored.recent_failures
        if required != durable_fields(stored) or not told:
            status = compute_status(subject.status_input(observed, ids.stop), now.wall)
            if (stopped := await subject.status.record(status)) is not None:
                return stopped
        subject.ids.reserve(ids)
        return DONE
