"""DrainExecutors: lets marked executors end their work, and deletes them afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.kube.resources import PODS
from flamectl_operator.planning.drain import GRACE, Deletion, DrainPlan, plan_drain, since_annotation
from flamectl_operator.reconcile.base import Subreconciler
from flamectl_operator.reconcile.batch import time_limit
from flamectl_operator.reconcile.executor_removal import listed
from flamectl_operator.reconcile.refusals import primary_error
from flamectl_operator.runtime.outcome import DONE, Outcome, combine
from flamectl_operator.runtime.slow_start import in_parallel

if TYPE_CHECKING:
    from datetime import datetime

    from flamectl_operator.observed.executor import Executor
    from flamectl_operator.reconcile.reconcile_pass import Pass

#: Reasons for which an executor has no work left to end, so that it needs no grace period.
_AT_ONCE = frozenset({Deletion.DRAINED, Deletion.TIMED_OUT})


class DrainExecutors(Subreconciler):
    """Release the nodes of executors that are marked for draining, and delete each when nothing runs on it or its time is over.

    The marks are annotations of the Pods, so the next operator continues where this one stopped.
    """

    async def run(self, pass_: Pass, /) -> Outcome:
        """Carry out the plan."""
        plan = _plan(pass_)
        await self._mend(pass_, plan)
        if not plan.delete:
            return combine([*plan.waits, await self._release(pass_, plan)])
        if (put_off := await pass_.confirm_lock(executor for executor, _ in plan.delete)) is not None:
            return combine([put_off, *plan.waits])
        # The confirmation may have updated the view.
        plan = _plan(pass_)
        released = await self._release(pass_, plan)
        deleted = await self._delete(pass_, plan)
        return combine([*plan.waits, deleted, released])

    async def _mend(self, pass_: Pass, plan: DrainPlan) -> None:
        """Write the time from which a drain counts, so that the next operator counts from the same time."""

        async def write(entry: tuple[Executor, datetime]) -> None:
            executor, since = entry
            version = executor.pod.metadata.resource_version
            patch = {"metadata": {"annotations": since_annotation(since), "resourceVersion": version}}
            await pass_.io.patch(PODS, executor.name, patch)

        result = await in_parallel(plan.mend, pass_.io.writes_in_flight, write, time_limit(pass_.clock))
        if result.errors:
            raise primary_error(result.errors)

    async def _release(self, pass_: Pass, plan: DrainPlan) -> Outcome:
        return await pass_.session_manager.release(plan.release) or DONE

    async def _delete(self, pass_: Pass, plan: DrainPlan) -> Outcome:
        gone: set[str] = set()

        async def delete(entry: tuple[Executor, Deletion]) -> None:
            executor, why = entry
            grace = GRACE if why in _AT_ONCE else None
            if await pass_.io.delete(PODS, executor.pod, grace_period_seconds=grace):
                gone.add(executor.name)

        result = await in_parallel(plan.delete, pass_.io.writes_in_flight, delete, time_limit(pass_.clock))
        self._record_events(pass_, plan, gone)
        if result.errors:
            raise primary_error(result.errors)
        return DONE

    def _record_events(self, pass_: Pass, plan: DrainPlan, gone: set[str]) -> None:
        for reason in dict.fromkeys(why for _, why in plan.delete):
            chosen = [executor for executor, why in plan.delete if why is reason and executor.name in gone]
            if not chosen:
                continue
            text = f"Removed {listed(chosen)}: {reason}"
            if reason is Deletion.TIMED_OUT:
                pass_.io.record_warning("DrainTimedOut", text)
            else:
                pass_.io.record_event("ExecutorsRemoved", text)


def _plan(pass_: Pass) -> DrainPlan:
    return plan_drain(pass_.observe(), pass_.effective, pass_.session_manager.released_at, pass_.now())
