"""A debounce interval: a time in which executors that start or terminate change nothing but counts.

While 500 executors become ready one after the other, a pass over each event finds nothing to do and a status that must wait (see
`throttle`). The same holds while 500 executors terminate that a scale-down deleted. So a debounce interval follows a pass that
found the same, and events that only bring executors closer to being ready or gone share one pass at its end. Any other event ends
the interval at once. An executor that changes more than counts does so too: the first that is ready, the last that is ready, and
the last that is gone.

A debounce interval delays a pass and never replaces it: each event that it holds back is followed by a pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from flamectl_operator.api.constants import EXECUTOR_MANAGER
from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.desired import names
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed import pods, scheduling
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import Component
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.planning.registration import NOT_REGISTERED
from flamectl_operator.reconcile.status_writes.throttle import PRECISION
from flamectl_operator.runtime.outcome import Result

#: Seconds of a debounce interval: of the first one, and at most. An interval that follows another one is twice as long.
FIRST_INTERVAL = 0.05
LONGEST_INTERVAL = 1.0

#: Reasons of outcomes that only tell when to look again.
_IDLE_REASONS = frozenset({"StatusThrottled", "PodsStarting", "SessionManagerSilent", "LateDeletion", NOT_REGISTERED})
#: Fields of `Generations` that say nothing about work that is left.
_NO_WORK = frozenset({"reconciled", "has_pending_removal"})


class Awaited(NamedTuple):
    """The executors that a FlameCluster waits for, to start or to end. Until the last of them, each changes only counts."""

    starts: int = 0
    ends: int = 0


NOTHING_AWAITED = Awaited()


@dataclass(frozen=True)
class Debounce:
    """A debounce interval of one FlameCluster. All times are of one clock that only goes forward.

    Args:
        until: When it ends, in seconds.
        awaited: The executors that are awaited; none when there is no debounce interval.
        length: How long it was meant to last, in seconds.
    """

    until: float = float("-inf")
    awaited: Awaited = NOTHING_AWAITED
    length: float = 0.0

    def after_pass(self, awaited: Awaited, counts_due: float, now: float) -> "Debounce":
        """Return the debounce interval that follows a pass."""
        if awaited == NOTHING_AWAITED:
            return Debounce()
        again = now < self.until + 2 * self.length
        length = min(2 * self.length, LONGEST_INTERVAL) if again else FIRST_INTERVAL
        return Debounce(max(now + length, counts_due), awaited, length)

    def ended(self) -> "Debounce":
        """Return this interval without time that is left; the next one may still be longer because of it."""
        return replace(self, awaited=NOTHING_AWAITED) if any(self.awaited) else self

    def after_event(self, owner: Identity, old: PodView | None, new: PodView | None) -> "Debounce":
        """Return the debounce interval that follows an event about a Pod of this FlameCluster."""
        starts, ends = self.awaited
        over = True
        if ends and old is not None and only_ends(owner, old, new):
            ends -= new is None
            over = not ends
        elif starts and old is not None and new is not None and only_starts(owner, old, new):
            starts -= pods.is_ready(new) and not pods.is_ready(old)
            over = not starts
        return self.ended() if over else replace(self, awaited=Awaited(starts, ends))

    def remaining(self, now: float) -> float:
        """Return the seconds that a pass may wait; 0 when it must not."""
        remaining = self.until - now
        return remaining if any(self.awaited) and remaining > PRECISION else 0.0


def awaited_executors(
    status: FlameClusterStatus, observed: ObservedCluster, wanted: EffectiveGroup, result: Result
) -> Awaited:
    """Return the executors that the status waits for, whether it is stored or not; none when something else may happen."""
    idle = not result.errors and all(outcome.reason in _IDLE_REASONS for outcome in result.outcomes)
    generations = status.generations
    if (
        not idle
        or any(seen for need, seen in vars(generations).items() if need not in _NO_WORK)
        or wanted.backoff.failures
        or wanted.suspended
        or not observed.session_manager_ready
    ):
        return NOTHING_AWAITED
    ending = observed.terminating
    if not all(each.kind == EXECUTOR_MANAGER for each in ending) or _in_table(observed, ending):
        return NOTHING_AWAITED
    ready = len(observed.group.ready)
    return Awaited(max(0, wanted.replicas - ready) if ready else min(1, wanted.replicas), len(ending))


def _in_table(observed: ObservedCluster, ending: Sequence[Component]) -> bool:
    """Return whether the session manager must be informed when one of these executors is gone."""
    answer = observed.flame.answer
    return answer is not None and any(each.name in answer.nodes or each.name in answer.by_node for each in ending)


def only_starts(owner: Identity, old: PodView, new: PodView) -> bool:
    """Return whether an executor only came closer to being ready, or nothing happened that a decision reads."""
    if not _same_executor(owner, old, new) or _marks(old) != _marks(new):
        return False
    placed = old.spec.node_name in {"", new.spec.node_name}
    return placed and _is_well(old) and _is_well(new) and not (pods.is_ready(old) and not pods.is_ready(new))


def only_ends(owner: Identity, old: PodView, new: PodView | None) -> bool:
    """Return whether an executor that was terminating came closer to being gone, or is gone. No decision reads its progress."""
    return old.terminating and _same_executor(owner, old, new or old)


def _same_executor(owner: Identity, old: PodView, new: PodView) -> bool:
    """Return whether both are one executor, which belongs to the FlameCluster as before."""
    executor = names.executor_id(owner.name, new.name) is not None and new.controlled_by(owner.uid)
    same = old.uid == new.uid and old.metadata.owner_references == new.metadata.owner_references
    return executor and same and old.metadata.labels == new.metadata.labels


def _marks(pod: PodView) -> tuple[object, ...]:
    """Return the rest of the metadata that decisions read of an executor that does not terminate."""
    return pod.metadata.deletion_timestamp, pod.metadata.annotations, pod.metadata.finalizers


def _is_well(pod: PodView) -> bool:
    """Return whether a Pod starts or runs, and nothing is wrong with it."""
    return (
        not pod.terminating
        and not pods.is_terminal(pod, EXECUTOR_MANAGER)
        and pods.failure(pod) is None
        and scheduling.unschedulable(pod) is None
        and pods.not_reporting(pod) is None
    )
