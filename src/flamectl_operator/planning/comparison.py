"""The cluster and its groups of executors beside the effective spec: what is stale, what is current, and what comes first."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from flamectl_operator.desired.executor_annotations import DrainReason
from flamectl_operator.observed import pods
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import ObjectCache
from flamectl_operator.observed.executor import Executor
from flamectl_operator.observed.group import ObservedGroup
from flamectl_operator.observed.scheduling import unschedulable
from flamectl_operator.planning.children import CHILDREN, CONFIG_MAP, Child
from flamectl_operator.planning.drift import changes_content
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.effective.session_manager_update import stands_alone, wait_before_update
from flamectl_operator.planning.effective.unregistered import Unregistered, find_overdue, find_unregistered
from flamectl_operator.runtime.clock_reading import ClockReading
from flamectl_operator.runtime.lazy import cached_property
from flamectl_operator.runtime.outcome import Outcome


@dataclass(frozen=True)
class GroupComparison:
    """The executors of a group that exist, beside the group as it is wanted. Each answer is worked out once.

    Planners also decide by the cluster around the group, and by the time.
    """

    observed: ObservedGroup
    effective: EffectiveGroup
    cluster: ObservedCluster
    now: ClockReading

    @cached_property
    def stale(self) -> tuple[Executor, ...]:
        """The live executors that are no longer what their author asks for, by id."""
        wanted, found = self.effective.desired.template.revision, self.observed.by_revision
        if self.observed.edited:
            return tuple(executor for executor in self.observed.live if self.effective.stale(executor))
        stale = [executors for revision, executors in found.items() if revision != wanted]
        if len(stale) < 2:  # noqa: PLR2004 - executors of one revision are in order
            return stale[0] if stale else ()
        return tuple(executor for executor in self.observed.live if executor.revision != wanted)

    @cached_property
    def to_replace(self) -> tuple[Executor, ...]:
        """The live executors that are replaced within the budget: the stale ones, and those whose binding is not valid."""
        stale, invalid = self.stale, self.observed.unverifiable
        return (*stale, *(each for each in invalid if each not in stale)) if invalid else stale

    @cached_property
    def up_to_date(self) -> tuple[Executor, ...]:
        """The live executors that are what their author asks for, by id."""
        found = self.observed.by_revision.get(self.effective.desired.template.revision, ())
        return tuple(each for each in found if not self.effective.stale(each)) if self.observed.edited else found

    @property
    def occupied(self) -> int:
        """How many places of executors are taken, also by stale ones that drain, unless the surge has room for them."""
        keep = sum(executor.drain_reason == DrainReason.STALE for executor in self.observed.draining)
        room = self.effective.surge - len(self.to_replace)
        return len(self.observed.live) + max(0, keep - max(0, room))

    @cached_property
    def unregistered(self) -> tuple[Unregistered, ...]:
        """The executors that run without being registered, by id."""
        return find_unregistered(self.cluster, self.observed, self.effective.settings, self.now)

    @cached_property
    def overdue(self) -> tuple[Executor, ...]:
        """The executors whose time to register is over."""
        return find_overdue(self.unregistered, self.now)

    @cached_property
    def serving_on(self) -> frozenset[str]:
        """The names of executors that keep serving although they are marked, because too few others are ready.

        The operator marks no more than the budget allows. Somebody may have written marks by hand, and executors may have failed
        since. An executor whose node was released serves no more.
        """
        answer = self.cluster.flame.answer
        if self.effective.update_strategy.type == "Recreate":
            return frozenset()
        marked = [each for each in self.observed.draining if pods.is_ready(each.pod)]
        serving = [each for each in marked if answer is None or each.name in answer.nodes]
        ready = len(self.observed.serving) + len(serving)
        return frozenset(each.name for each in serving[max(0, ready - self.effective.replacement_floor) :])


class PassFacts(msgspec.Struct, frozen=True):
    """All that a pass knows besides the objects and the effective spec.

    Args:
        next_id: The high-water mark of executor ids.
        accepted: The hashes of Pod templates that the API server accepts.
        released_at: When this process released nodes in Flame, by `boottime`; and `reported_at`, when it reported them as lost.
        contended: The kinds of children that somebody keeps changing.
    """

    begun: datetime
    max_creates: int
    next_id: int
    ids_exhausted: bool
    accepted: frozenset[str]
    released_at: Mapping[str, float]
    reported_at: Mapping[str, float]
    contended: frozenset[str]


@dataclass(frozen=True)
class Comparison:
    """A snapshot of the cluster beside the effective spec, and what else the pass knows. Each answer is worked out once."""

    observed: ObservedCluster
    effective: EffectiveSpec
    now: ClockReading
    facts: PassFacts

    @cached_property
    def outdated_children(self) -> frozenset[Child[Any]]:
        """The rows of children that are not as wanted."""
        return frozenset([each for each in CHILDREN if not each.current(self.observed, self.effective)])

    @cached_property
    def config_map_current(self) -> bool:
        """Whether the ConfigMap is ours and has the content that Pods read, whatever a webhook does to the rest of it."""
        if CONFIG_MAP not in self.outdated_children:
            return True
        found = CONFIG_MAP.find(self.observed)
        if found is None or found.terminating or not self.observed.owns(found):
            return False
        return not changes_content(found, self.effective.config_map)

    @cached_property
    def session_manager_to_replace(self) -> bool:
        """Whether the session manager exists, is live, and is no longer what its author asks for."""
        manager = self.observed.session_manager
        return manager is not None and manager.live and self.effective.session_manager_stale(manager)

    @cached_property
    def update_wait(self) -> Outcome | None:
        """The reason why a stale session manager is not replaced yet; None when its replacement is due, or it is not stale."""
        if not self.session_manager_to_replace:
            return None
        return wait_before_update(self.effective.desired, self.observed, self.effective.update_pending_since, self.now)

    @property
    def session_manager_asked_next(self) -> bool:
        """Whether the session manager is asked when the next pass begins, and not before."""
        return self.effective.asks_next(self.observed)

    @property
    def session_manager_due_at(self) -> datetime | None:
        """The time before which no session manager is created; None when it may be created."""
        return self.effective.session_manager_backoff.next_attempt

    def finds_sessions(self, incarnation: str) -> bool:
        """Return whether a new session manager finds the sessions of an incarnation of the session manager."""
        return self.effective.finds_sessions(self.observed, incarnation)

    @property
    def common_annotations(self) -> Collection[str]:
        """The names of the annotations that the author gives to all objects."""
        return self.effective.desired.spec.common_annotations

    @cached_property
    def session_manager_first(self) -> bool:
        """Whether stale executors and object caches have to wait, because the session manager comes before them."""
        manager = self.observed.session_manager
        if manager is None or not manager.ready:
            return True
        return self.session_manager_to_replace and not stands_alone(manager, self.effective.desired)

    @cached_property
    def stale_object_caches(self) -> tuple[ObjectCache, ...]:
        """The object caches that are wanted and no longer what their author asks for, by ordinal."""
        wanted = range(self.effective.cache_replicas)
        caches = self.observed.object_caches.ours.values()
        return tuple(
            each for each in caches if each.ordinal in wanted and each.live and self.effective.cache_stale(each)
        )

    @cached_property
    def object_caches_first(self) -> bool:
        """Whether stale executors have to wait, because object caches are replaced before them.

        An object cache that is missing or finds no node holds nothing up: the room that it needs may be that of stale executors.
        """
        wanted = range(self.effective.cache_replicas)
        return any(
            cache.terminating
            or self.effective.cache_stale(cache)
            or (cache.live and not cache.ready and unschedulable(cache.pod) is None)
            for cache in self.observed.object_caches.ours.values()
            if cache.ordinal in wanted
        )
