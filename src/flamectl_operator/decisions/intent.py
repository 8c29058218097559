"""What is wanted right now: the desired cluster, seen through what the status remembers.

The spec alone does not say it. A suspension that has begun is finished before anything is started again, and replacements
wait while they keep failing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from flamectl_operator.decisions import drift
from flamectl_operator.desired.config_map import config_map

if TYPE_CHECKING:
    from typing import Any

    from flamectl_operator.api.flamecluster import UpdateStrategy
    from flamectl_operator.decisions.attempts import Attempts
    from flamectl_operator.desired.cluster import DesiredCluster
    from flamectl_operator.observed.cluster import Component, Executor, ObservedCluster
    from flamectl_operator.settings import FlameSettings


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
