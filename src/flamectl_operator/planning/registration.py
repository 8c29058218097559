"""Decides which executors run without being registered with their session manager, and which of them are replaced.

Such an executor is ready for Kubernetes and does nothing for Flame. Nothing is decided here unless the session manager answered
the last question.

A rollout stops when a new executor does not register: see `holds_rollout`. That executor is replaced once, because its node may
be the cause, and then stays, because its image or its configuration is, and every further attempt would end alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from flamectl_operator.flame.snapshot import Load, NodeState
from flamectl_operator.planning.budget import Budget
from flamectl_operator.planning.replacement_backoff import executor_uncounted
from flamectl_operator.runtime.outcome import DONE, blocked, wait, wait_until

if TYPE_CHECKING:
    from datetime import datetime

    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.observed.executor import Executor
    from flamectl_operator.observed.group import ObservedGroup
    from flamectl_operator.planning.effective_group import EffectiveGroup
    from flamectl_operator.planning.group_comparison import GroupComparison
    from flamectl_operator.planning.replacement_backoff import ReplacementBackoff
    from flamectl_operator.runtime.clock_reading import ClockReading
    from flamectl_operator.runtime.outcome import Outcome
    from flamectl_operator.settings import FlameSettings

#: Seconds that an executor may take to register before the status reports it.
UNREGISTERED_AFTER_SECONDS = 15.0
#: Seconds after which an executor is replaced whose node is not ready for Flame, or does not come back to a session manager that
#: restarted. Flame itself drops the work of a silent node after 45 s.
LOST_AFTER = 60.0
#: The reason of an outcome for an executor that is not registered.
NOT_REGISTERED = "ExecutorNotRegistered"
#: The same when its replacement does not register either.
NONE_REGISTERS = "ExecutorsNotRegistered"


@dataclass(frozen=True)
class Unregistered:
    """An executor that runs and is not registered, or is not ready in Flame's table.

    Args:
        since: Since when that is known.
        deadline: When it is replaced.
        message: The problem, as a sentence.
        again: Whether this process saw it before the session manager answered, so that it may have to register again.
        returns: Whether it also started before the session manager, so that it may come back to its work.
        known: Whether the session manager has it in its table.
    """

    executor: Executor
    since: datetime
    deadline: datetime
    message: str
    again: bool = False
    returns: bool = False
    known: bool = False

    def new(self, group: EffectiveGroup) -> bool:
        """Return whether it is of the wanted revision and has never registered."""
        return not self.known and not self.returns and not group.stale(self.executor)


def unregistered(
    observed: ObservedCluster, group: ObservedGroup, settings: FlameSettings, now: ClockReading
) -> tuple[Unregistered, ...]:
    """Return the executors that run without being registered, by id."""
    flame = observed.flame
    snapshot = flame.fresh
    if snapshot is None:
        return ()
    found = []
    lost_after = min(LOST_AFTER, settings.registration_deadline_seconds)
    for executor in group.live:
        running_since = executor.running_since
        if running_since is None or snapshot.registered(executor.name):
            continue
        if (state := snapshot.nodes.get(executor.name)) is not None:
            since = _wall(flame.not_ready_since.get(executor.name, now.boottime), now)
            word = "NotReady" if state is NodeState.NOT_READY else "Unknown"
            message = f"{executor.name} runs, but Flame reports its node as {word}"
            found.append(Unregistered(executor, since, since + timedelta(seconds=lost_after), message, known=True))
        elif snapshot.load(executor.name)[0] is Load.NONE:
            # An executor that was there before this incarnation of the session manager has to register again.
            seen = observed.first_seen.running[executor.pod.uid]
            again = seen < flame.known_since
            # The clocks of its node and of the API server may differ, so this process counts what it has seen itself.
            since = _wall(max(seen, flame.known_since), now)
            patience = lost_after if again else settings.registration_deadline_seconds
            message = f"{executor.name} has run since {running_since:%H:%M:%S} UTC and is not registered with Flame"
            returns = again and observed.marks.was_there_before(executor)
            found.append(Unregistered(executor, since, since + timedelta(seconds=patience), message, again, returns))
    return tuple(found)


def overdue(
    observed: ObservedCluster, group: ObservedGroup, settings: FlameSettings, now: ClockReading
) -> tuple[Executor, ...]:
    """Return the executors whose time to register is over."""
    return tuple(each.executor for each in unregistered(observed, group, settings, now) if each.deadline <= now.wall)


def of_no_use(observed: ObservedCluster, group: ObservedGroup) -> frozenset[str]:
    """Return the names of executors that are ready, and that the session manager neither calls registered nor lists work on.

    An executor that was there before this incarnation of the session manager may still come back to its work.
    """
    flame = observed.flame
    snapshot = flame.fresh
    if snapshot is None:
        return frozenset()
    seen = observed.first_seen.running
    unknown = [
        each for each in group.ready if not snapshot.registered(each.name) and snapshot.load(each.name)[0] is Load.NONE
    ]
    early = [each for each in unknown if seen.get(each.pod.uid, flame.known_since) < flame.known_since]
    returning = {each.name for each in early if observed.marks.was_there_before(each)}
    return frozenset(each.name for each in unknown if each.name not in returning)


def holds_rollout(observed: ObservedCluster, group: GroupComparison, now: ClockReading) -> bool:
    """Return whether stale executors stay because a new one did not register in time, and none has shown since that it can."""
    if group.effective.backoff.failures == 0 or observed.flame.fresh is None:
        return False
    return any(
        each.new(group.effective) for each in unregistered(observed, group.observed, group.effective.settings, now)
    )


def superseded(observed: ObservedCluster, group: GroupComparison, now: ClockReading) -> frozenset[str]:
    """Return the names of stale executors that are ready, do not register and do no work, so that their deletion needs no budget.

    There are none while fewer than half of the executors are registered, because the session manager itself is in doubt then.
    """
    if observed.flame.fresh is None or 2 * len(group.observed.serving) < len(group.observed.live):
        return frozenset()
    patience = timedelta(seconds=UNREGISTERED_AFTER_SECONDS)
    missing = unregistered(observed, group.observed, group.effective.settings, now)
    late = [
        each.executor for each in missing if not each.known and not each.again and each.since + patience <= now.wall
    ]
    return frozenset(executor.name for executor in late if group.effective.stale(executor))


def unregistered_to_delete(
    observed: ObservedCluster, group: GroupComparison, now: ClockReading
) -> tuple[Executor, ...]:
    """Return the executors that are replaced now because they did not register.

    At most `maxUnavailable` are deleted at once. Only one is deleted while fewer than half are registered, or after a restart of
    the session manager, because the session manager may be the cause. Each failure counts like the end of a Pod, and delays the
    next replacement alike. In a rollout no further one is deleted after its replacement did not register either.
    """
    snapshot = observed.flame.fresh
    late = overdue(observed, group.observed, group.effective.settings, now)
    if snapshot is None or not late or group.effective.replicas == 0 or not _may_replace(group.effective.backoff, now):
        return ()
    registered = sum(snapshot.registered(executor.name) for executor in group.observed.live)
    in_doubt = 2 * registered < len(group.observed.live)
    missing = unregistered(observed, group.observed, group.effective.settings, now)
    restarted = any(each.again and each.executor in late for each in missing)
    at_once = (
        1
        if in_doubt or restarted
        else max(1, Budget.of(group.effective.update_strategy, group.effective.replicas).unavailable)
    )
    starting = max(0, group.effective.replicas - registered - len(late))
    given_up = group.effective.backoff.repeated and _rolls_out(group)
    kept = {each.executor.name for each in missing if each.new(group.effective)} if given_up else set()
    due = [executor for executor in late if executor.name not in kept]
    # A failure is counted first. A stale executor, and one that has worked for long, say nothing about their replacements.
    found = [each for each in due if not executor_uncounted(each, group.effective.backoff, group.effective.settings)]
    return tuple(found[: max(0, at_once - starting)])


def registration_outcome(observed: ObservedCluster, group: GroupComparison, now: ClockReading) -> Outcome:
    """Return the outcome about executors that are not registered, and when to look again."""
    missing = unregistered(observed, group.observed, group.effective.settings, now)
    if not missing:
        return DONE
    patience = timedelta(seconds=UNREGISTERED_AFTER_SECONDS)
    times = [time for each in missing for time in (each.since + patience, each.deadline) if time > now.wall]
    late = [each for each in missing if each.since + patience <= now.wall]
    message = late[0].message if late else ""
    if len(late) > 1:
        message += f", and {len(late) - 1} more"
    found = wait_until(NOT_REGISTERED, min(times), now.wall, message) if times else wait(NOT_REGISTERED, message)
    new = [each for each in late if each.new(group.effective)]
    if not new or group.effective.backoff.failures == 0:
        return found
    return blocked(NONE_REGISTERS, f"{new[0].message}: {_advice(group)}", found.delay)


def _advice(group: GroupComparison) -> str:
    """Return what a person can do, and what happens until then."""
    look = "look at its log, and correct spec.executorManager"
    if not _rolls_out(group):
        return look
    stale = len(group.observed.live) - len(group.fresh)
    stay = (
        "1 executor of the earlier revision stays" if stale == 1 else f"{stale} executors of the earlier revision stay"
    )
    return f"{look}. The rollout has stopped until the spec changes, and {stay}"


def _rolls_out(group: GroupComparison) -> bool:
    """Return whether executors of an earlier revision are still there."""
    return len(group.fresh) < len(group.observed.live)


def _may_replace(backoff: ReplacementBackoff, now: ClockReading) -> bool:
    return backoff.next_attempt is None or backoff.next_attempt <= now.wall


def _wall(boottime: float, now: ClockReading) -> datetime:
    return now.wall - timedelta(seconds=max(0.0, now.boottime - boottime))
