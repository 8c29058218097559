"""Backoff of replacements: the consecutive failures of a component's Pods, and the time of the next attempt.

All of it is in the status, so that it survives a restart of the operator. Each failure is counted once even if a pass is
repeated: the session manager and object caches by the uids of their Pods, executors by id. The first failure is replaced at once.
Failures of replacements wait longer and longer. A new revision resets the count, because it may be the fix; so does a component
whose Pods have all been ready for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from flamectl_operator.api.constants import EXECUTOR_MANAGER, OBJECT_CACHE
from flamectl_operator.api.model import INT32_MAX
from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.observed import pods
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.executor import Executor, worked_for
from flamectl_operator.observed.group import ObservedGroup
from flamectl_operator.observed.object_cache import ObjectCache, ObjectCaches
from flamectl_operator.observed.pods import disrupted, ready_since
from flamectl_operator.observed.waiting import READY_TIMEOUT_SECONDS
from flamectl_operator.runtime.outcome import Outcome, wait_until
from flamectl_operator.settings.model import FlameSettings

C = TypeVar("C", bound=Component)


@dataclass(frozen=True)
class ReplacementBackoff:
    """The failures of a component, as the status records them.

    Args:
        next_attempt: The time before which no Pod of the component is created.
        last_failure: The uid of the last session manager Pod that was counted.
        attempt_id: The id below which executors have been counted or are older than the failures.
        counted_pods: The uids of the object caches that have been counted or are older than the failures.
    """

    revision: str = ""
    failures: int = 0
    next_attempt: datetime | None = None
    last_failure: str = ""
    attempt_id: int = 0
    counted_pods: tuple[str, ...] = ()

    @property
    def repeated(self) -> bool:
        """Whether a replacement failed as well."""
        return self.failures > 1

    def back_off(self, who: str, now: datetime) -> Outcome | None:
        """Return why no Pod of the component is created yet, or None when one may be created.

        Args:
            who: The name of the component in the message.
        """
        if self.next_attempt is None or self.next_attempt <= now:
            return None
        message = f"{who} failed {self.failures} times in a row; next attempt at {self.next_attempt:%H:%M:%S} UTC"
        return wait_until("BackOff", self.next_attempt, now, message)


def remembered(status: FlameClusterStatus) -> tuple[ReplacementBackoff, ReplacementBackoff, ReplacementBackoff]:
    """Read the failures of the session manager, of executors and of object caches from a status."""
    manager, executors, caches = status.session_manager, status.executor_manager, status.object_cache
    return (
        ReplacementBackoff(
            revision=manager.revision or "",
            failures=manager.failures or 0,
            next_attempt=manager.next_attempt,
            last_failure=manager.last_failure or "",
        ),
        ReplacementBackoff(
            revision=executors.revision or "",
            failures=executors.failures or 0,
            next_attempt=executors.next_attempt,
            attempt_id=executors.attempt_id or 0,
        ),
        ReplacementBackoff(
            revision=caches.revision or "",
            failures=caches.failures or 0,
            next_attempt=caches.next_attempt,
            counted_pods=caches.counted_pods,
        ),
    )


def count_session_manager(
    before: ReplacementBackoff, observed: ObservedCluster, revision: str, now: datetime, settings: FlameSettings
) -> ReplacementBackoff:
    """Count a failure of the present session manager."""
    backoff = _for_revision(before, revision, now, settings)
    manager = observed.session_manager
    if manager is None or manager.revision != revision:
        return backoff
    missing = manager.pod.uid != backoff.last_failure and lacks_node(manager, now)
    if missing or session_manager_uncounted(manager, backoff):
        return replace(_failed(backoff, now, settings), last_failure=manager.pod.uid)
    over = _elapsed(session_manager_reset_at(backoff, manager, settings), now)
    return replace(backoff, failures=0, next_attempt=None) if over else backoff


def session_manager_uncounted(manager: Component, backoff: ReplacementBackoff) -> bool:
    """Return whether the session manager has failed and the failure is not counted yet.

    The end of a Pod whose node is gone or shuts down is not a failure.
    """
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
    """Count failures of the present object caches, which have one count.

    Object caches that fail together are one failure: with the first of them, all that exist count as counted.

    Args:
        revision: The wanted revision; empty when the operator runs no object cache.
    """
    if replicas == 0:
        return ReplacementBackoff(revision)
    backoff = _for_revision(before, revision, now, settings)
    present = [cache for cache in caches.first(replicas) if not cache.terminating and cache.revision == revision]
    if any(
        object_cache_uncounted(cache, backoff, settings)
        or (cache.pod.uid not in backoff.counted_pods and lacks_node(cache, now))
        for cache in present
    ):
        counted = tuple(sorted(cache.pod.uid for cache in present))
        return replace(_failed(backoff, now, settings), counted_pods=counted)
    if not _elapsed(object_caches_reset_at(backoff, caches, replicas, settings), now):
        return backoff
    # A later failure counts again, but no failure that has been counted.
    return ReplacementBackoff(revision, counted_pods=tuple(sorted(each.pod.uid for each in present if each.terminal)))


def object_cache_uncounted(cache: ObjectCache, backoff: ReplacementBackoff, settings: FlameSettings) -> bool:
    """Return whether the end of an object cache is a failure that is not counted yet.

    It is not a failure when its node is gone or shuts down, or when the object cache had worked for a while.
    """
    fresh = cache.pod.uid not in backoff.counted_pods and _ended(cache, backoff)
    return fresh and not _worked_long(cache, OBJECT_CACHE, settings)


def _ended(component: Component, backoff: ReplacementBackoff) -> bool:
    """Return whether a Pod of the revision that counts has ended by itself."""
    over = component.terminal and not component.terminating and not disrupted(component.pod)
    return over and component.revision == backoff.revision


def _worked_long(component: Component, main: str, settings: FlameSettings) -> bool:
    """Return whether a terminal Pod had worked for the stable time, so that its end says nothing about its replacement."""
    worked = worked_for(component, main)
    return worked is not None and worked >= timedelta(seconds=settings.stable_after_seconds)


def count_executors(
    before: ReplacementBackoff,
    group: ObservedGroup,
    revision: str,
    *,
    replicas: int,
    surge: int,
    next_id: int,
    now: datetime,
    settings: FlameSettings,
) -> ReplacementBackoff:
    """Count failures of the present executors.

    Executors that fail together are one failure: after the first of them, `attempt_id` marks all earlier executors as counted.

    Args:
        surge: The most executors beyond `replicas` while stale ones are replaced.
    """
    backoff = _for_revision(before, revision, now, settings)
    # Executors that do not exist yet are not counted, whatever a user wrote into the status.
    backoff = replace(backoff, attempt_id=min(backoff.attempt_id, next_id))
    if replicas == 0:
        backoff = replace(backoff, failures=0, next_attempt=None)
    elif any(
        executor_uncounted(executor, backoff, settings)
        for executor in (*group.terminal, *(each for each in group.live if not each.ready and lacks_node(each, now)))
    ):
        return replace(_failed(backoff, now, settings), attempt_id=next_id)
    elif _elapsed(executors_reset_at(backoff, group, replicas, surge, settings), now):
        # Executors that have not worked for a while may still fail.
        unproven = [
            executor.executor_id
            for executor in group.live
            if _made_since(executor, backoff) and not _elapsed(_stable_at(executor, settings), now)
        ]
        return replace(backoff, failures=0, next_attempt=None, attempt_id=min(unproven, default=next_id))
    # After a reset, failures from before it are not counted.
    cleared = backoff.failures == 0 and (before.failures > 0 or before.revision not in {"", revision})
    return replace(backoff, attempt_id=next_id) if cleared else backoff


def count_overdue(
    attempts: ReplacementBackoff, overdue: Sequence[Executor], next_id: int, now: datetime, settings: FlameSettings
) -> ReplacementBackoff:
    """Count executors that did not register with the session manager in time, which is a failure like the end of a Pod."""
    if not any(executor_uncounted(executor, attempts, settings) for executor in overdue):
        return attempts
    return replace(_failed(attempts, now, settings), attempt_id=next_id)


def lacks_node(component: Component, now: datetime) -> bool:
    """Return whether a Pod was created for a node that has not reported it in time.

    It is a failure although the Pod has not ended, because the Pod garbage collector deletes a Pod of a missing node within a
    minute, and the end of that Pod may not be seen.
    """
    born = component.pod.metadata.creation_timestamp
    patience = timedelta(seconds=READY_TIMEOUT_SECONDS)
    return component.live and pods.unreported(component.pod) and born is not None and born + patience <= now


def _all_there(group: ObservedGroup, revision: str, replicas: int, surge: int) -> bool:
    """Return whether no executor is missing because of failures."""
    live = group.live
    return len(live) >= replicas + min(surge, sum(executor.revision != revision for executor in live))


def executor_uncounted(executor: Executor, backoff: ReplacementBackoff, settings: FlameSettings) -> bool:
    """Return whether the end of an executor is a failure that is not counted yet.

    It is not a failure when its node is gone or shuts down, or when the executor had worked for a while: in a large cluster some
    executors end now and then, which says nothing about their replacements.
    """
    if disrupted(executor.pod):
        return False
    if executor.revision != backoff.revision or executor.executor_id < backoff.attempt_id:
        return False
    return not _worked_long(executor, EXECUTOR_MANAGER, settings)


def session_manager_reset_at(
    backoff: ReplacementBackoff, manager: Component | None, settings: FlameSettings
) -> datetime | None:
    """Return when the session manager's failures are reset if nothing changes; None when no reset is due."""
    if backoff.failures == 0 or manager is None:
        return None
    return _stable_at(manager, settings)


def executors_reset_at(
    backoff: ReplacementBackoff, group: ObservedGroup, replicas: int, surge: int, settings: FlameSettings
) -> datetime | None:
    """Return when the executors' failures are reset if nothing changes; None when no reset is due.

    An executor that Flame does not list as registered shows nothing.
    """
    if backoff.failures == 0:
        return None
    made_since = [executor for executor in group.live if _made_since(executor, backoff)]
    complete = _all_there(group, backoff.revision, replicas, surge)
    return _reset_at(group.live, made_since, lambda each: _works_at(each, group, settings), settings, complete=complete)


def object_caches_reset_at(
    backoff: ReplacementBackoff, caches: ObjectCaches, replicas: int, settings: FlameSettings
) -> datetime | None:
    """Return when the failures of object caches are reset if nothing changes; None when no reset is due."""
    if backoff.failures == 0:
        return None
    live = [cache for cache in caches.first(replicas) if cache.live]
    made_since = [
        cache for cache in live if cache.revision == backoff.revision and cache.pod.uid not in backoff.counted_pods
    ]
    complete = len(live) == replicas
    return _reset_at(live, made_since, lambda each: _stable_at(each, settings), settings, complete=complete)


def _reset_at(
    live: Sequence[C],
    made_since: Sequence[C],
    works_at: Callable[[C], datetime | None],
    settings: FlameSettings,
    *,
    complete: bool,
) -> datetime | None:
    """Return when failures are reset if nothing changes; None when no reset is due.

    Pods created since the last failure show whether the fault is fixed, once one of them has been ready for `stableAfterSeconds`.
    If none was needed, or none has found a node yet, all others must have been ready for that long, and the oldest Pod that waits
    for a node must have existed for that long.

    Args:
        made_since: Those of the live Pods that were created since the last failure.
        works_at: Returns when a Pod will have worked for the stable time; None when it does not work.
        complete: Whether no Pod is missing because of failures.
    """
    if tried := [each for each in made_since if each.pod.spec.node_name]:
        return min((time for each in tried if (time := works_at(each)) is not None), default=None)
    others = [each for each in live if each.pod.spec.node_name]
    if not others or not complete:
        return None
    times = [works_at(each) for each in others]
    if made_since:
        times.append(_waited_at(made_since, settings))
    known = [time for time in times if time is not None]
    return max(known) if len(known) == len(times) else None


def _made_since(executor: Executor, backoff: ReplacementBackoff) -> bool:
    """Return whether an executor was created after the last failure and has the revision that failed."""
    return executor.revision == backoff.revision and executor.executor_id >= backoff.attempt_id


def _waited_at(waiting: Iterable[Component], settings: FlameSettings) -> datetime | None:
    """Return when the oldest Pod will have existed for the stable time."""
    born = [time for each in waiting if (time := each.pod.metadata.creation_timestamp) is not None]
    return min(born) + timedelta(seconds=settings.stable_after_seconds) if born else None


def _works_at(executor: Executor, group: ObservedGroup, settings: FlameSettings) -> datetime | None:
    """Return when an executor will have worked for the stable time; None when it does not work."""
    snapshot = group.snapshot
    return _stable_at(executor, settings) if snapshot is None or snapshot.registered(executor.name) else None


def _stable_at(component: Component, settings: FlameSettings) -> datetime | None:
    """Return when a Pod will have been ready for the stable time; None when it is not ready."""
    since, born = ready_since(component.pod), component.pod.metadata.creation_timestamp
    if since is None:
        return None
    # With a slow clock on the node, a Pod seems ready since before its creation.
    return max(since, born or since) + timedelta(seconds=settings.stable_after_seconds)


def _elapsed(time: datetime | None, now: datetime) -> bool:
    return time is not None and time <= now


def _for_revision(
    before: ReplacementBackoff, revision: str, now: datetime, settings: FlameSettings
) -> ReplacementBackoff:
    """Return the failures that still count: those of this revision, with waits up to the limit.

    An operator with a fast clock, or a user who can write the status, may have recorded a time far in the future.
    """
    if before.revision != revision:
        return replace(before, revision=revision, failures=0, next_attempt=None, counted_pods=())
    if before.next_attempt is None:
        return before
    if before.next_attempt <= now:
        # A time that has passed says nothing to a reader of the status.
        return replace(before, next_attempt=None)
    latest = _whole_seconds(now + timedelta(seconds=settings.backoff_limit_seconds))
    return replace(before, next_attempt=min(before.next_attempt, latest))


def _failed(backoff: ReplacementBackoff, now: datetime, settings: FlameSettings) -> ReplacementBackoff:
    failures = min(backoff.failures + 1, INT32_MAX)
    if failures == 1:
        return replace(backoff, failures=1, next_attempt=None)
    # The exponent is bounded so that a year of failures does not overflow.
    delay = min(settings.backoff_base_seconds * 2 ** min(failures - 2, 32), settings.backoff_limit_seconds)
    return replace(backoff, failures=failures, next_attempt=_whole_seconds(now + timedelta(seconds=delay)))


def _whole_seconds(time: datetime) -> datetime:
    """Round to whole seconds, as Kubernetes times in the status."""
    return time.replace(microsecond=0) + timedelta(seconds=1 if time.microsecond else 0)
