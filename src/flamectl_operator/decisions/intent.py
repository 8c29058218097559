"""What is wanted right now: the desired cluster, seen through what the status remembers.

The spec alone does not say it. A suspension that has begun is finished before anything is started again, and replacements
wait while they keep failing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from flamectl_operator.api.constants import CONFIG_GENERATION_ANNOTATION, CONFIG_HASH_ANNOTATION
from flamectl_operator.decisions import attempts, conditions, drift
from flamectl_operator.decisions.budget import surge
from flamectl_operator.desired.config_map import config_map

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from flamectl_operator.api.flamecluster import UpdateStrategy
    from flamectl_operator.api.status import FlameClusterStatus
    from flamectl_operator.decisions.attempts import Attempts
    from flamectl_operator.desired.cluster import DesiredCluster
    from flamectl_operator.observed.cluster import Component, Executor, ObservedCluster
    from flamectl_operator.settings import FlameSettings

#: Most digits of a `configGeneration` that is believed: anybody may write one.
_MAX_DIGITS = 15


@dataclass(frozen=True)
class Intent:
    """What is wanted right now.

    Args:
        desired: What the spec asks for.
        settings: The operator's settings.
        suspended: Whether no Pods are wanted.
        config_generation: Number of the content of flame-cluster.yaml that is wanted.
        session_manager_attempts: How replacing the session manager went so far.
        executor_attempts: How replacing executors went so far.
    """

    desired: DesiredCluster
    settings: FlameSettings
    suspended: bool
    config_generation: int
    session_manager_attempts: Attempts
    executor_attempts: Attempts

    @property
    def replicas(self) -> int:
        """How many executors are wanted."""
        return 0 if self.suspended else self.desired.spec.executor_manager.replicas

    @property
    def update_strategy(self) -> UpdateStrategy:
        """How stale executors are replaced."""
        return self.desired.spec.executor_manager.update_strategy

    @cached_property
    def config_map(self) -> dict[str, Any]:
        """The ConfigMap that is wanted."""
        return config_map(self.desired.owner, self.desired.config_text, self.config_generation)

    def config_map_current(self, observed: ObservedCluster) -> bool:
        """Whether the ConfigMap is ours and as wanted, so that Pods may be made that mount it."""
        existing = observed.config_map
        return (
            existing is not None
            and observed.owns(existing)
            and not existing.terminating
            and drift.config_map_patch(existing, self.config_map) is None
        )

    def stale(self, executor: Executor) -> bool:
        """Whether an executor is no longer what its author asks for."""
        return executor.revision != self.desired.executor.revision

    def session_manager_stale(self, manager: Component) -> bool:
        """Whether the session manager is no longer what its author asks for."""
        return manager.revision != self.desired.session_manager.revision

    def session_manager_to_replace(self, observed: ObservedCluster) -> bool:
        """Whether the session manager is there, stays, and is no longer what its author asks for."""
        manager = observed.session_manager
        return manager is not None and manager.live and self.session_manager_stale(manager)

    def session_manager_current(self, observed: ObservedCluster) -> bool:
        """Whether the session manager is there, stays, and is what its author asks for."""
        manager = observed.session_manager
        return manager is not None and manager.live and not self.session_manager_stale(manager)


def config_generation(content_hash: str, status: tuple[int, str], observed: tuple[int, str]) -> int:
    """Number of the content of flame-cluster.yaml.

    The status and the ConfigMap both remember the number and the hash of the content it stands for. The larger number is
    the later truth: the ConfigMap's after a crash between the two writes, the status's when the ConfigMap is lost. Neither a
    repaired hand edit nor a restart counts, for both compare what was wanted, not what was found.

    Args:
        content_hash: Hash of the content that is wanted.
        status: Number and hash in the status; 0 when there is none.
        observed: Number and hash in the ConfigMap's annotations; 0 when there is none.
    """
    number = max(status[0], observed[0])
    current = number > 0 and (number, content_hash) in (status, observed)
    return number if current else number + 1


def form_intent(
    desired: DesiredCluster,
    observed: ObservedCluster,
    before: FlameClusterStatus,
    settings: FlameSettings,
    *,
    next_id: int,
    now: datetime,
) -> Intent:
    """What is wanted right now, from the spec and from what the status remembers.

    Args:
        desired: What the spec asks for.
        observed: What is there.
        before: The status.
        settings: The operator's settings.
        next_id: The high-water mark of executor ids.
        now: The time.
    """
    # Once begun, a suspension is finished before anything is started again. And while paused none is begun.
    unfinished, begun = _unfinished(observed), conditions.suspension_begun(before)
    suspended = (unfinished and begun) or (desired.spec.suspend and not (desired.spec.paused and unfinished))
    manager_attempts, executor_attempts = attempts.remembered(before)
    return Intent(
        desired=desired,
        settings=settings,
        suspended=suspended,
        config_generation=config_generation(desired.config_hash, _remembered_config(before), _annotated(observed)),
        session_manager_attempts=attempts.count_session_manager(
            manager_attempts, observed, desired.session_manager.revision, now, settings
        ),
        executor_attempts=attempts.count_executors(
            executor_attempts,
            observed,
            desired.executor.revision,
            replicas=0 if suspended else desired.spec.executor_manager.replicas,
            surge=surge(desired.spec.executor_manager),
            next_id=next_id,
            now=now,
            settings=settings,
        ),
    )


def _unfinished(observed: ObservedCluster) -> bool:
    """Whether a suspension would still have something to do.

    Executors that are stuck on their way out do not hold it up: their names are never used again.
    """
    return observed.session_manager is not None or any(not each.terminating for each in observed.executors)


def _remembered_config(before: FlameClusterStatus) -> tuple[int, str]:
    """The number and hash that the status says; nothing of it when somebody wrote a number there from which none can follow."""
    number = before.config_generation or 0
    return (number, before.config_hash or "") if 0 <= number < 10**_MAX_DIGITS else (0, "")


def _annotated(observed: ObservedCluster) -> tuple[int, str]:
    """The number and hash of the content that the ConfigMap was made for."""
    existing = observed.config_map
    if existing is None or not observed.owns(existing):
        return (0, "")
    number = existing.annotations.get(CONFIG_GENERATION_ANNOTATION, "")
    if not (number.isascii() and number.isdecimal() and len(number) <= _MAX_DIGITS):
        return (0, "")
    return (int(number), existing.annotations.get(CONFIG_HASH_ANNOTATION, ""))
