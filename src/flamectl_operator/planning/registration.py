"""Which executors run without being registered with their session manager, and which of them are replaced.

Such an executor is ready for Kubernetes and does nothing for Flame. Nothing is decided here unless the session manager answered
the last question.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from flamectl_operator.flame.snapshot import NodeState
from flamectl_operator.planning.budget import Budget
from flamectl_operator.runtime.outcome import DONE, wait, wait_until

if TYPE_CHECKING:
    from datetime import datetime

    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.observed.executor import Executor
    from flamectl_operator.planning.effective_spec import EffectiveSpec
    from flamectl_operator.planning.replacement_backoff import ReplacementBackoff
    from flamectl_operator.runtime.clock_reading import ClockReading
    from flamectl_operator.runtime.outcome import Outcome
    from flamectl_operator.settings import FlameSettings

#: Seconds that an executor may take to register before the status reports it.
PATIENCE = 15.0
#: Seconds after which an executor is replaced whose node is not ready for Flame, or does not come back to a session manager that
#: restarted. Flame itself drops the work of a silent node after 45 s.
LOST_AFTER = 60.0
#: The reason of an outcome for an executor that is not registered.
NOT_REGISTERED = "ExecutorNotRegistered"


@dataclass(frozen=True)
class Unregistered:
    """An executor that runs and is not registered, or is not ready in Flame's table.

    Args:
        since: Since when that is known.
        deadline: When it is replaced.
        message: The problem, as a sentence.
        again: Whether it was there before the session manager restarted, and has to register again.
    """

    executor: Executor
    since: datetime
    deadline: datetime
    message: str
    again: bool = False


def unregistered(observed: ObservedCluster, settings: FlameSettings, now: ClockReading) -> tuple[Unregistered, ...]:
    """Return the executors that run without being registered, by id."""
    flame = observed.flame
    snapshot = flame.fresh
    if snapshot is None:
        return ()
    found = []
    lost_after = min(LOST_AFTER, settings.registration_deadline_seconds)
    for executor in observed.live_executors:
        running_since = executor.running_since
        if running_since is None or snapshot.registered(executor.name):
            continue
        if (state := snapshot.nodes.get(executor.name)) is not None:
            since = _wall(flame.not_ready_since.get(executor.name, now.boottime), now)
            word = "NotReady" if state is NodeState.NOT_READY else "Unknown"
            message = f"{executor.name} runs, but Flame reports its node as {word}"
            found.append(Unregistered(executor, since, since + timedelta(seconds=lost_after), message))
        elif not snapshot.known(executor.name):
            # An executor that was there before this life of the session manager has to register again.
            seen = observed.first_seen.running[executor.pod.uid]
            again = seen < flame.known_since
            # The clocks of its node and of the API server may differ, so this process counts what it has seen itself.
            since = _wall(max(seen, flame.known_since), now)
            patience = lost_after if again else settings.registration_deadline_seconds
            message = f"{executor.name} has run since {running_since:%H:%M:%S} UTC and is not registered with Flame"
            found.append(Unregistered(executor, since, since + timedelta(seconds=patience), message, again))
    return tuple(found)


def overdue(observed: ObservedCluster, settings: FlameSettings, now: ClockReading) -> tuple[Executor, ...]:
    """Return the executors whose time to register is over."""
    return tuple(each.executor for each in unregistered(observed, settings, now) if each.deadline <= now.wall)


def unregistered_to_delete(
    observed: ObservedCluster, effective: EffectiveSpec, now: ClockReading
) -> tuple[Executor, ...]:
    """Return the executors that are replaced now because they did not register.

    At most `maxUnavailable` go at once. Only one goes while fewer than half are registered, or after a restart of the session
    manager, because the session manager may be the cause. Each failure counts like the end of a Pod, and delays the next
    replacement alike.
    """
    snapshot = observed.flame.fresh
    late = overdue(observed, effective.settings, now)
    if snapshot is None or not late or effective.replicas == 0 or not _may_replace(effective.executor_backoff, now):
        return ()
    registered = sum(snapshot.registered(executor.name) for executor in observed.live_executors)
    in_doubt = 2 * registered < len(observed.live_executors)
    missing = unregistered(observed, effective.settings, now)
    restarted = any(each.again and each.executor in late for each in missing)
    at_once = (
        1 if in_doubt or restarted else max(1, Budget.of(effective.update_strategy, effective.replicas).unavailable)
    )
    starting = max(0, effective.replicas - registered - len(late))
    counted = [executor for executor in late if executor.executor_id < effective.executor_backoff.attempt_id]
    return tuple(counted[: max(0, at_once - starting)])


def registration_outcome(observed: ObservedCluster, settings: FlameSettings, now: ClockReading) -> Outcome:
    """Return the outcome about executors that are not registered, and when to look again."""
    missing = unregistered(observed, settings, now)
    if not missing:
        return DONE
    patience = timedelta(seconds=PATIENCE)
    times = [time for each in missing for time in (each.since + patience, each.deadline) if time > now.wall]
    late = [each for each in missing if each.since + patience <= now.wall]
    message = late[0].message if late else ""
    if len(late) > 1:
        message += f", and {len(late) - 1} more"
    return wait_until(NOT_REGISTERED, min(times), now.wall, message) if times else wait(NOT_REGISTERED, message)


def _may_replace(backoff: ReplacementBackoff, now: ClockReading) -> bool:
    return backoff.next_attempt is None or backoff.next_attempt <= now.wall


def _wall(boottime: float, now: ClockReading) -> datetime:
    return now.wall - timedelta(seconds=max(0.0, now.boottime - boottime))
