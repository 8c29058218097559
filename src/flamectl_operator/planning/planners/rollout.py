"""Decides which Pods are replaced now: executors here, the session manager and object caches in `replacement`."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from flamectl_operator.flame.knowledge import ANSWER_RECHECK_SECONDS
from flamectl_operator.observed import scheduling
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.edited_images import what_runs
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.comparison import Comparison, GroupComparison
from flamectl_operator.planning.deletion_order import deletion_order
from flamectl_operator.planning.planners.drain import split_drainable, undecided
from flamectl_operator.planning.planners.replacement import (
    accepts_executors,
    plan_session_manager_rollout,
    with_object_caches,
)
from flamectl_operator.planning.registration import holds_rollout, of_no_use, stale_of_no_use
from flamectl_operator.planning.removals import RemovalReason
from flamectl_operator.planning.sub_plans import RolloutPlan
from flamectl_operator.runtime.clock_reading import ClockReading
from flamectl_operator.runtime.outcome import Outcome, wait, wait_until
from flamectl_operator.runtime.text import counted

#: Seconds that the session manager may be unschedulable before executors that wait for it are deleted, because another node may
#: be on its way.
ROOM_TIMEOUT_SECONDS = 60.0

#: Seconds that a quota may refuse the session manager before executors are deleted whose sessions persist: a quota is slow to
#: count a Pod that is gone, such as the earlier session manager.
QUOTA_TIMEOUT_SECONDS = 10.0

_WAITING = wait("WaitingForSessionManager")


def plan_rollout(group: GroupComparison, compared: Comparison, refused_since: float | None) -> RolloutPlan:
    """Decide which stale Pods to replace now: the session manager alone, or else object caches and executors.

    Args:
        refused_since: Since when, by `boottime`, a quota that is used up alone keeps the session manager from being created; None
            otherwise.
    """
    plan = plan_session_manager_rollout(compared)
    return plan or with_object_caches(_plan_executors(group, compared, refused_since), compared)


def _plan_executors(group: GroupComparison, compared: Comparison, refused_since: float | None) -> RolloutPlan:
    """Decide which executors to replace now.

    Executors that started under an earlier incarnation of the session manager come first, because they would retry for ever. All
    of them are deleted at once, whatever the strategy says. Stale executors follow within the strategy's budget.

    No executor is deleted before the session manager is ready, and no stale one before the session manager and the object caches
    are current. The exception are executors that take the room that the session manager needs.
    """
    cluster, existing = group.cluster, group.observed
    if not cluster.session_manager_ready:
        return _without_session_manager(group, compared, refused_since)
    others = existing.unbound
    lost = [each for each in cluster.deletable(others) if each.started and not cluster.bindings.is_invalid(each)]
    gone = {executor.name for executor in lost}
    stale = [each for each in group.to_replace if each.name not in gone]
    serving = [each for each in existing.serving if each.name not in gone] if stale else []
    manager_first, caches_first = compared.session_manager_first, compared.object_caches_first
    due = stale
    if group.effective.update_strategy.type == "OnDelete":
        # The change of a spec waits for a user. An executor of an earlier session manager does not, because Flame has lost it.
        invalid = {executor.name for executor in existing.unverifiable}
        due = [executor for executor in stale if executor.name in invalid]
    asking = bool(due) and undecided(group, compared)
    accepted = accepts_executors(group.effective.desired, compared.facts)
    may_replace = not manager_first and not caches_first and accepted and not asking
    chosen = _stale_to_delete(group, cluster.deletable(due), serving) if may_replace else []
    leaving = gone | {executor.name for executor in chosen}
    drain, delete = split_drainable(chosen, group)
    left = [executor for executor in stale if executor.name not in leaving]
    if manager_first:
        deferral = _WAITING
    elif caches_first:
        deferral = wait("WaitingForObjectCache")
    else:
        deferral = _rollout_wait(group, len(left), len(stale) - len(due))
    ask = (wait("AskingSessionManager", "", ANSWER_RECHECK_SECONDS),) if asking else ()
    return RolloutPlan(
        delete=(
            *((executor, RemovalReason.EARLIER_SESSION_MANAGER) for executor in lost),
            *((executor, RemovalReason.STALE) for executor in delete),
        ),
        drain=drain,
        rebind=tuple(executor for executor in others if not executor.started and executor.name not in leaving),
        reannotate=tuple(executor for executor in existing.to_reannotate if executor.name not in leaving),
        waits=(deferral, *ask) if left else (),
    )


def _without_session_manager(group: GroupComparison, compared: Comparison, refused_since: float | None) -> RolloutPlan:
    """Plan while the session manager is not ready, so that no executor serves a session.

    Executors that wait for the session manager only need its new incarnation, and they need it before it is ready, because then
    they start. If the session manager lacks room on the nodes, or is refused by a quota, executors that will be replaced anyway
    are deleted. If that has not helped after a while, waiting executors are deleted as well.
    """
    cluster, others = group.cluster, group.observed.unbound
    live = cluster.deletable(group.observed.live)
    waits = (_WAITING,) if others or group.stale else ()
    if refused_since is not None:
        # Waiting executors are deleted one by one, because a quota may be slow to count deleted Pods.
        started = [
            each for each in live if each.started and not compared.finds_sessions(each.session_manager_incarnation)
        ]
        first = deletion_order(live, group.effective)[:1]
        until = group.now.wall + timedelta(seconds=QUOTA_TIMEOUT_SECONDS - (group.now.boottime - refused_since))
        if not started and first and first[0].started and group.now.wall < until:
            return RolloutPlan(waits=(wait_until("WaitingForSessionManager", until, group.now.wall),))
        return _make_room(started or first, waits)
    manager = cluster.session_manager
    starting = manager if manager is not None and manager.live and manager.failure is None else None
    since = None if starting is None else _without_room_since(cluster, starting, group.now)
    if since is None:
        waiting = tuple(each for each in others if not each.started and not group.effective.stale(each))
        return RolloutPlan(rebind=() if starting is None else waiting, waits=waits)
    if placed := [executor for executor in live if executor.pod.spec.node_name]:
        until = since + timedelta(seconds=ROOM_TIMEOUT_SECONDS)
        if until <= group.now.wall:
            return _make_room(placed, waits)
        waits = (wait_until("WaitingForSessionManager", until, group.now.wall),)
    return _make_room([executor for executor in cluster.deletable(others) if executor.started], waits)


def _make_room(executors: Sequence[Executor], waits: tuple[Outcome, ...]) -> RolloutPlan:
    return RolloutPlan(delete=tuple((executor, RemovalReason.MAKE_ROOM) for executor in executors), waits=waits)


def _without_room_since(observed: ObservedCluster, manager: Component, now: ClockReading) -> datetime | None:
    """Return since when the scheduler has found no node for the session manager; None if room of executors would not help.

    Its condition may be older, because a Pod with scheduling gates has the same condition for another reason.
    """
    since = scheduling.unschedulable_since(manager.pod)
    seen = observed.first_seen.unschedulable.get(manager.pod.uid)
    if since is None or seen is None or not scheduling.room_may_help(manager.pod):
        return None
    return max(since, now.wall - timedelta(seconds=now.boottime - seen))


def _stale_to_delete(group: GroupComparison, stale: Sequence[Executor], serving: Sequence[Executor]) -> list[Executor]:
    strategy = group.effective.update_strategy
    if not stale or strategy.type == "Recreate":
        return list(stale)
    # A stale executor that is not ready, or does not register, can be deleted without budget, because it does not serve. So a
    # broken rollout can be rolled back or superseded.
    useless = stale_of_no_use(group)
    free = [executor for executor in stale if not executor.ready or executor.name in useless]
    if group.effective.backoff.repeated or holds_rollout(group):
        # Each attempt is ready for a moment before it fails, so without this each attempt would cost working executors.
        return free
    spare = max(0, len(serving) - group.effective.replacement_floor)
    ready = [executor for executor in stale if executor.ready and executor.name not in useless]
    return free + deletion_order(ready, group.effective, group.cluster.last_answer, of_no_use(group))[:spare]


def _rollout_wait(group: GroupComparison, left: int, kept: int) -> Outcome:
    """Return the wait for the executors that are left. `kept` of them wait for a user."""
    if kept:
        stale = counted(kept, "stale executor")
        run = "runs" if kept == 1 else "run"
        what = what_runs(group.stale, group.effective.desired.template)
        return wait("OnDelete", f"{stale} {run} {what} (OnDelete): delete their Pods to replace them")
    if group.effective.update_strategy.type == "OnDelete":
        return wait("RollingUpdate", f"replacing {counted(left, 'executor')} of an earlier session manager")
    up_to_date = len(group.up_to_date)
    message = f"rolling update: {up_to_date} of {group.effective.replicas} executors are on the current revision"
    if group.effective.backoff.repeated and not holds_rollout(group):
        seconds = group.effective.settings.stable_after_seconds
        message += f"; new executors failed, so it goes on after one has been ready for {seconds:.0f} s, or with the next change"
    return wait("RollingUpdate", message)
