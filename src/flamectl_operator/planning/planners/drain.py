"""The drain of executors: they end their work before they are deleted.

A scale-down or a rollout marks an executor by annotations on its Pod, which survive the operator. From then on the executor does
not count, and the mark is never taken back. The operator asks Flame to release its node: the executor continues its sessions
and gets no new ones. When nothing runs on it, or the time is over, the Pod is deleted.

Without an answer of the session manager nothing is marked, and marked executors are deleted after a while: an operator that
cannot reach Flame deletes what it would delete if there were no drains.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from flamectl_operator.flame.answer import Load
from flamectl_operator.flame.knowledge import RECENT_ANSWER_SECONDS, Phase
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.comparison import Comparison, GroupComparison
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.planning.removals import RemovalReason
from flamectl_operator.planning.sub_plans import DrainPlan
from flamectl_operator.runtime.clock_reading import CLOCKS_DIFFER, ClockReading
from flamectl_operator.runtime.outcome import wait_until
from flamectl_operator.runtime.text import listing, time_of_day

#: Seconds without an answer of the session manager after which marked executors are deleted, as if there were no drains.
GIVE_UP_AFTER = 60.0
#: Seconds after which a drain that only lacks an answer to a newer question is looked at again. That answer may say what the
#: last one said, and then no event brings a pass.
CONFIRM_AFTER = 1.0
#: Seconds after the first answer of a session manager until which executors that were there before it come back to their work.
RETURN_SECONDS = 30.0

#: Reasons for deletions that remove no serving executor.
_NO_LOSS = frozenset({RemovalReason.EARLIER_SESSION_MANAGER, RemovalReason.SUSPENDED})


def drainable(executor: Executor, observed: ObservedCluster, wanted: EffectiveGroup) -> bool:
    """Return whether an executor is drained before it is deleted.

    An executor is drained if Flame can be asked and the executor may have work. An executor that has not started has none.
    Flame knows no work of an executor of an earlier session manager. Where only times of nodes make it one, work that Flame lists
    proves them wrong.
    """
    answer = observed.last_answer
    if answer is None or wanted.suspended or wanted.drain_timeout == 0:
        return False
    if observed.bindings.is_invalid(executor) and answer.load(executor.name)[0] is Load.BUSY:
        return True
    return (executor.ready or answer.known(executor.name)) and observed.bindings.follows(executor)


def split_drainable(
    executors: Iterable[Executor], group: GroupComparison
) -> tuple[tuple[Executor, ...], tuple[Executor, ...]]:
    """Return the executors that are drained before they are deleted, and the others, each in their order."""
    drain: list[Executor] = []
    others: list[Executor] = []
    for executor in executors:
        (drain if drainable(executor, group.cluster, group.effective) else others).append(executor)
    return tuple(drain), tuple(others)


def undecided(group: GroupComparison, compared: Comparison) -> bool:
    """Return whether executors are not chosen yet, because the first answer, or one that is new enough, is due within seconds."""
    cluster, wanted = group.cluster, group.effective
    flame = cluster.flame
    if wanted.suspended or flame.phase is Phase.ASKING or compared.session_manager_asked_next:
        return not wanted.suspended
    load_matters = wanted.drain_timeout > 0 or wanted.scaling is not None
    return load_matters and flame.fresh is not None and group.now.boottime - flame.answered_at > RECENT_ANSWER_SECONDS


def plan_drain(group: GroupComparison, compared: Comparison) -> DrainPlan:
    """Decide about the executors that are being drained."""
    released_at = compared.facts.released_at
    observed, now, answer = group.cluster, group.now, group.cluster.flame.answer
    release, delete, left, ends, looks, record_begin = [], [], [], [], [], []
    serving_on = group.serving_on
    for executor in group.observed.draining:
        since = now.counted_from(executor.draining_since or now.wall).replace(microsecond=0)
        end = _begin(executor, since, observed, now) + timedelta(seconds=group.effective.drain_timeout)
        if executor.pod.uid in observed.must_stay:
            continue
        why = _deletion(executor, group, released_at, end)
        if why is not None and (executor.name not in serving_on or why in _NO_LOSS):
            delete.append((executor, why))
            continue
        left.append(executor)
        ends.append(end)
        if why is not None:
            # As a rule, a Pod that becomes ready brings a pass.
            looks.append(now.wall + timedelta(seconds=GIVE_UP_AFTER))
        if executor.draining_since is None or abs(since - executor.draining_since) > CLOCKS_DIFFER:
            record_begin.append((executor, since))
        if answer is None:
            ends.append(_give_up_at(observed, now))
            continue
        if answer.drained(executor.name):
            soon = max(CONFIRM_AFTER, _back_by(executor, observed) - now.boottime)
            looks.append(now.wall + timedelta(seconds=soon))
        if executor.name in serving_on:
            continue
        if executor.name in answer.nodes or executor.name not in released_at:
            release.append(executor.name)
    message = _message(left, observed, min(ends)) if left else ""
    due = min((time for time in (*ends, *looks) if time > now.wall), default=now.wall)
    waits = (wait_until("Draining", due, now.wall, message),) if left else ()
    return DrainPlan(tuple(release), tuple(delete), tuple(record_begin), waits=waits)


def _begin(executor: Executor, since: datetime, observed: ObservedCluster, now: ClockReading) -> datetime:
    """Return when a drain began: at the recorded time, unless this process has seen that it began later.

    Another operator whose clock is behind may have recorded a time that is long over by this clock.
    """
    changed = observed.first_seen.drain_changed.get(executor.pod.uid)
    if changed is None:
        return since
    seen = now.wall - timedelta(seconds=now.boottime - changed)
    return seen if seen - since > CLOCKS_DIFFER else since


def _deletion(
    executor: Executor, group: GroupComparison, released_at: Mapping[str, float], end: datetime
) -> RemovalReason | None:
    """Return why an executor is deleted now; None when it stays."""
    observed, now = group.cluster, group.now
    if group.effective.suspended:
        return RemovalReason.SUSPENDED
    lost = executor.started and not observed.bindings.follows(executor) and not observed.bindings.is_invalid(executor)
    if observed.session_manager_ready and lost:
        return RemovalReason.EARLIER_SESSION_MANAGER
    flame = observed.flame
    if flame.answer is None and _give_up_at(observed, now) <= now.wall:
        return RemovalReason.NOT_REACHABLE
    released = released_at.get(executor.name)
    # The answer must be to a question that was asked after the node was released, and after the executor has come back: an older
    # one may lack work that came since.
    known = released is not None and flame.asked_at >= max(released, _back_by(executor, observed))
    if known and flame.answer is not None and flame.answer.drained(executor.name):
        return RemovalReason.DRAINED
    return RemovalReason.DRAIN_TIMED_OUT if end <= now.wall else None


def _back_by(executor: Executor, observed: ObservedCluster) -> float:
    """Return when an executor has come back to a session manager that restarted, by `boottime`: its work is listed only then."""
    return observed.flame.known_since + RETURN_SECONDS if observed.bindings.was_there_before(executor) else 0.0


def _give_up_at(observed: ObservedCluster, now: ClockReading) -> datetime:
    silent = max(0.0, now.boottime - observed.sources.flame.unknown_since)
    return now.wall + timedelta(seconds=GIVE_UP_AFTER - min(silent, GIVE_UP_AFTER))


def _message(left: Iterable[Executor], observed: ObservedCluster, end: datetime) -> str:
    """Name the executors that are being drained, and until when: the text must not change by itself."""
    answer, names = observed.flame.answer, [executor.name for executor in left]
    busy = [name for name in names if answer is not None and answer.load(name)[0] is Load.BUSY]
    who = listing(sorted(names, key=lambda name: name not in busy), 1)
    if answer is None:
        return f"draining {who}: waiting for the answer of the session manager"
    return f"draining {who}, {len(busy)} with work, until {time_of_day(end)} at the latest"
