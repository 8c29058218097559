"""Deletes executors in parallel, for the steps that scale down and that replace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from flamectl_operator.kube.resources import PODS
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.marks import drain_annotations
from flamectl_operator.planning.part import listed
from flamectl_operator.planning.parts import DrainReason
from flamectl_operator.reconcile.batch import batch_end
from flamectl_operator.reconcile.cluster_io import ClusterIO
from flamectl_operator.runtime.outcome import Outcome
from flamectl_operator.runtime.slow_start import SlowStartResult, in_parallel


@dataclass(frozen=True)
class RemovalResult:
    """The names of the executors that were deleted.

    Others stay, because they or the remaining executors had changed, the request failed, or the time was over.
    """

    deleted: set[str]
    batch: SlowStartResult

    def outcome(self) -> Outcome:
        """Return the outcome of the step."""
        return batch_end(self.batch, len(self.deleted))


async def delete_executors(
    io: ClusterIO, executors: Sequence[Executor], in_time: Callable[[], bool], unchanged: Collection[str] = ()
) -> RemovalResult:
    """Delete executors in parallel; a failed deletion does not prevent the others.

    The choice of the executors assumes that all other executors stay ready, and many deletions take a while. So the batch stops
    when one of the others is no longer ready. An executor that became ready, or that left the cluster, is not deleted either. The
    next pass chooses again.

    Args:
        unchanged: Names of executors to delete only if they have not changed since they were chosen.
    """
    pods, deleted, chosen = io.stores.pods, set[str](), {executor.name for executor in executors}
    serving = [each for each in io.observe().group.ready if each.name not in chosen]

    async def delete(executor: Executor) -> None:
        pod = executor.pod

        def still_due() -> bool:
            if all(pods.get(each.pod.namespace, each.name) is each.pod for each in (executor, *serving)):
                return True
            observed = io.observe()
            ready, ours = ({each.name for each in some} for some in (observed.group.ready, observed.executors))
            still_chosen = executor.name in ours and (executor.ready or executor.name not in ready)
            return still_chosen and all(each.name in ready for each in serving)

        if await io.delete(PODS, pod, unchanged=pod.name in unchanged, still_due=still_due):
            deleted.add(pod.name)

    return RemovalResult(deleted, await in_parallel(executors, io.writes_in_flight, delete, in_time))


async def mark_for_draining(
    io: ClusterIO, executors: Sequence[Executor], in_time: Callable[[], bool], mark: DrainReason, why: str
) -> Outcome:
    """Mark executors that are deleted when their work is done.

    Args:
        in_time: The `time_limit` of the deletions before, because these executors were chosen together with those.

    Returns:
        How the step ends.
    """
    annotations = drain_annotations(mark, io.clock.now())
    marked: list[Executor] = []

    async def write(executor: Executor) -> None:
        if not io.superseded and await io.annotate(executor.pod, annotations):
            marked.append(executor)

    result = await in_parallel(executors, io.writes_in_flight, write, in_time)
    if marked:
        io.record_event("ExecutorsDraining", f"Draining {listed(marked)}: {why}")
    return batch_end(result, len(marked))
