"""UpdateStatus: the status says how the cluster is, and holds the promises that the pass is going to act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.decisions import attempts
from flamectl_operator.decisions.budget import surge
from flamectl_operator.decisions.intent import form_intent
from flamectl_operator.decisions.scale import ids_to_reserve
from flamectl_operator.decisions.status import Situation, compute_status, needed_promises, promises
from flamectl_operator.desired import names
from flamectl_operator.runtime.outcome import DONE, Outcome, combine, stop, wait
from flamectl_operator.subreconcilers.lock import LOCK_DENIED, LOCK_HELD
from flamectl_operator.subreconcilers.reading import settle
from flamectl_operator.subreconcilers.status_store import promise, stopped_by, write

if TYPE_CHECKING:
    from datetime import datetime

    from flamectl_operator.decisions.health import Issue
    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.subreconcilers.context import Context


class OpenStatus:
    """The first step: takes stock, decides what is wanted, and stores what must be known before anything is done about it.

    Those are the ids that executors of this pass will get, the count of failures that it will repair, and that a suspension has
    begun. With an invalid spec, or when the FlameCluster is paused, the pass ends here: what runs keeps running.
    """

    name = "UpdateStatus"

    async def reconcile(self, context: Context) -> Outcome:
        """Stores promises; everything else in the status can wait for the end of the pass."""
        _listen(context)
        await settle(context)
        observed, before, now = context.observe(), context.status, context.clock.now()
        next_id = _next_id(context, observed)
        if context.desired is None:
            situation = Situation(before, context.generation, observed, None, next_id, problem=context.problem)
            put_off = await write(context, compute_status(situation, now))
            return stop("InvalidSpec", "", put_off.delay if put_off is not None else None)
        intent = form_intent(context.desired, observed, before, context.config.flame, next_id=next_id, now=now)
        if reserved := context.memory.reserved_ids:
            # Once a failure was counted executors are the next attempt, under ids that nothing had before. And another operator
            # may have had them before somebody took that out of the status.
            first, used = intent.executor_attempts.attempt_id, {each.executor_id for each in observed.executors}
            context.memory.reserved_ids = [each for each in reserved if each >= first and each not in used]
        if context.desired.spec.paused:
            situation = Situation(before, context.generation, observed, intent, next_id, paused=True, issues=())
            put_off = await write(context, compute_status(situation, now))
            return stop("Paused", "") if put_off is None else stopped_by(put_off)
        limit = context.config.controller.max_creates_per_pass
        needed = ids_to_reserve(observed, intent, context.moment(), limit) - len(context.memory.reserved_ids)
        ids = range(next_id, min(next_id + max(0, needed), names.MAX_ID + 1))
        if needed_promises(context.generation, observed, intent, ids.stop) != promises(before):
            situation = Situation(before, context.generation, observed, intent, ids.stop)
            if (ended := await promise(context, compute_status(situation, now))) is not None:
                return ended
        context.memory.reserved_ids.extend(ids)
        context.memory.next_id = ids.stop
        context.intent = intent
        return DONE


class CloseStatus:
    """The last step: says how the cluster is now, with what the steps before reported, and when to look again."""

    name = "UpdateStatus"

    async def reconcile(self, context: Context) -> Outcome:
        """Stores the status if it changed."""
        intent = context.intent
        if intent is None:
            return DONE
        await settle(context)
        observed, before = context.observe(), context.status
        next_id = _next_id(context, observed)
        situation = Situation(
            before,
            context.generation,
            observed,
            intent,
            next_id,
            issues=_issues(context),
            interrupted=context.interrupted,
        )
        put_off = await write(context, compute_status(situation, context.clock.now()))
        until = _next_look(intent, observed, context.begun)
        stable = [] if until is None else [wait("Stable", "", context.delay(until))]
        return combine([*([put_off] if put_off is not None else []), *stable])


def _listen(context: Context) -> None:
    """Notices that another operator wrote over what this one said about the lock: that one does the work, then."""
    lock, stored = context.memory.lock, context.cluster.status
    generation, message = lock.said
    taken_back = message not in stored.get("message", "") and context.memory.voice.overwritten(stored)
    if generation == context.generation and taken_back:
        lock.hushed = generation


def _issues(context: Context) -> tuple[Issue, ...]:
    """What the steps reported.

    "Another operator holds the lock" concerns nobody while that operator works, and it would write over it in every pass. So
    once that has happened, it is not said again in this generation.
    """
    lock, stored, generation = context.memory.lock, context.cluster.status, context.generation
    about = [issue.message for issue in context.issues if issue.reason in {LOCK_HELD, LOCK_DENIED}]
    if about and lock.hushed == generation and about[0] not in stored.get("message", ""):
        lock.said = (0, "")
        return tuple(issue for issue in context.issues if issue.message not in about)
    lock.said = (generation, about[0]) if about else (0, "")
    return tuple(context.issues)


def _next_id(context: Context, observed: ObservedCluster) -> int:
    """The high-water mark of executor ids, which nobody who writes into the status can set back as long as this process lives."""
    memory, stored = context.memory, context.status.executor_manager.next_id or 0
    memory.next_id = min(max(stored, observed.highest_executor_id + 1, memory.next_id), names.MAX_ID + 1)
    return memory.next_id


def _next_look(intent: Intent, observed: ObservedCluster, begun: datetime) -> datetime | None:
    """When failures will be forgotten: no event tells that Pods have been ready for a while."""
    executors, settings = intent.desired.spec.executor_manager, intent.settings
    times = (
        attempts.session_manager_forgiven_at(intent.session_manager_attempts, observed.session_manager, settings),
        attempts.executors_forgiven_at(intent.executor_attempts, observed, intent.replicas, surge(executors), settings),
    )
    # What was due when the pass began and is not forgiven waits for something else, such as an executor that is missing.
    return min((time for time in times if time is not None and time > begun), default=None)
