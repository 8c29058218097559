"""A group of executors as it is wanted now, by its spec and the state that the status records, and the limits of its updates."""

from dataclasses import dataclass, replace

from flamectl_operator.api.fields.update_strategy import UpdateStrategy
from flamectl_operator.desired.cluster import DesiredGroup
from flamectl_operator.observed.edited_images import is_stale
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.effective.autoscaling import Scaling
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff
from flamectl_operator.settings.model import FlameSettings


@dataclass(frozen=True)
class Budget:
    """The limits of a rolling update: wanted executors that may be unavailable for it, and executors beyond their number."""

    unavailable: int
    surge: int

    @classmethod
    def of(cls, strategy: UpdateStrategy, replicas: int) -> "Budget":
        """Resolve percentages as Deployments do: unavailable rounds down, surge up; if both are 0, unavailable is 1."""
        unavailable = _resolve(strategy.rolling_update.max_unavailable, replicas, up=False)
        surge = _resolve(strategy.rolling_update.max_surge, replicas, up=True)
        return cls(1 if unavailable == surge == 0 else min(unavailable, replicas), surge)


def _resolve(value: int | str, replicas: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * replicas
    return -(-share // 100) if up else share // 100


@dataclass(frozen=True)
class EffectiveGroup:
    """A group of executors as it is wanted in this pass; `scaling` is None where the spec has their number."""

    desired: DesiredGroup
    settings: FlameSettings
    suspended: bool
    backoff: ReplacementBackoff
    scaling: Scaling | None = None

    def counting(self, backoff: ReplacementBackoff) -> "EffectiveGroup":
        """Return the group with these failures."""
        return self if backoff == self.backoff else replace(self, backoff=backoff)

    @property
    def wanted_replicas(self) -> int:
        """The number of executors that the spec or the demand asks for, also while the cluster is suspended."""
        return self.desired.spec.replicas if self.scaling is None else self.scaling.desired

    @property
    def replicas(self) -> int:
        """The number of wanted executors."""
        return 0 if self.suspended else self.wanted_replicas

    @property
    def unavailable(self) -> int:
        """How many of the wanted executors may be unavailable for an update."""
        return Budget.of(self.update_strategy, self.replicas).unavailable

    @property
    def floor(self) -> int:
        """How many of the wanted executors must serve, whatever the operator deletes."""
        return self.replicas - self.unavailable

    @property
    def replacement_floor(self) -> int:
        """How many of them must serve while executors are replaced: with OnDelete there is no surge, so one may be missing."""
        return min(self.floor, self.replicas - 1) if self.update_strategy.type == "OnDelete" else self.floor

    @property
    def surge(self) -> int:
        """The most executors beyond the number asked for while stale ones are replaced."""
        strategy = self.update_strategy
        return Budget.of(strategy, self.wanted_replicas).surge if strategy.type == "RollingUpdate" else 0

    @property
    def drain_timeout(self) -> float:
        """Seconds that an executor gets to end its work before it is deleted."""
        return self.desired.spec.drain.timeout_seconds

    @property
    def follows_sessions(self) -> bool:
        """Whether sessions that begin or end change the executors: their number, or which of them are protected."""
        return self.scaling is not None or self.desired.spec.drain.protect_busy

    @property
    def update_strategy(self) -> UpdateStrategy:
        """The update strategy for stale executors."""
        return self.desired.spec.update_strategy

    def stale(self, executor: Executor) -> bool:
        """Return whether an executor is no longer what its author asks for."""
        return is_stale(executor, self.desired.template)
