"""Batches of requests: how much a batch does in its time, how a step ends with it, and the batches that remove executors."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from flamectl_operator.desired.executor_annotations import AnnotationChanges, DrainReason, drain_annotations
from flamectl_operator.kube.resources import PODS
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.removals import listed
from flamectl_operator.reconcile.objects.cluster_io import ClusterIO
from flamectl_operator.reconcile.objects.outcomes import changed, next_batch
from flamectl_operator.reconcile.steps.collect import primary_error
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.outcome import DONE, Outcome
from flamectl_operator.runtime.slow_start import SlowStartResult, in_parallel

T = TypeVar("T")

#: Seconds after which a batch of requests leaves the rest to the next pass, because the operator writes no status and repairs
#: nothing else while the batch runs.
BATCH_TIME_LIMIT = 10.0
#: Seconds without a request after which a batch leaves the rest to the next pass, because the process may have stood still, and
#: then the rest was chosen before events that it has not read yet.
BATCH_LONGEST_PAUSE = 2.0


def time_limit(clock: Clock) -> Callable[[], bool]:
    """Begin a batch and return a function that tells whether the batch may still send requests."""
    end = clock.boottime() + BATCH_TIME_LIMIT
    last = clock.boottime()

    def go_on() -> bool:
        nonlocal last
        now = clock.boottime()
        in_time = now < min(end, last + BATCH_LONGEST_PAUSE)
        last = now if in_time else last
        return in_time

    return go_on


async def run_batch(io: ClusterIO, items: Sequence[T], request: Callable[[T], Awaitable[None]]) -> SlowStartResult:
    """Send a request about each item, in parallel, for as long as the batch has time. An error does not stop the others."""
    return await in_parallel(items, io.writes_in_flight, request, time_limit(io.clock))


def raise_failure(result: SlowStartResult) -> None:
    """Raise the error with which a step ends after a batch, if a request failed: RefusedError first, else KubernetesError."""
    if result.errors:
        raise primary_error(result.errors)


def batch_end(result: SlowStartResult, done: int, otherwise: Outcome = DONE) -> Outcome:
    """Return how a step ends with a batch; `otherwise` is the outcome when nothing is left.

    The requests that are not `done` found that their objects had changed.
    """
    raise_failure(result)
    if result.skipped:
        return next_batch()
    return changed() if done < result.succeeded else otherwise


async def annotate_executors(
    io: ClusterIO, changes: Sequence[tuple[Executor, AnnotationChanges]], otherwise: Outcome = DONE
) -> Outcome:
    """Patch annotations of executors, and return how the step ends; `otherwise` is the outcome when nothing is left."""
    if not changes:
        return otherwise
    patched: list[Executor] = []

    async def annotate(change: tuple[Executor, AnnotationChanges]) -> None:
        executor, annotations = change
        if not io.reads.superseded and await io.annotate(executor.pod, annotations):
            patched.append(executor)

    return batch_end(await run_batch(io, changes, annotate), len(patched), otherwise)


@dataclass(frozen=True)
class RemovalResult:
    """The names of the executors that were deleted.

    The other chosen executors stay, because they or the remaining ones had changed, the request failed, or the time was over.
    """

    deleted: set[str]
    batch: SlowStartResult

    def outcome(self) -> Outcome:
        """Return the outcome of the step."""
        return batch_end(self.batch, len(self.deleted))


class ExecutorRemoval:
    """Removes the executors that a step has chosen, in parallel; a failed request does not prevent the others.

    The choice assumes that all other executors stay ready, and many requests take a while. So no further request is sent when one
    of the others is no longer ready. An executor that became ready, or that left the cluster, is not removed either. The next
    pass chooses again.
    """

    def __init__(self, io: ClusterIO, chosen: Iterable[Executor]) -> None:
        self._io = io
        self._in_time = time_limit(io.clock)
        names = {executor.name for executor in chosen}
        self._remaining = [each for each in io.reads.observe().group.ready if each.name not in names]

    async def delete(self, executors: Sequence[Executor], unchanged: Collection[str] = ()) -> RemovalResult:
        """Delete executors, some of them only if they have not changed since they were chosen."""
        deleted: set[str] = set()

        async def delete(executor: Executor) -> None:
            still_due = partial(self._still_due, executor)
            if await self._io.delete(PODS, executor.pod, unchanged=executor.name in unchanged, still_due=still_due):
                deleted.add(executor.name)

        return RemovalResult(deleted, await in_parallel(executors, self._io.writes_in_flight, delete, self._in_time))

    async def mark(self, executors: Sequence[Executor], reason: DrainReason, why: str) -> Outcome:
        """Mark executors that are deleted when their work is done; return how the step ends."""
        marked: list[Executor] = []

        async def mark(executor: Executor) -> None:
            due = self._still_due(executor) and not self._io.reads.superseded
            # The time of a drain begins with its own mark, because the requests before it in the batch may take long.
            if due and await self._io.annotate(executor.pod, drain_annotations(reason, self._io.clock.now())):
                marked.append(executor)

        result = await in_parallel(executors, self._io.writes_in_flight, mark, self._in_time)
        if marked:
            self._io.events.record_normal("ExecutorsDraining", f"Draining {listed(marked)}: {why}")
        return batch_end(result, len(marked))

    def _still_due(self, executor: Executor) -> bool:
        pods, remaining = self._io.stores.pods, self._remaining
        if all(pods.get(each.pod.namespace, each.name) is each.pod for each in (executor, *remaining)):
            return True
        observed = self._io.reads.observe()
        ready, ours = ({each.name for each in some} for some in (observed.group.ready, observed.executors))
        still_chosen = executor.name in ours and (executor.ready or executor.name not in ready)
        return still_chosen and all(each.name in ready for each in remaining)
