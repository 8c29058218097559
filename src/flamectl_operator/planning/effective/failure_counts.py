"""The failures of Pods that the replacement backoff counts, and the times at which they are reset.

Each failure is counted once even if a pass is repeated. The session manager and object caches are known by the uids of their
Pods, executors by their ids.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from flamectl_operator.api.constants import EXECUTOR_MANAGER, OBJECT_CACHE
from flamectl_operator.observed.component import Component, ObjectCache, ObjectCaches, worked_for
from flamectl_operator.observed.executor import Executor
from flamectl_operator.observed.group import ObservedGroup
from flamectl_operator.observed.pods import disrupted, ready_since
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff
from flamectl_operator.settings.model import FlameSettings

C = TypeVar("C", bound=Component)


def session_manager_reset_at(
    backoff: ReplacementBackoff, manager: Component | None, settings: FlameSettings
) -> datetime | None:
    """Return when the session manager's failures are reset if nothing changes; None when no reset is due."""
    if backoff.failures == 0 or manager is None:
        return None
    return stable_at(manager, settings)


def executors_reset_at(wanted: EffectiveGroup, existing: ObservedGroup) -> datetime | None:
    """Return when the executors' failures are reset, by those registered; None when no reset is due."""
    backoff, settings, live = wanted.backoff, wanted.settings, existing.live
    if backoff.failures == 0:
        return None

    def works_at(executor: Executor) -> datetime | None:
        answer = existing.answer
        return stable_at(executor, settings) if answer is None or answer.registered(executor.name) else None

    stale = sum(executor.revision != backoff.revision for executor in live)
    complete = len(live) >= wanted.replicas + min(wanted.surge, stale)
    tried = [executor for executor in live if made_since(executor, backoff)]
    return _reset_at(live, tried, works_at, settings, complete=complete)


def object_caches_reset_at(
    backoff: ReplacementBackoff, caches: ObjectCaches, replicas: int, settings: FlameSettings
) -> datetime | None:
    """Return when the failures of object caches are reset if nothing changes; None when no reset is due."""
    if backoff.failures == 0:
        return None
    live = [cache for cache in caches.first(replicas) if cache.live]
    tried = [
        cache for cache in live if cache.revision == backoff.revision and cache.pod.uid not in backoff.counted_pods
    ]
    return _reset_at(live, tried, lambda each: stable_at(each, settings), settings, complete=len(live) == replicas)


def _reset_at(
    live: Sequence[C],
    tried: Sequence[C],
    works_at: Callable[[C], datetime | None],
    settings: FlameSettings,
    *,
    complete: bool,
) -> datetime | None:
    """Return when failures are reset if nothing changes; None when no reset is due.

    Pods created since the last failure (`tried`) show whether the fault is fixed, once one of them has been ready for
    `stableAfterSeconds`, which `works_at` tells. Where none was needed, or none has found a node yet, two things must have lasted
    that long: all others are ready, and the oldest Pod waits for a node. No Pod may be missing because of failures (`complete`).
    """
    if placed := [each for each in tried if each.pod.spec.node_name]:
        return min((time for each in placed if (time := works_at(each)) is not None), default=None)
    others = [each for each in live if each.pod.spec.node_name]
    if not others or not complete:
        return None
    times = [works_at(each) for each in others]
    if tried:
        times.append(_waited_at(tried, settings))
    known = [time for time in times if time is not None]
    return max(known) if len(known) == len(times) else None


def _waited_at(waiting: Iterable[Component], settings: FlameSettings) -> datetime | None:
    """Return when the oldest Pod will have existed for the stable time."""
    born = [time for each in waiting if (time := each.pod.metadata.creation_timestamp) is not None]
    return min(born) + timedelta(seconds=settings.stable_after_seconds) if born else None


def made_since(executor: Executor, backoff: ReplacementBackoff) -> bool:
    """Return whether an executor was created after the last failure and has the revision that failed."""
    return executor.revision == backoff.revision and executor.executor_id >= backoff.attempt_id


def stable_at(component: Component, settings: FlameSettings) -> datetime | None:
    """Return when a Pod will have been ready for the stable time; None when it is not ready."""
    since, born = ready_since(component.pod), component.pod.metadata.creation_timestamp
    if since is None:
        return None
    # With a slow clock on the node, a Pod seems ready since before its creation.
    return max(since, born or since) + timedelta(seconds=settings.stable_after_seconds)


def elapsed(time: datetime | None, now: datetime) -> bool:
    """Return whether a time is known and has come."""
    return time is not None and time <= now


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
    """Count failures of the present object caches, which have one count. The revision is empty where none are wanted.

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
    """Count failures of the present executors, after those that the status records.

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

    It is no failure when its node is gone or shuts down. An executor that had worked for a while did not fail either, because in
    a large cluster some executors end now and then, which says nothing about their replacements.
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
