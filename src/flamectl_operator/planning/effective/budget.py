"""The limits of a rolling update, and the number of executors meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from flamectl_operator.api.fields.update_strategy import UpdateStrategy


@dataclass(frozen=True)
class Budget:
    """The limits of an update: the most wanted executors that it may make unavailable, and the most that it may add."""

    unavailable: int
    surge: int

    @classmethod
    def of(cls, strategy: UpdateStrategy, replicas: int) -> Budget:
        """Resolve percentages as Deployments do: unavailable rounds down, surge up; if both are 0, unavailable is 1."""
        unavailable = _resolve(strategy.rolling_update.max_unavailable, replicas, up=False)
        surge = _resolve(strategy.rolling_update.max_surge, replicas, up=True)
        return cls(1 if unavailable == surge == 0 else min(unavailable, replicas), surge)


def floor(strategy: UpdateStrategy, replicas: int) -> int:
    """Return how many of the wanted executors must serve, whatever the operator deletes."""
    return replicas - Budget.of(strategy, replicas).unavailable


def replacement_floor(strategy: UpdateStrategy, replicas: int) -> int:
    """Return how many of them must serve while executors are replaced: with OnDelete there is no surge, so one may be missing."""
    least = floor(strategy, replicas)
    return min(least, replicas - 1) if strategy.type == "OnDelete" else least


def _resolve(value: int | str, replicas: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * replicas
    return -(-share // 100) if up else share // 100
