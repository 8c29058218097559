"""DrainExecutors: lets marked executors end their work, and deletes them afterwards."""

from flamectl_operator.desired.executor_annotations import since_annotation
from flamectl_operator.kube.resources import PODS
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.removals import RemovalReason, by_reason, listed
from flamectl_operator.planning.sub_plans import DrainPlan
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.steps.base import PlannedStep
from flamectl_operator.reconcile.steps.batch import annotate_executors, raise_failure, run_batch
from flamectl_operator.runtime.outcome import DONE, Outcome, combine

#: Grace period in seconds after a drain. Flame's process ignores SIGTERM, so it would use up a longer one to no purpose.
DRAINED_GRACE_SECONDS = 1
#: Reasons for which an executor has no work left to end, so that it needs no grace period.
_AT_ONCE = frozenset({RemovalReason.DRAINED, RemovalReason.DRAIN_TIMED_OUT})


class DrainExecutors(PlannedStep[DrainPlan]):
    """Release the nodes of executors that are marked for draining, and delete each when nothing runs on it or its time is over.

    The marks are annotations of the Pods, so the next operator continues where this one stopped.
    """

    def sub_plan(self, plan: ClusterPlan, /) -> DrainPlan:
        """Return the plan of the drains."""
        return plan.drain

    async def apply(self, pass_: Pass, plan: DrainPlan, /) -> Outcome:
        """Release nodes, and write the time from which a drain counts where a mark lacks it."""
        released = await pass_.session_manager.release(plan.release) or DONE
        # The next operator counts a drain from the same time.
        times = [(executor, since_annotation(since)) for executor, since in plan.record_begin]
        return combine([released, await annotate_executors(pass_.io, times)])

    async def delete(self, pass_: Pass, plan: DrainPlan, /) -> Outcome:
        """Delete executors that have ended their work, or whose time is over."""
        gone: set[str] = set()

        async def delete(entry: tuple[Executor, RemovalReason]) -> None:
            executor, reason = entry
            grace = DRAINED_GRACE_SECONDS if reason in _AT_ONCE else None
            if await pass_.io.delete(PODS, executor.pod, grace_period_seconds=grace):
                gone.add(executor.name)

        result = await run_batch(pass_.io, plan.delete, delete)
        for reason, executors in by_reason(plan.delete, gone).items():
            text = f"Removed {listed(executors)}: {reason.value}"
            if reason is RemovalReason.DRAIN_TIMED_OUT:
                pass_.io.events.record_warning("DrainTimedOut", text)
            else:
                pass_.io.events.record_normal("ExecutorsRemoved", text)
        raise_failure(result)
        return DONE
