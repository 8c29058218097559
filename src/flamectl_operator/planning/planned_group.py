"""A group of executors as its planners see it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from flamectl_operator.observed import pods
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.effective.budget import replacement_floor
from flamectl_operator.planning.effective.unregistered import Unregistered, overdue, unregistered
from flamectl_operator.planning.group_comparison import GroupComparison
from flamectl_operator.planning.prerequisites import Prerequisites
from flamectl_operator.runtime.clock_reading import ClockReading


@dataclass(frozen=True)
class PlannedGroup(GroupComparison):
    """A group of executors with all else that planners decide by: the cluster around it, what comes before it, and the time."""

    cluster: ObservedCluster
    prerequisites: Prerequisites
    now: ClockReading

    @cached_property
    def unregistered(self) -> tuple[Unregistered, ...]:
        """The executors that run without being registered, by id."""
        return unregistered(self.cluster, self.observed, self.effective.settings, self.now)

    @cached_property
    def overdue(self) -> tuple[Executor, ...]:
        """The executors whose time to register is over."""
        return overdue(self.unregistered, self.now)

    @cached_property
    def serving_on(self) -> frozenset[str]:
        """The names of executors that keep serving although they are marked, because too few others are ready.

        The operator marks no more than the budget allows. Somebody may have written marks by hand, and executors may have failed
        since. An executor whose node was released serves no more.
        """
        strategy, snapshot = self.effective.update_strategy, self.cluster.flame.snapshot
        if strategy.type == "Recreate":
            return frozenset()
        marked = [each for each in self.observed.draining if pods.is_ready(each.pod)]
        serving = [each for each in marked if snapshot is None or each.name in snapshot.nodes]
        ready = len(self.observed.serving) + len(serving)
        return frozenset(
            each.name for each in serving[max(0, ready - replacement_floor(strategy, self.effective.replicas)) :]
        )
