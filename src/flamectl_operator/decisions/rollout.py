"""Which executors are replaced: those of an earlier session manager, and those that are out of date."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flamectl_operator.decisions.budget import Budget
from flamectl_operator.decisions.deletion import deletion_order
from flamectl_operator.decisions.hold import Hold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.observed.cluster import Executor, ObservedCluster

#: Why an executor is replaced, in words for an event.
LOST = "started under an earlier session manager"
STALE = "no longer as specified"


@dataclass(frozen=True)
class RolloutPlan:
    """What brings executors up to date.

    Args:
        delete: Executors to be replaced, each with the reason in a few words.
        rebind: Executors that wait for the session manager and now wait for its new life.
        holds: What is put off, and why.
    """

    delete: tuple[tuple[Executor, str], ...] = ()
    rebind: tuple[Executor, ...] = ()
    holds: tuple[Hold, ...] = ()

    @property
    def stale(self) -> tuple[Executor, ...]:
        """Those that go because they are stale, and could stay."""
        return tuple(executor for executor, why in self.delete if why == STALE)


def plan_rollout(observed: ObservedCluster, intent: Intent, *, keep_stale: bool = False) -> RolloutPlan:
    """Decides which executors are to be replaced now.

    First come those that started under an earlier life of the session manager: they would spin for ever. All of them go at
    once, whatever the strategy says. Then the stale ones, as the strategy has it. None goes before the session manager is ready,
    and no stale one before it is current: executors come second. Those that still wait for it need no more than its new name,
    and better before it is ready than after, for then they start.

    Args:
        observed: What is there.
        intent: What is wanted.
        keep_stale: Whether stale ones have to stay for now.
    """
    outdated = [executor for executor in observed.live_executors if intent.stale(executor)]
    others = [executor for executor in observed.live_executors if not observed.follows(executor)]
    waiting = (Hold("WaitingForSessionManager"),)
    if not observed.session_manager_ready:
        fresh = tuple(each for each in others if not each.started and not intent.stale(each))
        return RolloutPlan(rebind=fresh if _starting(observed) else (), holds=waiting if outdated or others else ())
    current = intent.session_manager_current(observed)
    lost = [executor for executor in others if executor.started]
    gone = {executor.name for executor in lost}
    stale = [executor for executor in outdated if executor.name not in gone]
    serving = [each for each in observed.ready_executors if each.name not in gone]
    chosen = _stale_to_delete(intent, stale, serving) if current and not keep_stale else []
    leaving = gone | {executor.name for executor in chosen}
    left = len(stale) - len(chosen)
    return RolloutPlan(
        delete=(
            *((executor, LOST) for executor in lost),
            *((executor, STALE) for executor in chosen),
        ),
        rebind=tuple(executor for executor in others if not executor.started and executor.name not in leaving),
        holds=((_rollout_hold(observed, intent, left),) if current else waiting) if left else (),
    )


def _starting(observed: ObservedCluster) -> bool:
    """Whether the session manager is there and has not failed: its life may be the one that executors will find."""
    manager = observed.session_manager
    return manager is not None and manager.live and manager.trouble is None


def _stale_to_delete(intent: Intent, stale: Sequence[Executor], ready: Sequence[Executor]) -> list[Executor]:
    strategy = intent.update_strategy
    if strategy.type == "OnDelete" or not stale:
        return []
    if strategy.type == "Recreate":
        return list(stale)
    # One that is not ready serves nobody: to delete it takes nothing from what is available, so it needs no budget.
    # That is what lets a broken rollout be taken back, or overtaken.
    free = [executor for executor in stale if not executor.ready]
    if intent.executor_attempts.repeated:
        # Each attempt is ready for a moment, before it fails: without this, each would cost some that work.
        return free
    budget = Budget.of(strategy, intent.replicas)
    spare = max(0, len(ready) - (intent.replicas - budget.unavailable))
    serving = [executor for executor in stale if executor.ready]
    return free + deletion_order(serving, intent)[:spare]


def _rollout_hold(observed: ObservedCluster, intent: Intent, left: int) -> Hold:
    if intent.update_strategy.type == "OnDelete":
        return Hold("OnDelete", f"{left} executors are stale and are replaced when somebody deletes them")
    fresh = sum(not intent.stale(executor) for executor in observed.live_executors)
    message = f"rolling update: {fresh} of {intent.replicas} executors are on the current revision"
    if intent.executor_attempts.repeated:
        message += (
            f"; some failed, and it goes on once one made since has been ready for {intent.settings.stable_after_seconds:.0f} s"
        )
    return Hold("RollingUpdate", message)
