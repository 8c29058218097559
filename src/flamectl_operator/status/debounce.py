"""A debounce interval: a time in which executors that start change nothing but counts.

While 500 executors become ready one after the other, a pass over each event finds nothing to do and a status that must wait (see
`throttle`). So a debounce interval follows a pass that found the same, and events that only bring executors closer to being ready
share one pass at its end. Any other event ends the interval at once, and so does the executor that makes the state turn, which is
the first one that is ready, or the last one.

A debounce interval delays a pass and never replaces it: each event that it holds back is followed by a pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flamectl_operator.api.constants import EXECUTOR_MANAGER
from flamectl_operator.api.status import Generations
from flamectl_operator.desired import names
from flamectl_operator.observed import pods
from flamectl_operator.planning.registration import NOT_REGISTERED
from flamectl_operator.status.throttle import PRECISION

if TYPE_CHECKING:
    from flamectl_operator.api.status import FlameClusterStatus
    from flamectl_operator.desired.metadata import Identity
    from flamectl_operator.kube.views import PodView
    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.planning.effective_spec import EffectiveSpec
    from flamectl_operator.runtime.outcome import Result

#: Seconds of a debounce interval: of the first one, and at most. One that follows another is twice as long.
FIRST_INTERVAL = 0.05
LONGEST_INTERVAL = 1.0

#: Reasons of outcomes that only tell when to look again.
_IDLE_REASONS = frozenset({"StatusThrottled", "PodsStarting", NOT_REGISTERED})


@dataclass(frozen=True)
class Debounce:
    """A debounce interval of one FlameCluster. All times are of one clock that only goes forward.

    Args:
        until: When it ends, in seconds.
        to_turn: How many more executors must become ready until the state turns; 0 when there is no debounce interval.
        length: How long it was meant to last, in seconds.
    """

    until: float = float("-inf")
    to_turn: int = 0
    length: float = 0.0

    def after_pass(self, to_turn: int, counts_due: float, now: float) -> Debounce:
        """Return the debounce interval that follows a pass.

        Args:
            to_turn: The result of `executors_to_turn`.
            counts_due: When counts may be written again.
            now: The time.
        """
        if to_turn == 0:
            return Debounce()
        again = now < self.until + 2 * self.length
        length = min(2 * self.length, LONGEST_INTERVAL) if again else FIRST_INTERVAL
        return Debounce(max(now + length, counts_due), to_turn, length)

    def after_event(self, owner: Identity, old: PodView | None, new: PodView | None) -> Debounce:
        """Return the debounce interval that follows an event about a Pod of this FlameCluster."""
        if self.to_turn == 0:
            return self
        if old is None or new is None or not only_starts(owner, old, new):
            return replace(self, to_turn=0)
        return replace(self, to_turn=self.to_turn - 1) if pods.is_ready(new) and not pods.is_ready(old) else self

    def remaining(self, now: float) -> float:
        """Return the seconds that a pass may wait; 0 when it must not."""
        remaining = self.until - now
        return remaining if self.to_turn and remaining > PRECISION else 0.0


def executors_to_turn(
    status: FlameClusterStatus, observed: ObservedCluster, effective: EffectiveSpec, result: Result
) -> int:
    """Return how many executors must become ready until the state turns; 0 when something else may happen before.

    Args:
        status: The stored status, which differs from the present one in counts at most.
        observed: The objects that exist.
        effective: The effective spec.
        result: The result of the pass.
    """
    idle = not result.errors and all(outcome.reason in _IDLE_REASONS for outcome in result.outcomes)
    calm = status.generations == Generations(reconciled=status.generations.reconciled)
    failures = effective.session_manager_backoff.failures or effective.executor_backoff.failures
    if not idle or not calm or failures or effective.suspended or not observed.session_manager_ready:
        return 0
    ready = len(observed.ready_executors)
    return max(0, effective.replicas - ready) if ready else min(1, effective.replicas)


def only_starts(owner: Identity, old: PodView, new: PodView) -> bool:
    """Return whether an executor only came closer to being ready, or nothing happened that anybody reads.

    Args:
        owner: The FlameCluster.
        old: The Pod before.
        new: The Pod after.
    """
    executor = names.executor_id(owner.name, new.name) is not None and new.controlled_by(owner.uid)
    if not executor or old.uid != new.uid or _marks(old) != _marks(new):
        return False
    placed = old.spec.node_name in {"", new.spec.node_name}
    return placed and _is_well(old) and _is_well(new) and not (pods.is_ready(old) and not pods.is_ready(new))


def _marks(pod: PodView) -> tuple[object, ...]:
    """Return the metadata of a Pod that decisions read."""
    meta = pod.metadata
    return (
        meta.deletion_timestamp,
        meta.deletion_grace_period_seconds,
        meta.labels,
        meta.annotations,
        meta.owner_references,
        meta.finalizers,
    )


def _is_well(pod: PodView) -> bool:
    """Return whether a Pod starts or runs, and nothing is wrong with it."""
    return (
        not pod.terminating
        and not pods.is_terminal(pod, EXECUTOR_MANAGER)
        and pods.trouble(pod) is None
        and pods.unschedulable(pod) is None
        and pods.not_reporting(pod) is None
    )
