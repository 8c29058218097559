"""The failures of Pods that the replacement backoff counts.

Each failure is counted once even if a pass is repeated. The session manager and object caches are known by the uids of their
Pods, executors by their ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from flamectl_operator.api.constants import EXECUTOR_MANAGER, OBJECT_CACHE
from flamectl_operator.observed.component import Component, ObjectCache, ObjectCaches, worked_for
from flamectl_operator.observed.executor import Executor
from flamectl_operator.observed.group import ObservedGroup
from flamectl_operator.observed.pods import disrupted
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.planning.effective.failure_resets import (
    elapsed,
    executors_reset_at,
    made_since,
    object_caches_reset_at,
    session_manager_reset_at,
    stable_at,
)
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff
from flamectl_operator.settings.model import FlameSettings


def count_session_manager(
    before: ReplacementBackoff, manager: Component | None, revision: str, now: datetime, settings: FlameSettings
) -> ReplacementBackoff:
    """Count a failure of the present session manager."""
    backoff = before.for_revision(revision, now, settings)
    if manager is None or manager.revision != revision:
        return backoff
    missing = manager.pod.uid != backoff.last_failure and manager.lacks_node(now)
    if missing or session_manager_uncounted(manager, backoff):
        return replace(backoff.after_failure(now, settings), last_failure=manager.pod.uid)
    over = elapsed(session_manager_reset_at(backoff, manager, settings), now)
    return replace(backoff, failures=0, next_attempt=None) if over else backoff


def session_manager_uncounted(manager: Component, backoff: ReplacementBackoff) -> bool:
    """Return whether the session manager has failed, not by the end of its node, and the failure is not counted yet."""
    return manager.pod.uid != backoff.last_failure and _ended(manager, backoff)


def count_object_caches(
    before: ReplacementBackoff,
    caches: ObjectCaches,
    revision: str,
    *,
    replicas: int,
    now: datetime,
    settings: FlameSettings,
) -> ReplacementBackoff:
    """Count failures of the present object caches, which have one count. An empty revision means that none is wanted.

    Object caches that fail together are one failure: with the first of them, all that exist count as counted.
    """
    if replicas == 0:
        return ReplacementBackoff(revision)
    backoff = before.for_revision(revision, now, settings)
    present = [cache for cache in caches.first(replicas) if not cache.terminating and cache.revision == revision]
    if any(
        object_cache_uncounted(cache, backoff, settings)
        or (cache.pod.uid not in backoff.counted_pods and cache.lacks_node(now))
        for cache in present
    ):
        counted = tuple(sorted(cache.pod.uid for cache in present))
        return replace(backoff.after_failure(now, settings), counted_pods=counted)
    if not elapsed(object_caches_reset_at(backoff, caches, replicas, settings), now):
        return backoff
    # A later failure counts again, but no failure that has been counted.
    return ReplacementBackoff(revision, counted_pods=tuple(sorted(each.pod.uid for each in present if each.terminal)))


def object_cache_uncounted(cache: ObjectCache, backoff: ReplacementBackoff, settings: FlameSettings) -> bool:
    """Return whether the end of an object cache is a failure that is not counted yet.

    It is not a failure when its node is gone or shuts down, or when the object cache had worked for a while.
    """
    uncounted = cache.pod.uid not in backoff.counted_pods and _ended(cache, backoff)
    return uncounted and not _worked_long(cache, OBJECT_CACHE, settings)


def count_executors(wanted: EffectiveGroup, existing: ObservedGroup, next_id: int, now: datetime) -> ReplacementBackoff:
    """Count failures of the present executors, beside those that the status records of their group.

    Executors that fail together are one failure: after the first of them, `attempt_id` marks all earlier executors as counted.
    """
    before, revision, settings = wanted.backoff, wanted.desired.template.revision, wanted.settings
    backoff = before.for_revision(revision, now, settings)
    # Executors that do not exist yet are not counted, whatever a user wrote into the status.
    if backoff.attempt_id > next_id:
        backoff = replace(backoff, attempt_id=next_id)
    wanted = wanted.counting(backoff)
    if wanted.replicas == 0:
        backoff = replace(backoff, failures=0, next_attempt=None)
    elif any(
        executor_uncounted(executor, wanted)
        for executor in (
            *existing.terminal,
            *(each for each in existing.live if not each.ready and each.lacks_node(now)),
        )
    ):
        return replace(backoff.after_failure(now, settings), attempt_id=next_id)
    elif elapsed(executors_reset_at(wanted, existing), now):
        # Executors that have not worked for a while may still fail.
        unproven = [
            executor.executor_id
            for executor in existing.live
            if made_since(executor, backoff) and not elapsed(stable_at(executor, settings), now)
        ]
        return replace(backoff, failures=0, next_attempt=None, attempt_id=min(unproven, default=next_id))
    # After a reset, failures from before it are not counted.
    cleared = backoff.failures == 0 and (before.failures > 0 or before.revision not in {"", revision})
    return replace(backoff, attempt_id=next_id) if cleared else backoff


def count_overdue(
    wanted: EffectiveGroup, overdue: Sequence[Executor], next_id: int, now: datetime
) -> ReplacementBackoff:
    """Count executors that did not register with the session manager in time, which is a failure like the end of a Pod."""
    if not any(executor_uncounted(executor, wanted) for executor in overdue):
        return wanted.backoff
    return replace(wanted.backoff.after_failure(now, wanted.settings), attempt_id=next_id)


def executor_uncounted(executor: Executor, wanted: EffectiveGroup) -> bool:
    """Return whether the end of an executor is a failure that is not counted yet.

    It is not a failure when its node is gone or shuts down, or when the executor had worked for a while: in a large cluster some
    executors end now and then, which says nothing about their replacements.
    """
    uncounted = made_since(executor, wanted.backoff) and not disrupted(executor.pod)
    return uncounted and not _worked_long(executor, EXECUTOR_MANAGER, wanted.settings)


def _ended(component: Component, backoff: ReplacementBackoff) -> bool:
    """Return whether a Pod of the revision that counts has ended by itself."""
    over = component.terminal and not component.terminating and not disrupted(component.pod)
    return over and component.revision == backoff.revision


def _worked_long(component: Component, main: str, settings: FlameSettings) -> bool:
    """Return whether a terminal Pod had worked for the stable time, so that its end says nothing about its replacement."""
    worked = worked_for(component, main)
    return worked is not None and worked >= timedelta(seconds=settings.stable_after_seconds)
