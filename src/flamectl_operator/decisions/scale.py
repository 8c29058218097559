"""How many executors are made, and which ones go, so that there are as many as wanted.

`plan_scale` brings the number of executors to what it should be, `plan_rollout` (`rollout.py`) removes those that are out of
date. A rollout is nothing more than the two taking turns: a stale executor is deleted, the next pass finds one missing and
makes it from the current template.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from flamectl_operator.decisions.attempts import executor_uncounted
from flamectl_operator.decisions.budget import wanted_now
from flamectl_operator.decisions.deletion import deletion_order, given_up_at
from flamectl_operator.decisions.hold import Hold
from flamectl_operator.observed import pods
from flamectl_operator.observed.cluster import terminal_since

if TYPE_CHECKING:
    from datetime import datetime

    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.observed.cluster import Executor, ObservedCluster
    from flamectl_operator.runtime.moment import Moment


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
    if (hold := _hold(observed, intent, now)) is not None:
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
    if creation_hold(observed, intent, now) is not None:
        return 0
    return min(max(0, wanted_now(observed, intent) - len(observed.live_executors)), limit)


def _hold(observed: ObservedCluster, intent: Intent, now: Moment) -> Hold | None:
    """Why executors that are missing are not made in this pass."""
    if (hold := creation_hold(observed, intent, now)) is not None:
        return hold
    if not intent.config_map_current(observed):
        return Hold("ConfigMapNotReady")
    if (hold := _session_manager_first(observed, intent, now.wall)) is not None:
        return hold
    if any(_uncounted(executor, intent) for executor in observed.terminal_executors):
        return Hold("Changed", until=now.wall)
    return None


def creation_hold(observed: ObservedCluster, intent: Intent, now: Moment) -> Hold | None:
    """Why executors that are missing are not made yet, as far as no earlier step of the pass can change that."""
    hold = intent.executor_attempts.back_off("executors", now.wall)
    if hold is None and intent.update_strategy.type == "Recreate":
        return _recreate_hold(observed, intent, now)
    return hold


def _session_manager_first(observed: ObservedCluster, intent: Intent, now: datetime) -> Hold | None:
    """Executors without a session manager only wait for it, and may take its place in a quota or on a node meanwhile."""
    manager, next_attempt = observed.session_manager, intent.session_manager_attempts.next_attempt
    if manager is not None:
        homeless = manager.live and pods.unschedulable_since(manager.pod) is not None
        return Hold("WaitingForSessionManager") if manager.terminal or homeless else None
    if next_attempt is None or next_attempt <= now:
        return None
    return Hold("WaitingForSessionManager", until=next_attempt)


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
