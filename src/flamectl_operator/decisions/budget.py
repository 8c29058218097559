"""The limits of a rolling update, and how many executors there are to be meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flamectl_operator.api.flamecluster import ExecutorManagerSpec, UpdateStrategy
    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.observed.cluster import ObservedCluster


@dataclass(frozen=True)
class Budget:
    """The limits of a rolling update, in Pods.

    Args:
        unavailable: How many of the wanted executors may be not ready because of it.
        surge: How many executors there may be beyond those wanted.
    """

    unavailable: int
    surge: int

    @classmethod
    def of(cls, strategy: UpdateStrategy, replicas: int) -> Budget:
        """Resolves percentages as Deployments do: unavailable rounds down, surge up; if both come out 0, one may go."""
        unavailable = _resolve(strategy.rolling_update.max_unavailable, replicas, up=False)
        surge = _resolve(strategy.rolling_update.max_surge, replicas, up=True)
        return cls(1 if unavailable == surge == 0 else min(unavailable, replicas), surge)


def surge(spec: ExecutorManagerSpec) -> int:
    """How many executors there may be beyond those wanted, while stale ones are replaced."""
    strategy = spec.update_strategy
    return Budget.of(strategy, spec.replicas).surge if strategy.type == "RollingUpdate" else 0


def wanted_now(observed: ObservedCluster, intent: Intent) -> int:
    """How many executors there should be for now: those wanted, and in a rolling update the surge that lets stale ones go.

    While nothing may be replaced, for the session manager is not ready or not current, the surge neither grows nor goes.
    """
    replicas, live = intent.replicas, observed.live_executors
    if replicas == 0:
        return replicas
    most = replicas + min(surge(intent.desired.spec.executor_manager), sum(map(intent.stale, live)))
    if observed.session_manager_ready and intent.session_manager_current(observed):
        return most
    return max(replicas, min(len(live), most))


def _resolve(value: int | str, replicas: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * replicas
    return -(-share // 100) if up else share // 100
