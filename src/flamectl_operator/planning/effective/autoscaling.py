"""The number of executors where it follows the demand.

The number is remembered in the status with the times that it depends on, so that it survives the operator; the spec is never
written. It rises when more executors are needed, and falls when fewer have been needed for a while. While the session manager
cannot be asked it stays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from flamectl_operator.api.checks.executor_limits import executor_limits, fields_of
from flamectl_operator.api.component_status import AutoscalingStatus
from flamectl_operator.api.fields.autoscaling import Autoscaling
from flamectl_operator.api.fields.slot import parse_slot
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.flame.answer import Load, Resources
from flamectl_operator.flame.knowledge import Phase
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.effective.demand import Offer, compute_demand
from flamectl_operator.runtime.clock_reading import ClockReading
from flamectl_operator.runtime.text import one_line, time_of_day

#: The most characters of a session's name in a message, because the author of a session chooses its name.
LONGEST_SESSION_NAME = 60


@dataclass(frozen=True)
class Scaling:
    """The number of executors for now, and why, as one word and as a sentence.

    Args:
        remembered: The part of the status that is remembered: the number, and since when another one has been needed.
        active: Whether the number follows the demand; None when that is not known again yet.
        due: When the number changes although nothing else does.
    """

    remembered: AutoscalingStatus
    active: bool | None
    reason: str = ""
    message: str = ""
    due: datetime | None = None

    @property
    def desired(self) -> int:
        """The number of executors."""
        return self.remembered.desired or 0


def resolve_scaling(
    desired: DesiredCluster,
    observed: ObservedCluster,
    before: AutoscalingStatus,
    now: ClockReading,
    *,
    suspended: bool,
    askable: bool,
) -> Scaling | None:
    """Decide how many executors there should be; None if the spec sets the number."""
    spec, group = desired.spec, desired.group.spec
    autoscaling = group.autoscaling
    if autoscaling is None:
        return None
    if suspended:
        start = AutoscalingStatus(desired=autoscaling.min_replicas)
        return Scaling(start, active=False, reason="Suspended", message="No Pods are wanted")
    if before.desired is None:
        # The executors of a fixed number stay until an answer tells how many are needed.
        before = before.model_copy(update={"desired": len(observed.group.live)})
    current = _current(autoscaling, before)
    if spec.paused:
        kept = before.model_copy(update={"desired": current})
        return Scaling(kept, active=False, reason="Paused", message="The operator changes nothing")
    answer = observed.flame.fresh
    if answer is None:
        return _frozen(observed, before, current, askable=askable)
    offer = Offer.of(group, Resources(*parse_slot(spec.session_manager.slot)))
    demand = compute_demand(answer, offer, autoscaling.max_replicas + 1)
    live = observed.group.live
    bound = sum(answer.load(executor.name)[0] is Load.BUSY for executor in live)
    placed = sum(executor.pod.spec.node_name != "" and executor.failure is None for executor in live)
    scaling = rescale(autoscaling, before, max(demand.executors, bound), placed, now)
    if demand.too_large:
        name = one_line(demand.too_large, LONGEST_SESSION_NAME)
        fields = fields_of(executor_limits(group))
        message = (
            f"session {name} asks for more than one executor offers: raise {fields}, or let the session ask for less"
        )
        return Scaling(scaling.remembered, active=True, reason="SessionTooLarge", message=message, due=scaling.due)
    return scaling


def rescale(
    autoscaling: Autoscaling, before: AutoscalingStatus, needed: int, placed: int, now: ClockReading
) -> Scaling:
    """Return the number of executors for now.

    Args:
        needed: The executors that sessions can use, or that are bound to one.
        placed: The executors that have a node and do not fail.
    """
    current = _current(autoscaling, before)
    wanted = _within(autoscaling, needed)
    if wanted > current:
        return _up(autoscaling, before, current, wanted, placed, now)
    if wanted < current:
        return _down(autoscaling, before, current, wanted, now)
    if needed > autoscaling.max_replicas:
        message = f"sessions could use more than the {autoscaling.max_replicas} executors of autoscaling.maxReplicas"
        return Scaling(AutoscalingStatus(desired=current), active=True, reason="AtMaximum", message=message)
    return _following(current)


def _up(
    autoscaling: Autoscaling, before: AutoscalingStatus, current: int, wanted: int, placed: int, now: ClockReading
) -> Scaling:
    since, least = _window(before.scale_up_since, before.scale_up_to, wanted, now, min)
    due = since + timedelta(seconds=autoscaling.behavior.scale_up.stabilization_window_seconds)
    if due > now.wall:
        waiting = AutoscalingStatus(desired=current, scale_up_since=since, scale_up_to=least)
        message = f"{least} executors will be wanted at {time_of_day(due)} if the demand lasts"
        return Scaling(waiting, active=True, reason="Stabilizing", message=message, due=due)
    desired = max(current, min(least, placed + autoscaling.max_pending))
    if desired < least:
        capped = AutoscalingStatus(desired=desired, scale_up_since=since, scale_up_to=least)
        most = autoscaling.max_pending
        pending = "1 executor has no node or fails" if most == 1 else f"{most} executors have no node or fail"
        message = f"{least} executors are needed, but {pending}, so no more are created (autoscaling.maxPending)"
        return Scaling(capped, active=True, reason="TooManyPending", message=message)
    return _following(desired)


def _down(autoscaling: Autoscaling, before: AutoscalingStatus, current: int, wanted: int, now: ClockReading) -> Scaling:
    since, most = _window(before.scale_down_since, before.scale_down_to, wanted, now, max)
    delay = max(autoscaling.idle_timeout_seconds, autoscaling.behavior.scale_down.stabilization_window_seconds)
    due = since + timedelta(seconds=delay)
    if due <= now.wall and most == wanted:
        return _following(wanted)
    if due <= now.wall:
        # Some were needed for a part of the time: these stay for another period, counted from now.
        current, since, most = most, now.wall, wanted
        due = now.wall + timedelta(seconds=delay)
    warm = AutoscalingStatus(desired=current, scale_down_since=since, scale_down_to=most)
    spare = current - most
    executors = "1 executor without demand stays" if spare == 1 else f"{spare} executors without demand stay"
    message = f"{executors} until {time_of_day(due)}"
    return Scaling(warm, active=True, reason="KeepingWarm", message=message, due=due)


def _window(
    since: datetime | None, extreme: int | None, wanted: int, now: ClockReading, choose: Callable[[int, int], int]
) -> tuple[datetime, int]:
    """Return since when the wanted number has been on the same side of the present one, and its extreme since then."""
    if since is None or extreme is None:
        return now.wall, wanted
    return now.counted_from(since), choose(extreme, wanted)


def _frozen(observed: ObservedCluster, before: AutoscalingStatus, current: int, *, askable: bool) -> Scaling:
    """Keep the number. The times are kept only while an answer is due: no time without answers counts."""
    silent = not askable or observed.flame.phase is Phase.UNKNOWN
    if not silent and observed.session_manager_ready:
        return Scaling(before.model_copy(update={"desired": current}), active=None)
    kept = AutoscalingStatus(desired=current)
    if not silent:
        message = f"The number of executors stays {current}, because the session manager is not ready"
        return Scaling(kept, active=False, reason="SessionManagerNotReady", message=message)
    message = f"The number of executors stays {current}, because the session manager does not answer"
    return Scaling(kept, active=False, reason="DemandUnknown", message=message)


def _following(desired: int) -> Scaling:
    message = f"The number of executors follows the demand: {desired}"
    return Scaling(AutoscalingStatus(desired=desired), active=True, reason="FollowsDemand", message=message)


def _current(autoscaling: Autoscaling, before: AutoscalingStatus) -> int:
    return _within(autoscaling, before.desired or 0)


def _within(autoscaling: Autoscaling, number: int) -> int:
    return min(max(number, autoscaling.min_replicas), autoscaling.max_replicas)
