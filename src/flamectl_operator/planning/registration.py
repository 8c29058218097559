"""Decides which executors are replaced because they run without being registered with their session manager.

Nothing is decided here unless the session manager answered the last question.

A rollout stops when a new executor does not register: see `holds_rollout`. The executor is replaced once, because its node may be
the cause. Its replacement stays, because then the image or the configuration is the cause, and further attempts would end alike.
"""

from datetime import timedelta

from flamectl_operator.desired.executor_annotations import DrainReason
from flamectl_operator.flame.answer import Load
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.comparison import GroupComparison
from flamectl_operator.planning.effective.failure_counts import executor_uncounted
from flamectl_operator.planning.effective.unregistered import Unregistered
from flamectl_operator.runtime.outcome import DONE, Outcome, blocked, wait, wait_until

#: How long an executor may take to register before the status reports it.
_REPORTED_AFTER = timedelta(seconds=15)
#: The reason of an outcome for an executor that is not registered.
NOT_REGISTERED = "ExecutorNotRegistered"
#: The same when its replacement does not register either.
NONE_REGISTERS = "ExecutorsNotRegistered"


def of_no_use(group: GroupComparison) -> frozenset[str]:
    """Return the names of executors that are ready, and that the session manager neither calls registered nor lists work on.

    There is none among those that may still come back to their work.
    """
    answer = group.cluster.flame.fresh
    if answer is None:
        return frozenset()
    lost = [each.executor for each in group.unregistered if not each.may_resume_work]
    return frozenset(each.name for each in lost if each.ready and answer.load(each.name)[0] is Load.NONE)


def holds_rollout(group: GroupComparison) -> bool:
    """Return whether stale executors stay because a new one did not register in time, and none has shown since that it can."""
    return group.effective.backoff.failures > 0 and any(
        each.never_registered(group.effective) for each in group.unregistered
    )


def stale_of_no_use(group: GroupComparison) -> frozenset[str]:
    """Return the names of stale executors that are ready, do not register and do no work, so that their deletion needs no budget.

    There are none while fewer than half of the ready executors are registered, because the session manager itself is in doubt
    then.
    """
    if 2 * len(group.observed.serving) < len(group.observed.ready):
        return frozenset()
    late = [each.executor for each in _late(group) if not each.listed and not each.must_reregister]
    return frozenset(executor.name for executor in late if group.effective.stale(executor))


def unregistered_to_delete(group: GroupComparison) -> tuple[Executor, ...]:
    """Return the executors that are replaced now because they did not register.

    At most `maxUnavailable` are deleted at once. Only one is deleted while fewer than half are registered, or after a restart of
    the session manager, because the session manager may be the cause. Each failure counts like the end of a Pod, and delays the
    next replacement alike. In a rollout no further one is deleted after its replacement did not register either.
    """
    existing, wanted, late = group.observed, group.effective, group.overdue
    answer, next_attempt = group.cluster.flame.fresh, wanted.backoff.next_attempt
    too_early = next_attempt is not None and next_attempt > group.now.wall
    if answer is None or not late or wanted.replicas == 0 or too_early:
        return ()
    registered = {executor.name for executor in existing.live if answer.registered(executor.name)}
    in_doubt = 2 * len(registered) < len(existing.live)
    restarted = any(each.must_reregister and each.executor in late for each in group.unregistered)
    at_once = 1 if in_doubt or restarted else max(1, wanted.unavailable)
    settled = registered.union(each.name for each in late)
    failing = sum(each.failure is not None and each.name not in settled for each in existing.live)
    # A stale executor that must serve on keeps its place, so that nothing starts there.
    keep = sum(each.drain_reason == DrainReason.STALE and each.name in group.serving_on for each in existing.draining)
    starting = max(0, wanted.replicas - len(settled) - failing - keep)
    given_up = wanted.backoff.repeated and _rolls_out(group)
    kept = {each.executor.name for each in group.unregistered if each.never_registered(wanted)} if given_up else set()
    due = [executor for executor in late if executor.name not in kept]
    # A failure is counted first. A stale executor, and one that has worked for long, say nothing about their replacements.
    found = [each for each in due if not executor_uncounted(each, wanted)]
    return tuple(found[: max(0, at_once - starting)])


def registration_outcome(group: GroupComparison) -> Outcome:
    """Return the outcome about executors that are not registered, and when to look again."""
    if not group.unregistered:
        return DONE
    now = group.now.wall
    times = [
        time for each in group.unregistered for time in (each.since + _REPORTED_AFTER, each.deadline) if time > now
    ]
    late = _late(group)
    message = late[0].message if late else ""
    if len(late) > 1:
        message += f", and {len(late) - 1} more"
    found = wait_until(NOT_REGISTERED, min(times), now, message) if times else wait(NOT_REGISTERED, message)
    new = [each for each in late if each.never_registered(group.effective)]
    if not new or group.effective.backoff.failures == 0:
        return found
    return blocked(NONE_REGISTERS, f"{new[0].message}: {_advice(group)}", found.delay)


def _late(group: GroupComparison) -> list[Unregistered]:
    """Return the executors that the status reports."""
    return [each for each in group.unregistered if each.since + _REPORTED_AFTER <= group.now.wall]


def _advice(group: GroupComparison) -> str:
    look = "see its log; usual causes are the image, a NetworkPolicy on port 8081, and TLS files"
    if not _rolls_out(group):
        return look
    stale = len(group.observed.live) - len(group.up_to_date)
    stay = (
        "1 executor of the earlier revision stays" if stale == 1 else f"{stale} executors of the earlier revision stay"
    )
    return f"{look}. The rollout has stopped until the spec changes, and {stay}"


def _rolls_out(group: GroupComparison) -> bool:
    return len(group.up_to_date) < len(group.observed.live)
