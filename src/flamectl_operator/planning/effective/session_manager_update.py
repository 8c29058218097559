"""When a stale session manager is replaced, under `sessionManager.updateStrategy`.

With `WhenIdle` it stays until no task runs, at most for `maxWaitSeconds`. The status remembers since when it has waited.
"""

from datetime import datetime, timedelta

from flamectl_operator.api.constants import SESSION_MANAGER, SHARED_ANNOTATION
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.flame.knowledge import ANSWER_RECHECK_SECONDS, RECENT_ANSWER_SECONDS
from flamectl_operator.observed import pods
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.edited_images import is_stale, what_runs
from flamectl_operator.runtime.clock_reading import CLOCKS_DIFFER, ClockReading
from flamectl_operator.runtime.outcome import Outcome, wait, wait_until
from flamectl_operator.runtime.text import date_and_time

#: How long a session manager that runs may be unready before it counts as broken, because a probe may fail for a moment.
UNREADY_TIMEOUT = timedelta(seconds=60)


def pending_since(
    desired: DesiredCluster, observed: ObservedCluster, before: datetime | None, now: datetime
) -> datetime | None:
    """Return since when a change of the spec has waited for the end of tasks; None when none waits.

    Args:
        before: The time that the status remembers. A further change of the spec does not begin a new wait. A time in the future
            is remembered anew, because a wait that counts from now in each pass never ends.
    """
    manager = observed.session_manager
    waits = desired.spec.session_manager.update_strategy.type == "WhenIdle"
    if not waits or manager is None or not manager.live or not is_stale(manager, desired.session_manager):
        return None
    return before if before is not None and before - now <= CLOCKS_DIFFER else now.replace(microsecond=0)


def stands_alone(manager: Component, desired: DesiredCluster) -> bool:
    """Return whether other Pods need not wait for the replacement of a stale session manager.

    It may stay for long, and the part of its spec that the others read as well is as wanted.
    """
    stays = desired.spec.session_manager.update_strategy.type != "Recreate"
    return stays and manager.pod.annotations.get(SHARED_ANNOTATION) == desired.shared_revision


def wait_before_update(
    desired: DesiredCluster, observed: ObservedCluster, since: datetime | None, now: ClockReading
) -> Outcome | None:
    """Return why a stale session manager is not replaced yet; None when its replacement is due. See `pending_since`."""
    strategy, manager = desired.spec.session_manager.update_strategy, observed.session_manager
    if strategy.type == "Recreate" or manager is None or _broken(manager, now):
        return None
    if strategy.type == "OnDelete":
        runs = what_runs([manager], desired.session_manager)
        return wait(
            "OnDelete", f'the session manager runs {runs} (OnDelete): delete Pod "{manager.name}" to replace it'
        )
    until = now.counted_from(since or now.wall) + timedelta(seconds=strategy.max_wait_seconds)
    if until <= now.wall:
        return None
    answer = observed.flame.fresh
    if answer is not None and not answer.busy:
        if now.boottime - observed.flame.answered_at <= RECENT_ANSWER_SECONDS:
            return None
        return wait("AskingSessionManager", "", ANSWER_RECHECK_SECONDS)
    why = "does not answer" if answer is None else "has running tasks"
    message = f"the session manager {why}, so its update (WhenIdle) waits, until {date_and_time(until)} at most"
    return wait_until("WhenIdle", until, now.wall, message)


def _broken(manager: Component, now: ClockReading) -> bool:
    """Return whether its container does not run, or nobody has reached it for a while, so that nothing is lost with it.

    A session manager on a node that does not report may work on, and goes on when the node reports again.
    """
    if manager.ready or pods.not_reporting(manager.pod) is not None:
        return False
    status = pods.container(manager.pod, SESSION_MANAGER)
    if status is None or status.state.running is None:
        return True
    return manager.waiting is not None and now.wall - now.counted_from(manager.waiting[1]) >= UNREADY_TIMEOUT
