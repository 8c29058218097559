"""Backoff of replacements: how often in a row a component's Pods failed, and when the next ones may be made.

All of it is in the status, so that it survives a restart of the operator, and each failure is counted once however often a
pass is repeated: a session manager by its Pod's uid, executors by id. The first failure is replaced at once. Failures of
replacements wait longer and longer. A new revision starts afresh, since it may be the cure; so does a component whose
Pods have all been ready for a while.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from flamectl_operator.api.model import INT32_MAX
from flamectl_operator.decisions.hold import Hold
from flamectl_operator.observed.cluster import worked_for
from flamectl_operator.observed.pods import orphaned, ready_since

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flamectl_operator.api.status import FlameClusterStatus
    from flamectl_operator.observed.cluster import Component, Executor, ObservedCluster
    from flamectl_operator.settings import FlameSettings


@dataclass(frozen=True)
class Attempts:
    """What the status remembers of a component's failures.

    Args:
        revision: The revision that the failures are of.
        failures: Replacements that failed in a row.
        next_attempt: No Pod of the component is made before this time.
        last_failure: uid of the last session manager Pod that was counted.
        attempt_id: Executors with a lower id have been counted, or are older than the failures.
    """

    revision: str = ""
    failures: int = 0
    next_attempt: datetime | None = None
    last_failure: str = ""
    attempt_id: int = 0

    @property
    def repeated(self) -> bool:
        """Whether replacements failed, too."""
        return self.failures > 1

    def back_off(self, who: str, now: datetime) -> Hold | None:
        """Why no Pod of the component is made yet.

        Args:
            who: The component, as the message calls it.
            now: The time.
        """
        if self.next_attempt is None or self.next_attempt <= now:
            return None
        message = f"{who} failed {self.failures} times in a row; next attempt at {self.next_attempt:%H:%M:%S} UTC"
        return Hold("BackOff", message, self.next_attempt)


def remembered(status: FlameClusterStatus) -> tuple[Attempts, Attempts]:
    """What the status remembers of failures: of the session manager, and of executors."""
    manager, executors = status.session_manager, status.executor_manager
    return (
        Attempts(
            revision=manager.revision or "",
            failures=manager.failures or 0,
            next_attempt=manager.next_attempt,
            last_failure=manager.last_failure or "",
        ),
        Attempts(
            revision=executors.revision or "",
            failures=executors.failures or 0,
            next_attempt=executors.next_attempt,
            attempt_id=executors.attempt_id or 0,
        ),
    )


def count_session_manager(
    before: Attempts, observed: ObservedCluster, revision: str, now: datetime, settings: FlameSettings
) -> Attempts:
    """Takes the session manager as it is now into the count.

    Args:
        before: What the status says.
        observed: What is there.
        revision: The revision that is wanted now.
        now: The time.
        settings: Lengths of the waits.
    """
    attempts = _for_revision(before, revision, now, settings)
    manager = observed.session_manager
    if manager is None or manager.revision != revision:
        return attempts
    if session_manager_uncounted(manager, attempts):
        return replace(_failed(attempts, now, settings), last_failure=manager.pod.uid)
    forgiven = _over(session_manager_forgiven_at(attempts, manager, settings), now)
    return replace(attempts, failures=0, next_attempt=None) if forgiven else attempts


def session_manager_uncounted(manager: Component, attempts: Attempts) -> bool:
    """Whether the session manager has ended, and that is a failure which is not counted yet.

    It is none when its Node is gone.
    """
    fresh = manager.revision == attempts.revision and manager.pod.uid != attempts.last_failure
    return fresh and manager.terminal and not manager.terminating and not orphaned(manager.pod)


def count_executors(
    before: Attempts,
    observed: ObservedCluster,
    revision: str,
    *,
    replicas: int,
    surge: int,
    next_id: int,
    now: datetime,
    settings: FlameSettings,
) -> Attempts:
    """Takes the executors as they are now into the count.

    Executors that fail together are one failure: from the first one on, `attempt_id` says that what was made before is
    accounted for.

    Args:
        before: What the status says.
        observed: What is there.
        revision: The revision that is wanted now.
        replicas: How many executors are wanted.
        surge: How many more there may be while stale ones are replaced.
        next_id: The high-water mark of ids.
        now: The time.
        settings: Lengths of the waits.
    """
    attempts = _for_revision(before, revision, now, settings)
    # Of what is yet to be made nothing has been counted, whatever somebody wrote there.
    attempts = replace(attempts, attempt_id=min(attempts.attempt_id, next_id))
    if replicas == 0:
        attempts = replace(attempts, failures=0, next_attempt=None)
    elif any(executor_uncounted(executor, attempts, settings) for executor in observed.terminal_executors):
        return replace(_failed(attempts, now, settings), attempt_id=next_id)
    elif _over(executors_forgiven_at(attempts, observed, replicas, surge, settings), now):
        # Those that have not worked for a while so far are yet to show what they are worth.
        unproven = [
            executor.executor_id
            for executor in observed.live_executors
            if _made_since(executor, attempts) and not _over(_stable_at(executor, settings), now)
        ]
        return replace(attempts, failures=0, next_attempt=None, attempt_id=min(unproven, default=next_id))
    # A clean slate: what failed before it is not counted after it.
    cleared = attempts.failures == 0 and (before.failures > 0 or before.revision not in {"", revision})
    return replace(attempts, attempt_id=next_id) if cleared else attempts


def _all_there(observed: ObservedCluster, revision: str, replicas: int, surge: int) -> bool:
    """Whether none is missing that would be made if it were not for failures."""
    live = observed.live_executors
    return len(live) >= replicas + min(surge, sum(executor.revision != revision for executor in live))


def executor_uncounted(executor: Executor, attempts: Attempts, settings: FlameSettings) -> bool:
    """Whether the end of an executor is a failure that is not counted yet.

    It is none when its Node is gone, or when the executor had worked for a while: in a large cluster some end now and then,
    which says nothing about those that take their place.
    """
    if orphaned(executor.pod):
        return False
    if executor.revision != attempts.revision or executor.executor_id < attempts.attempt_id:
        return False
    worked = worked_for(executor)
    return worked is None or worked < timedelta(seconds=settings.stable_after_seconds)


def session_manager_forgiven_at(
    attempts: Attempts, manager: Component | None, settings: FlameSettings
) -> datetime | None:
    """When the failures of session managers will be forgotten if nothing happens; None when there is nothing to forget yet.

    Args:
        attempts: The failures.
        manager: The session manager.
        settings: Lengths of the waits.
    """
    if attempts.failures == 0 or manager is None:
        return None
    return _stable_at(manager, settings)


def executors_forgiven_at(
    attempts: Attempts, observed: ObservedCluster, replicas: int, surge: int, settings: FlameSettings
) -> datetime | None:
    """When the failures of executors will be forgotten if nothing happens; None when there is nothing to forget yet.

    Executors made since the last failure show whether it is over: once one of them has been ready for `stableAfterSeconds`.
    Where none was needed, or none has found a node yet, all others must have been ready for that long; and the oldest one that
    waits for a node must have been there for that long.

    Args:
        attempts: The failures.
        observed: What is there.
        replicas: How many executors are wanted.
        surge: How many more there may be while stale ones are replaced.
        settings: Lengths of the waits.
    """
    if attempts.failures == 0:
        return None
    made_since = [executor for executor in observed.live_executors if _made_since(executor, attempts)]
    if tried := [executor for executor in made_since if executor.pod.spec.node_name]:
        return min((time for each in tried if (time := _stable_at(each, settings)) is not None), default=None)
    others = [executor for executor in observed.live_executors if executor.pod.spec.node_name]
    if not others or not _all_there(observed, attempts.revision, replicas, surge):
        return None
    times = [_stable_at(each, settings) for each in others]
    if made_since:
        times.append(_waited_at(made_since, settings))
    known = [time for time in times if time is not None]
    return max(known) if len(known) == len(times) else None


def _made_since(executor: Executor, attempts: Attempts) -> bool:
    """Whether an executor was made after the last failure, and is of the revision that failed."""
    return executor.revision == attempts.revision and executor.executor_id >= attempts.attempt_id


def _waited_at(executors: Iterable[Executor], settings: FlameSettings) -> datetime | None:
    """When the oldest one will have been there for a while."""
    born = [time for each in executors if (time := each.pod.metadata.creation_timestamp) is not None]
    return min(born) + timedelta(seconds=settings.stable_after_seconds) if born else None


def _stable_at(component: Component, settings: FlameSettings) -> datetime | None:
    """When a Pod will have been ready for a while; None when it is not ready."""
    since, born = ready_since(component.pod), component.pod.metadata.creation_timestamp
    if since is None:
        return None
    # By a node's clock that is behind, a Pod has been ready since before it was made.
    return max(since, born or since) + timedelta(seconds=settings.stable_after_seconds)


def _over(time: datetime | None, now: datetime) -> bool:
    return time is not None and time <= now


def _for_revision(before: Attempts, revision: str, now: datetime, settings: FlameSettings) -> Attempts:
    """What counts of the past: nothing of another revision, and no wait that is longer than any.

    Whose clock was ahead may have written down a time that is far away, and so may anybody who can write the status.
    """
    if before.revision != revision:
        return replace(before, revision=revision, failures=0, next_attempt=None)
    latest = _whole_seconds(now + timedelta(seconds=settings.backoff_limit_seconds))
    if before.next_attempt is None or before.next_attempt <= latest:
        return before
    return replace(before, next_attempt=latest)


def _failed(attempts: Attempts, now: datetime, settings: FlameSettings) -> Attempts:
    failures = min(attempts.failures + 1, INT32_MAX)
    if failures == 1:
        return replace(attempts, failures=1, next_attempt=None)
    # The exponent is bounded so that a year of failures does not overflow.
    delay = min(settings.backoff_base_seconds * 2 ** min(failures - 2, 32), settings.backoff_limit_seconds)
    return replace(attempts, failures=failures, next_attempt=_whole_seconds(now + timedelta(seconds=delay)))


def _whole_seconds(time: datetime) -> datetime:
    """As the status stores it: Kubernetes times have whole seconds."""
    return time.replace(microsecond=0) + timedelta(seconds=1 if time.microsecond else 0)
