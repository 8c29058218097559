"""Which executors are replaced: those of an earlier session manager, and those that are out of date."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from flamectl_operator.decisions.budget import Budget
from flamectl_operator.decisions.deletion import deletion_order
from flamectl_operator.decisions.hold import Hold
from flamectl_operator.observed import pods

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.observed.cluster import Component, Executor, ObservedCluster
    from flamectl_operator.runtime.moment import Moment

#: Why an executor is replaced, in words for an event.
LOST = "started under an earlier session manager"
STALE = "no longer as specified"
CROWDING = "the session manager needs their room"

#: For how long the session manager finds no node before executors that wait for it have to go, in seconds: another node may be
#: on its way.
ROOM_PATIENCE = 60.0

_WAITING = Hold("WaitingForSessionManager")


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


def plan_rollout(
    observed: ObservedCluster, intent: Intent, now: Moment, *, keep_stale: bool = False, crowded_out: bool = False
) -> RolloutPlan:
    """Decides which executors are to be replaced now.

    First come those that started under an earlier life of the session manager: they would spin for ever. All of them go at
    once, whatever the strategy says. Then the stale ones, as the strategy has it. None of these goes before the session manager
    is ready, and no stale one before it is current: executors come second. Unless it is they who take the room it needs.

    Args:
        observed: What is there.
        intent: What is wanted.
        now: The time.
        keep_stale: Whether stale ones have to stay for now.
        crowded_out: Whether a quota has no room for the session manager.
    """
    if not observed.session_manager_ready:
        return _without_session_manager(observed, intent, now, crowded_out=crowded_out)
    others = [executor for executor in observed.live_executors if not observed.follows(executor)]
    current = intent.session_manager_current(observed)
    lost = [executor for executor in others if executor.started]
    gone = {executor.name for executor in lost}
    stale = [each for each in observed.live_executors if intent.stale(each) and each.name not in gone]
    serving = [each for each in observed.ready_executors if each.name not in gone]
    chosen = _stale_to_delete(intent, stale, serving) if current and not keep_stale else []
    leaving = gone | {executor.name for executor in chosen}
    left = len(stale) - len(chosen)
    hold = _rollout_hold(observed, intent, left) if current else _WAITING
    return RolloutPlan(
        delete=(
            *((executor, LOST) for executor in lost),
            *((executor, STALE) for executor in chosen),
        ),
        rebind=tuple(executor for executor in others if not executor.started and executor.name not in leaving),
        holds=(hold,) if left else (),
    )


def _without_session_manager(
    observed: ObservedCluster, intent: Intent, now: Moment, *, crowded_out: bool
) -> RolloutPlan:
    """What to do about executors before the session manager is ready: none of them serves anybody.

    Those that wait for it need no more than its new name, and better now than when it is ready, for then they start. But where
    it finds no node, or a quota has no room for it, those go that will be replaced in any case, and if that has not helped
    after a while, those that wait as well.
    """
    live = observed.live_executors
    others = [executor for executor in live if not observed.follows(executor)]
    holds = (_WAITING,) if others or any(map(intent.stale, live)) else ()
    if crowded_out:
        # Those that wait go one by one, for a quota may be slow to count what has gone.
        started = [executor for executor in live if executor.started]
        return _make_room(started or deletion_order(live, intent)[:1], holds)
    starting = _starting(observed)
    since = _homeless_since(observed, starting, now) if starting is not None else None
    if since is None:
        fresh = tuple(each for each in others if not each.started and not intent.stale(each))
        return RolloutPlan(rebind=() if starting is None else fresh, holds=holds)
    if placed := [executor for executor in live if executor.pod.spec.node_name]:
        until = since + timedelta(seconds=ROOM_PATIENCE)
        if until <= now.wall:
            return _make_room(placed, holds)
        holds = (Hold("WaitingForSessionManager", until=until),)
    return _make_room([executor for executor in others if executor.started], holds)


def _make_room(executors: Sequence[Executor], holds: tuple[Hold, ...]) -> RolloutPlan:
    return RolloutPlan(delete=tuple((executor, CROWDING) for executor in executors), holds=holds)


def _homeless_since(observed: ObservedCluster, manager: Component, now: Moment) -> datetime | None:
    """Since when the scheduler has found no node for the session manager.

    Its condition may be older than that: while a gate held the Pod back, it had the same one for another reason.
    """
    since = pods.unschedulable_since(manager.pod)
    if since is None or observed.homeless is None:
        return None
    return max(since, now.wall - timedelta(seconds=now.boottime - observed.homeless))


def _starting(observed: ObservedCluster) -> Component | None:
    """The session manager, if it is there and has not failed: its life may be the one that executors will find."""
    manager = observed.session_manager
    return manager if manager is not None and manager.live and manager.trouble is None else None


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
        seconds = intent.settings.stable_after_seconds
        message += f"; some failed, and it goes on once one made since has been ready for {seconds:.0f} s"
    return Hold("RollingUpdate", message)
