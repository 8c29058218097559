"""ReleaseLock: other operators need not wait for a lock that is not needed any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.subreconcilers import lock

if TYPE_CHECKING:
    from flamectl_operator.runtime.outcome import Outcome
    from flamectl_operator.subreconcilers.context import Context


class ReleaseLock:
    """Responsible for giving back the lock, the Lease `<name>-lock`, when no Pod is left to be deleted.

    It is taken by the steps that delete Pods. A lock that is not given back, as when the process ends, expires.
    """

    name = "ReleaseLock"

    async def reconcile(self, context: Context) -> Outcome:
        """Gives the lock back if this process holds it and nothing is left to be deleted."""
        return await lock.give_back(context)
