"""ReleaseDeletionLock: releases an unneeded lock, so that other operators need not wait for it."""

from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.steps.base import Subreconciler
from flamectl_operator.runtime.outcome import DONE, Outcome


class ReleaseDeletionLock(Subreconciler):
    """Release the Lease `<name>-lock` when no Pod is left to delete, or when the spec denies this operator the lock.

    If the process ends before the release, the lock expires.
    """

    async def run(self, pass_: Pass, /) -> Outcome:
        """Release the lock if this process holds it and does not need it."""
        if pass_.lock.denied or not pass_.plan.disrupts_later:
            await pass_.lock.lease.release()
        return DONE
