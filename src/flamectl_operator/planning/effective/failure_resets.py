"""The time at which the failures of a component are reset, because its Pods have been ready for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from flamectl_operator.observed.component import Component, ObjectCaches
from flamectl_operator.observed.executor import Executor
from flamectl_operator.observed.group import ObservedGroup
from flamectl_operator.observed.pods import ready_since
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
        snapshot = existing.snapshot
        return stable_at(executor, settings) if snapshot is None or snapshot.registered(executor.name) else None

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
