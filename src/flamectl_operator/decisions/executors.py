"""How many executors there should be, which ones go, and which ones are replaced.

Two plans, made from the same snapshot: `plan_scale` brings the number of executors to what it should be, `plan_rollout`
removes those that are out of date. A rollout is nothing more than the two taking turns: a stale executor is deleted, the
next pass finds one missing and makes it from the current template.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from flamectl_operator.decisions.attempts import executor_uncounted
from flamectl_operator.observed.cluster import Executor, terminal_since

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from flamectl_operator.api.flamecluster import ExecutorManagerSpec, UpdateStrategy
    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.observed.cluster import Component, ObservedCluster
    from flamectl_operator.runtime.moment import Moment

#: Set by users, as for ReplicaSets: what is cheaper to delete goes first.
DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"

#: What a grace period counts for at the most, in seconds: some thirty years, for the API server takes thousands.
LONGEST_GRACE = 10**9

#: Why an executor is replaced, in words for an event.
LOST = "started under an earlier session manager"
STALE = "no longer as specified"


@dataclass(frozen=True)
class Hold:
    """Why something that should happen does not happen yet.

    Args:
        reason: One CamelCase word.
        message: A sentence for the status; empty when it is nobody's concern.
        until: When to look again; None when an event will tell.
    """

    reason: str
    message: str = ""
    until: datetime | None = None


@dataclass(frozen=True)
class ScalePlan:
    """What brings the number of executors to what it should be.

    Args:
        target: How many there should be for now, surge included.
        create: How many are to be made in this pass.
        missing: How many are to be made in all.
        delete: Surplus executors, in the order in which they go.
        bury: Terminal executors whose time to be looked at is over.
        holds: What is put off, and why.
    """

    target: int
    create: int = 0
    missing: int = 0
    delete: tuple[Executor, ...] = ()
    bury: tuple[Executor, ...] = ()
    holds: tuple[Hold, ...] = ()


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


def plan_scale(observed: ObservedCluster, intent: Intent, now: Moment, limit: int) -> ScalePlan:
    """Decides how many executors to make, or which ones to delete.

    Args:
        observed: What is there.
        intent: What is wanted.
        now: The time.
        limit: How many may be made in one pass.
    """
    live = observed.live_executors
    target = wanted_now(observed, intent)
    bury, holds = _burials(observed, intent, now.wall)
    if len(live) > target:
        surplus = deletion_order(live, intent)[: len(live) - target]
        return ScalePlan(target, delete=tuple(surplus), bury=bury, holds=holds)
    if len(live) == target:
        return ScalePlan(target, bury=bury, holds=holds)
    hold = creation_hold(intent, observed, now)
    if hold is None and not intent.config_map_current(observed):
        hold = Hold("ConfigMapNotReady")
    if hold is None:
        hold = _session_manager_first(observed, intent, now.wall)
    if hold is None and any(_uncounted(executor, intent) for executor in observed.terminal_executors):
        hold = Hold("Changed", until=now.wall)
    if hold is not None:
        return ScalePlan(target, bury=bury, holds=(*holds, hold))
    missing = target - len(live)
    return ScalePlan(target, create=min(missing, limit), missing=missing, bury=bury, holds=holds)


def ids_to_reserve(observed: ObservedCluster, intent: Intent, now: Moment, limit: int) -> int:
    """How many executors this pass may come to make, once the steps before have prepared the ground.

    Args:
        observed: What is there when the pass begins.
        intent: What is wanted.
        now: The time.
        limit: How many may be made in one pass.
    """
    if creation_hold(intent, observed, now) is not None:
        return 0
    return min(max(0, wanted_now(observed, intent) - len(observed.live_executors)), limit)


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


def deletion_order(executors: Iterable[Executor], intent: Intent) -> list[Executor]:
    """Executors in the order in which they are given up, after ReplicaSet's ranking.

    Not scheduled, then pending, then not ready, then lower deletion cost, then stale, then highest id.
    """
    return sorted(
        executors,
        key=lambda executor: (
            executor.pod.spec.node_name != "",
            executor.pod.status.phase != "Pending",
            executor.ready,
            _deletion_cost(executor),
            not intent.stale(executor),
            -executor.executor_id,
        ),
    )


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
            f"; it goes on once those have been ready for {intent.settings.stable_after_seconds:.0f} s, for they failed"
        )
    return Hold("RollingUpdate", message)


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


def creation_hold(intent: Intent, observed: ObservedCluster, now: Moment) -> Hold | None:
    """Why executors that are missing are not made yet, as far as no earlier step of the pass can change that."""
    attempts = intent.executor_attempts
    if attempts.next_attempt is not None and now.wall < attempts.next_attempt:
        when = f"{attempts.next_attempt:%H:%M:%S} UTC"
        message = f"executors failed {attempts.failures} times in a row; next attempt at {when}"
        return Hold("BackOff", message, attempts.next_attempt)
    if intent.update_strategy.type == "Recreate":
        return _recreate_hold(observed, intent, now)
    return None


def _session_manager_first(observed: ObservedCluster, intent: Intent, now: datetime) -> Hold | None:
    """Executors without a session manager only wait for it: until there may be one again, none takes its place in a quota."""
    manager, next_attempt = observed.session_manager, intent.session_manager_attempts.next_attempt
    if manager is not None:
        return Hold("WaitingForSessionManager") if manager.terminal else None
    if next_attempt is None or next_attempt <= now:
        return None
    return Hold("WaitingForSessionManager", until=next_attempt)


def given_up_at(observed: ObservedCluster, component: Component, intent: Intent, now: Moment) -> datetime:
    """When a Pod on its way out is given up: its grace period and `forceDeleteAfterSeconds` after this process first saw it go.

    Its deletionTimestamp could tell it sooner, above all after a restart of the operator. But that is by the API server's clock,
    and with one that is behind ours a Pod would be given up that is still alive.

    Args:
        observed: What is there.
        component: The Pod.
        intent: What is wanted.
        now: The time.
    """
    seen = now.boottime - observed.departures.get(component.pod.uid, now.boottime)
    grace = min(component.pod.metadata.deletion_grace_period_seconds or 0, LONGEST_GRACE)
    return now.wall + timedelta(seconds=grace + intent.settings.force_delete_after_seconds - seen)


def _recreate_hold(observed: ObservedCluster, intent: Intent, now: Moment) -> Hold | None:
    """`Recreate` promises that two revisions never run side by side: wait for the old ones to be gone.

    One that never goes (its node is lost) does not hold up the rest for ever.
    """
    stale = [executor for executor in observed.executors if intent.stale(executor) and not executor.terminal]
    if any(executor.live for executor in stale):
        return Hold("Recreate", f"waiting for {len(stale)} executors of the old revision to go")
    latest = max((given_up_at(observed, executor, intent, now) for executor in stale), default=now.wall)
    if latest <= now.wall:
        return None
    return Hold("Recreate", f"waiting for {len(stale)} executors of the old revision to be gone", latest)


def _burials(observed: ObservedCluster, intent: Intent, now: datetime) -> tuple[tuple[Executor, ...], tuple[Hold, ...]]:
    """Terminal executors that are due to be deleted, and when the next ones are."""
    retention = timedelta(seconds=intent.settings.terminal_pod_retention_seconds)
    due: list[Executor] = []
    later: list[datetime] = []
    for executor in observed.terminal_executors:
        ended = terminal_since(executor)
        if _uncounted(executor, intent):
            later.append(now)
        elif intent.suspended or ended is None or ended + retention <= now:
            due.append(executor)
        else:
            later.append(ended + retention)
    return tuple(due), (Hold("TerminalPods", until=min(later)),) if later else ()


def _uncounted(executor: Executor, intent: Intent) -> bool:
    """Whether it failed since the pass began: the next one counts that, before it is replaced or buried."""
    return intent.replicas > 0 and executor_uncounted(executor, intent.executor_attempts, intent.settings)


def _deletion_cost(executor: Executor) -> int:
    try:
        return int(executor.pod.annotations.get(DELETION_COST_ANNOTATION, "0"))
    except ValueError:
        return 0


def _resolve(value: int | str, replicas: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * replicas
    return -(-share // 100) if up else share // 100
