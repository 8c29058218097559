"""AcquireDeletionLock: ensures that only one operator at a time deletes the Pods of a FlameCluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.planning.disruption import deletions_due
from flamectl_operator.reconcile.base import Subreconciler
from flamectl_operator.runtime.outcome import DONE, Outcome

if TYPE_CHECKING:
    from flamectl_operator.reconcile.reconcile_pass import Pass


class AcquireDeletionLock(Subreconciler):
    """Acquire the Lease `<name>-lock` when Pods must be deleted, or extend it when that is due."""

    name = "AcquireDeletionLock"
    summary = "Acquires or extends the Lease that allows one operator at a time to delete Pods, when a deletion is due."
    reads = ("FlameCluster", "ConfigMap", "PersistentVolumeClaims", "Pods", "Flame", "Lease")
    writes = ("Lease",)

    async def run(self, subject: Pass) -> Outcome:
        """Acquire the lock if this pass will delete Pods."""
        due = deletions_due(
            subject.observe(),
            subject.effective,
            subject.now(),
            session_manager_replaceable=subject.session_manager_replaceable,
            object_caches_replaceable=subject.object_caches_replaceable,
            executors_replaceable=subject.executors_replaceable,
            released_at=subject.session_manager.released_at,
        )
        return (await subject.lock.acquire(subject.io) or DONE) if due else DONE
