"""Decides when a cluster whose sessions are not in use suspends itself, and until when.

The spec is never written, because tools that apply it from Git would write it back. The status remembers since when no session
has been in use, and the generation of the spec for which the cluster suspended itself. Any other generation ends that.

A session may begin and end between two answers. The session manager tells when each one was opened and closed.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from flamectl_operator.api.component_status import IdleStatus
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.flame.answer import SessionManagerAnswer
from flamectl_operator.flame.knowledge import RECENT_ANSWER_SECONDS, Phase
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.runtime.clock_reading import ClockReading
from flamectl_operator.runtime.text import date_and_time

_NOT_IDLE = IdleStatus()


@dataclass(frozen=True)
class Idleness:
    """Whether a cluster is idle.

    Args:
        suspended: Whether the cluster is suspended because of that.
        due: When it suspends itself if no session is opened; None when no time runs.
        undecided: Whether that time is over, and a recent answer of the session manager has to confirm it.
    """

    remembered: IdleStatus = _NOT_IDLE
    suspended: bool = False
    due: datetime | None = None
    undecided: bool = False

    @property
    def message(self) -> str:
        """Why the cluster has suspended itself, as a sentence; empty when it has not."""
        return suspended_itself(self.remembered) if self.suspended else ""


def suspended_itself(remembered: IdleStatus) -> str:
    """Return why a cluster has suspended itself, as a sentence."""
    # Without the time if somebody edited the status.
    how = "was in use" if remembered.since is None else f"has been in use since {date_and_time(remembered.since)}"
    return (
        f"no session {how}. Any change of the spec starts the cluster again, such as suspend: false; if it is false already,"
        " set it to true first"
    )


def resolve_idleness(
    spec: FlameClusterSpec, observed: ObservedCluster, before: IdleStatus, generation: int, now: ClockReading
) -> Idleness:
    """Decide whether a cluster suspends itself."""
    if spec.idle is None or spec.suspend:
        return IN_USE
    if before.suspended_generation == generation:
        return Idleness(before, suspended=True)
    waking = before.suspended_generation is not None
    kept = None if waking else before.since
    if spec.paused:
        return Idleness(IdleStatus(since=kept))
    answer = observed.flame.fresh
    if answer is None:
        answers = observed.session_manager_ready and observed.flame.phase is not Phase.UNKNOWN
        # No time without answers counts, except for the moment after the operator has started.
        return Idleness(IdleStatus(since=kept if answers else None))
    if answer.in_use:
        return IN_USE
    timeout = timedelta(seconds=spec.idle.timeout_seconds)
    if answer.used_at > now.wall.timestamp():
        # By the session manager's clock. No time is remembered, because each pass would write another one.
        return Idleness(due=now.wall + timeout)
    since = now.wall if kept is None else max(now.counted_from(kept), _used_at(answer))
    if since + timeout > now.wall:
        return Idleness(IdleStatus(since=since), due=since + timeout)
    old = now.boottime - observed.flame.answered_at > RECENT_ANSWER_SECONDS
    return Idleness(IdleStatus(since=since, suspended_generation=None if old else generation), not old, undecided=old)


def _used_at(answer: SessionManagerAnswer) -> datetime:
    return datetime.fromtimestamp(max(0.0, answer.used_at), UTC)


#: Sessions are open, or nobody asked for an idle cluster to suspend itself.
IN_USE = Idleness()
