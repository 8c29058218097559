"""Backoff of replacements: the consecutive failures of a component's Pods, and the time of the next attempt.

All of it is in the status, so that it survives a restart of the operator. The first failure is replaced at once. Failures of
replacements wait longer and longer. A new revision resets the count, because it may be the fix. `failure_counts` says which Pods
count as failures, and when Pods that work reset them.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, TypeAlias

from flamectl_operator.api.component_status import ExecutorManagerStatus, ObjectCacheStatus, SessionManagerStatus
from flamectl_operator.api.model import INT32_MAX
from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.runtime.doubling import doubled
from flamectl_operator.runtime.outcome import Outcome, wait_until
from flamectl_operator.runtime.text import time_of_day
from flamectl_operator.settings.model import FlameSettings

#: The parts of the status that remember failures.
Remembers: TypeAlias = SessionManagerStatus | ExecutorManagerStatus | ObjectCacheStatus


@dataclass(frozen=True)
class ReplacementBackoff:
    """The failures of a component, as the status records them: in fields of the same names.

    Args:
        next_attempt: The time before which no Pod of the component is created.
        last_failure: The uid of the last session manager Pod that was counted.
        attempt_id: The id below which executors have been counted or are older than the failures.
        counted_pods: The uids of object caches of which the same is true.
    """

    revision: str = ""
    failures: int = 0
    next_attempt: datetime | None = None
    last_failure: str = ""
    attempt_id: int = 0
    counted_pods: tuple[str, ...] = ()

    @classmethod
    def of(cls, part: Remembers) -> "ReplacementBackoff":
        """Read the failures from a part of the status."""
        return cls(**{name: value for name, value in remembered_fields(part, type(part)).items() if value is not None})

    @property
    def repeated(self) -> bool:
        """Whether a replacement failed as well."""
        return self.failures > 1

    def back_off(self, who: str, now: datetime) -> Outcome | None:
        """Return why no Pod of the component, named in the message, is created yet; None when one may be created."""
        if self.next_attempt is None or self.next_attempt <= now:
            return None
        message = f"{who} failed {self.failures} times in a row; next attempt at {time_of_day(self.next_attempt)}"
        return wait_until("BackOff", self.next_attempt, now, message)

    def for_revision(self, revision: str, now: datetime, settings: FlameSettings) -> "ReplacementBackoff":
        """Return the failures that still count: those of this revision, with waits up to the limit.

        An operator with a fast clock, or a user who can write the status, may have recorded a time far in the future.
        """
        if self.revision != revision:
            return replace(self, revision=revision, failures=0, next_attempt=None, counted_pods=())
        if self.next_attempt is None:
            return self
        if self.next_attempt <= now:
            # A time that has passed says nothing to a reader of the status.
            return replace(self, next_attempt=None)
        latest = _whole_seconds(now + timedelta(seconds=settings.backoff_limit_seconds))
        return replace(self, next_attempt=min(self.next_attempt, latest))

    def after_failure(self, now: datetime, settings: FlameSettings) -> "ReplacementBackoff":
        """Return the backoff with one more failure."""
        failures = min(self.failures + 1, INT32_MAX)
        if failures == 1:
            return replace(self, failures=1, next_attempt=None)
        delay = doubled(settings.backoff_base_seconds, settings.backoff_limit_seconds, failures - 1)
        return replace(self, failures=failures, next_attempt=_whole_seconds(now + timedelta(seconds=delay)))


def remembered(status: FlameClusterStatus) -> tuple[ReplacementBackoff, ReplacementBackoff, ReplacementBackoff]:
    """Read the failures of the session manager, of executors and of object caches from a status."""
    read = ReplacementBackoff.of
    return read(status.session_manager), read(status.executor_manager), read(status.object_cache)


#: The fields of each part that remember failures.
_NAMES = {
    part: tuple(name for name in ReplacementBackoff.__dataclass_fields__ if name in part.model_fields)
    for part in (SessionManagerStatus, ExecutorManagerStatus, ObjectCacheStatus)
}
#: Read their values from the part, or from a `ReplacementBackoff`.
_READ = {part: attrgetter(*names) for part, names in _NAMES.items()}
of_session_manager, of_executors, of_object_cache = _READ.values()


def remembered_fields(of: Remembers | ReplacementBackoff, part: type[Remembers]) -> dict[str, Any]:
    """Return the fields of a part of the status that remember failures, with their values."""
    return dict(zip(_NAMES[part], _READ[part](of), strict=True))


def _whole_seconds(time: datetime) -> datetime:
    """Round to whole seconds, as Kubernetes times in the status."""
    return time.replace(microsecond=0) + timedelta(seconds=1 if time.microsecond else 0)
