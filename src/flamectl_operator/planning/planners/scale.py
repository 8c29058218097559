"""Decides how many executors to create, and which ones to delete, to reach the wanted number.

`plan_scale` adjusts the number of executors, and `plan_rollout` (`rollout.py`) removes stale ones. A rollout is the two in turns:
a stale executor is deleted, and the next pass finds one missing and creates it from the current template.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from flamectl_operator.flame.knowledge import ANSWER_RECHECK_SECONDS
from flamectl_operator.observed import scheduling
from flamectl_operator.observed.component import terminal_since
from flamectl_operator.observed.executor import Executor
from flamectl_operator.observed.ownership import DETACHED_RECHECK_SECONDS, lost_metadata
from flamectl_operator.planning.comparison import Comparison, GroupComparison
from flamectl_operator.planning.deletion_order import deletion_order
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.planning.effective.failure_counts import executor_uncounted
from flamectl_operator.planning.planners.drain import split_drainable, undecided
from flamectl_operator.planning.registration import NOT_REGISTERED, of_no_use, unregistered_to_delete
from flamectl_operator.planning.sub_plans import ScalePlan
from flamectl_operator.planning.termination import finalizers_in_brackets, given_up_at
from flamectl_operator.runtime.clock_reading import CLOCKS_DIFFER
from flamectl_operator.runtime.outcome import Outcome, blocked, wait, wait_until
from flamectl_operator.runtime.text import counted

#: The executors that may run without their labels or their owner while further ones are created; as many as are wanted, if that
#: is more.
MAX_DETACHED = 10


def plan_scale(group: GroupComparison, compared: Comparison) -> ScalePlan:
    """Decide how many executors to create, or which ones to delete."""
    live, target = group.observed.live, _wanted_now(group, compared)
    delete_terminal, waits = _terminal_to_delete(group)
    if len(live) > target:
        if undecided(group, compared):
            waits = (*waits, wait("AskingSessionManager", "", ANSWER_RECHECK_SECONDS))
            return ScalePlan(target, delete_terminal=delete_terminal, waits=waits)
        surplus, deferrals = _surplus(group, len(live) - target)
        drain, delete = split_drainable(surplus, group)
        waits = (*waits, *deferrals)
        return ScalePlan(target, delete_terminal=delete_terminal, drain=drain, delete=delete, waits=waits)
    unregistered = group.cluster.deletable(unregistered_to_delete(group))
    plan = ScalePlan(target, delete_terminal=delete_terminal, delete_unregistered=unregistered, waits=waits)
    missing = target - group.occupied
    if missing <= 0:
        return plan
    if (deferral := _wait_before_creating(group, compared)) is not None:
        return replace(plan, waits=(*waits, deferral))
    return replace(plan, create=min(missing, compared.facts.max_creates), missing=missing)


def _surplus(group: GroupComparison, count: int) -> tuple[list[Executor], tuple[Outcome, ...]]:
    """Return so many executors to delete, and the wait for those among them that must stay, because too few others serve.

    The others may still come back to their work. If they do not, they become overdue, and are deleted first.
    """
    cluster, existing, wanted = group.cluster, group.observed, group.effective
    useless = of_no_use(group) | {each.name for each in group.overdue}
    order = deletion_order(cluster.deletable(existing.live), wanted, cluster.last_answer, useless)[:count]
    serving = {each.name for each in existing.serving}
    spare = len(serving) - wanted.floor
    chosen: list[Executor] = []
    for executor in order:
        if executor.name in serving and wanted.update_strategy.type != "Recreate":
            spare -= 1
            if spare < 0:
                continue
        chosen.append(executor)
    return chosen, () if len(chosen) == len(order) else (wait(NOT_REGISTERED),)


def _wanted_now(group: GroupComparison, compared: Comparison) -> int:
    """Return the number of executors for now: the wanted number, plus the surge in a rolling update.

    While nothing may be replaced, because the session manager or an object cache comes first, the surge stays constant.
    """
    replicas = group.effective.replicas
    stale = group.cluster.deletable(group.to_replace)
    if replicas == 0:
        return replicas
    most = replicas + min(group.effective.surge, len(stale))
    if not compared.session_manager_first and not compared.object_caches_first:
        return most
    return max(replicas, min(len(group.observed.live), most))


def ids_to_reserve(group: GroupComparison, target: int, limit: int) -> int:
    """Return how many executors this pass may create at most, after the earlier steps have run, by the group at its beginning."""
    missing = max(0, target - group.occupied)
    return min(missing, limit) if missing and wait_before_reserving(group) is None else 0


def _wait_before_creating(group: GroupComparison, compared: Comparison) -> Outcome | None:
    """Return why missing executors are not created in this pass."""
    if (deferral := wait_before_reserving(group)) is not None:
        return deferral
    if not compared.config_map_current:
        return wait("ConfigMapNotReady")
    if group.cluster.session_manager_quota_refused:
        return wait("WaitingForSessionManager")  # freed quota is for the session manager
    if (deferral := _session_manager_first(compared)) is not None:
        return deferral
    if any(_uncounted(executor, group.effective) for executor in group.observed.terminal):
        return wait("Changed", delay=0)
    return None


def wait_before_reserving(group: GroupComparison) -> Outcome | None:
    """Return why missing executors are not created yet, unless an earlier step of the pass can change that."""
    deferral = group.effective.backoff.back_off("executors", group.now.wall)
    if deferral is None and group.effective.update_strategy.type == "Recreate":
        deferral = _recreate_wait(group)
    return deferral or _many_detached(group)


def _many_detached(group: GroupComparison) -> Outcome | None:
    """Return why no executor is created while many run without their labels or their owner: each new one would lose them as well.

    A person removes the labels of a few executors for inspection.
    """
    detached = group.cluster.detached
    if len(detached) <= max(MAX_DETACHED, group.effective.replicas):
        return None
    lost = lost_metadata(detached[-1], group.cluster.owner)
    return blocked(
        "LabelsChanged",
        f"{len(detached)} executors, such as {detached[-1].name}, run and lack {lost}, so the operator creates no more"
        " (stop the program that removes it, then delete these Pods)",
        DETACHED_RECHECK_SECONDS if group.cluster.sources.detached_read else None,
    )


def _session_manager_first(compared: Comparison) -> Outcome | None:
    """Wait for the session manager, because executors would take its room in a quota or on a node.

    A scheduler that places a group of Pods at once may wait for the executors before it gives the session manager a node.
    """
    manager, due_at = compared.observed.session_manager, compared.session_manager_due_at
    if manager is not None:
        pod = manager.pod
        unschedulable = manager.live and scheduling.unschedulable_since(pod) is not None
        first = manager.terminal or (unschedulable and not scheduling.waits_for_group(pod))
        return wait("WaitingForSessionManager") if first else None
    if due_at is None or due_at <= compared.now.wall:
        return None
    return wait_until("WaitingForSessionManager", due_at, compared.now.wall)


def _recreate_wait(group: GroupComparison) -> Outcome | None:
    """Wait for old executors to be gone, because `Recreate` never runs two revisions side by side.

    An executor that never terminates, because its node is lost, does not block the others for ever.
    """
    now, settings = group.now, group.effective.settings
    stale = [each for each in group.observed.executors if group.effective.stale(each) and not each.terminal]
    old = f"{counted(len(stale), 'executor')} of the old revision"
    if any(not executor.terminating for executor in stale):
        return wait("Recreate", f"waiting for {old} to be deleted")
    latest = max((given_up_at(group.cluster, executor, settings, now) for executor in stale), default=now.wall)
    if latest <= now.wall:
        return None
    finalizers = next((brackets for each in stale if (brackets := finalizers_in_brackets(each.pod))), "")
    return wait_until("Recreate", latest, now.wall, f"waiting for {old} to terminate{finalizers}")


def _terminal_to_delete(group: GroupComparison) -> tuple[tuple[Executor, ...], tuple[Outcome, ...]]:
    """Return the terminal executors that are due for deletion, and when the next ones are due."""
    wanted, now = group.effective, group.now.wall
    retention = timedelta(seconds=wanted.settings.terminal_pod_retention_seconds)
    due: list[Executor] = []
    later: list[datetime] = []
    for executor in group.cluster.deletable(group.observed.terminal):
        ended = terminal_since(executor)
        if _uncounted(executor, wanted):
            later.append(now)
        elif wanted.suspended or ended is None or ended + retention <= now or ended > now + CLOCKS_DIFFER:
            # An end in the future is by a clock that is wrong, and says nothing about the time since then.
            due.append(executor)
        else:
            later.append(ended + retention)
    return tuple(due), (wait_until("TerminalPods", min(later), now),) if later else ()


def _uncounted(executor: Executor, wanted: EffectiveGroup) -> bool:
    """Return whether it failed since the pass began; the next pass counts the failure before it replaces the executor."""
    return wanted.replicas > 0 and executor_uncounted(executor, wanted)
