"""A batch of requests: what it does in the time that it has, and how a step ends with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from flamectl_operator.reconcile.objects.cluster_reads import ClusterReads
from flamectl_operator.reconcile.objects.outcomes import changed, next_batch
from flamectl_operator.reconcile.refusals.collect import primary_error
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


async def run_batch(io: ClusterReads, items: Sequence[T], request: Callable[[T], Awaitable[None]]) -> SlowStartResult:
    """Send a request about each item, in parallel, for as long as the batch has time. An error does not stop the others."""
    return await in_parallel(items, io.writes_in_flight, request, time_limit(io.clock))


def raise_failure(result: SlowStartResult) -> None:
    """Raise the error with which a step ends after a batch, if a request failed: RefusedError first, else KubernetesError."""
    if result.errors:
        raise primary_error(result.errors)


def batch_end(result: SlowStartResult, done: int, otherwise: Outcome = DONE) -> Outcome:
    """Return how a step ends with a batch.

    Args:
        done: How many of its requests did what they were for; the others found that their objects had changed.
        otherwise: The outcome when nothing is left.

    Raises:
        RefusedError: The API server refused a request.
        KubernetesError: A request failed.
    """
    raise_failure(result)
    if result.skipped:
        return next_batch()
    return changed() if done < result.succeeded else otherwise
