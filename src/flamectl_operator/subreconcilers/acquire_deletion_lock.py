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

    async def run(self, pass_: Pass, /) -> Outcome:
        """Acquire the lock if this pass will delete Pods."""
        due = deletions_due(
            pass_.observe(),
            pass_.effective,
            pass_.now(),
            session_manager_replaceable=pass_.session_manager_replaceable,
            object_caches_replaceable=pass_.object_caches_replaceable,
            executors_replaceable=pass_.executors_replaceable,
            released_at=pass_.session_manager.released_at,
        )
        return (await pass_.lock.acquire(pass_.io) or DONE) if due else DONE
