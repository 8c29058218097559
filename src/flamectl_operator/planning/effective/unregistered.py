"""Executors that run without being registered with their session manager: ready for Kubernetes, and of no use to Flame."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf

from flamectl_operator.flame.answer import Load, NodeState
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.executor import Executor
from flamectl_operator.observed.group import ObservedGroup
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.runtime.clock_reading import ClockReading
from flamectl_operator.runtime.text import time_of_day
from flamectl_operator.settings.model import FlameSettings

#: Seconds after which an executor is replaced whose node is not ready for Flame, or does not come back to a session manager that
#: restarted. Flame itself drops the work of a silent node after 45 s.
LOST_AFTER = 60.0


@dataclass(frozen=True)
class Unregistered:
    """An executor that runs and is not registered, or is not ready in Flame's table.

    Args:
        must_reregister: Whether this process saw it before the session manager answered, so that it may have to register again.
        may_resume_work: Whether it may come back to its work, because it was there before this incarnation, or an earlier answer
            lists it.
        listed: Whether the session manager has it in its table.
    """

    executor: Executor
    since: datetime
    deadline: datetime
    message: str
    must_reregister: bool = False
    may_resume_work: bool = False
    listed: bool = False

    def never_registered(self, wanted: EffectiveGroup) -> bool:
        """Return whether it is of the wanted revision and has never registered."""
        return not self.listed and not self.may_resume_work and not wanted.stale(self.executor)


def find_unregistered(
    observed: ObservedCluster, existing: ObservedGroup, settings: FlameSettings, now: ClockReading
) -> tuple[Unregistered, ...]:
    """Return the executors that run without being registered, by id."""
    flame = observed.flame
    answer = flame.fresh
    if answer is None:
        return ()
    found = []
    lost_after = min(LOST_AFTER, settings.registration_deadline_seconds)
    for executor in existing.live:
        running_since = executor.running_since
        if running_since is None or answer.registered(executor.name):
            continue
        seen = observed.first_seen.running[executor.pod.uid]
        may_resume_work = seen < flame.known_since and observed.bindings.was_there_before(executor)
        if (state := answer.nodes.get(executor.name)) is not None:
            # The node in the table may be that of an earlier executor of this name.
            since = _wall(max(seen, flame.not_ready_since.get(executor.name, now.boottime)), now)
            word = "NotReady" if state is NodeState.NOT_READY else "Unknown"
            problem = f"Flame reports its node as {word}"
            if state is NodeState.UNKNOWN and executor.name in flame.unstarted_since:
                problem = "starts nothing of what Flame puts on it"
            message = f"{executor.name} runs, but {problem}"
            deadline = since + timedelta(seconds=lost_after)
            found.append(Unregistered(executor, since, deadline, message, may_resume_work=may_resume_work, listed=True))
        elif answer.load(executor.name)[0] is Load.NONE:
            # An executor that was there before this incarnation of the session manager has to register again. An executor that
            # an earlier answer lists has to as well, because the session manager may have restarted before its Pod said so.
            left_at = flame.not_ready_since.get(executor.name, -inf)
            missed_since = max(flame.known_since, left_at)
            must_reregister = seen < missed_since
            # The clocks of its node and of the API server may differ, so this process counts what it has seen itself.
            since = _wall(max(seen, missed_since), now)
            patience = lost_after if must_reregister else settings.registration_deadline_seconds
            message = f"{executor.name} has run since {time_of_day(running_since)} and is not registered with Flame"
            deadline = since + timedelta(seconds=patience)
            found.append(
                Unregistered(executor, since, deadline, message, must_reregister, may_resume_work or seen < left_at)
            )
    return tuple(found)


def find_overdue(missing: Iterable[Unregistered], now: ClockReading) -> tuple[Executor, ...]:
    """Return the executors whose time to register is over."""
    return tuple(each.executor for each in missing if each.deadline <= now.wall)


def _wall(boottime: float, now: ClockReading) -> datetime:
    return now.wall - timedelta(seconds=max(0.0, now.boottime - boottime))
