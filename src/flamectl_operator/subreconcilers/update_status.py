"""UpdateStatus: the status says how the cluster is, and holds the promises that the pass is going to act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from flamectl_operator.api.constants import API_VERSION, CONFIG_GENERATION_ANNOTATION, CONFIG_HASH_ANNOTATION, KIND
from flamectl_operator.api.skew import not_stored, with_unknown
from flamectl_operator.api.status import ConditionType, FlameClusterStatus, State
from flamectl_operator.decisions import attempts, conditions
from flamectl_operator.decisions.announcements import announcements
from flamectl_operator.decisions.conditions import Verdict
from flamectl_operator.decisions.executors import ids_to_reserve, surge
from flamectl_operator.decisions.intent import Intent, config_generation
from flamectl_operator.decisions.status import (
    Situation,
    compute_status,
    needed_promises,
    promises,
    remembered_attempts,
)
from flamectl_operator.desired import names
from flamectl_operator.kube.errors import ConflictError, KubernetesError, NotFoundError
from flamectl_operator.runtime.outcome import DONE, Outcome, combine, stop, wait
from flamectl_operator.subreconcilers.base import FLAME_CLUSTERS, RefusedError
from flamectl_operator.subreconcilers.children import changed, refresh, settle
from flamectl_operator.subreconcilers.lock import LOCK_DENIED, LOCK_HELD

if TYPE_CHECKING:
    from datetime import datetime

    from flamectl_operator.decisions.health import Issue
    from flamectl_operator.desired.cluster import DesiredCluster
    from flamectl_operator.kube.views import FlameClusterView
    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.subreconcilers.base import Context, Memory

#: Of a number in an annotation, which anybody may write.
_MAX_DIGITS = 15

#: The reason of `Degraded` when the installed CRD cannot hold the operator's promises, and how often that is looked at again,
#: in seconds: no event tells that it was updated.
OUTDATED_CRD = "OutdatedCRD"
RECHECK_CRD = 15.0

_LOG = structlog.get_logger("status")


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
            situation = Situation(before, _generation(context), observed, None, next_id, problem=context.problem)
            put_off = await _write(context, compute_status(situation, now))
            return stop("InvalidSpec", "", put_off.delay if put_off is not None else None)
        intent = _intent(context, context.desired, observed, next_id, now)
        if reserved := context.memory.reserved_ids:
            # Once a failure was counted executors are the next attempt, under ids that nothing had before. And another operator
            # may have had them before somebody took that out of the status.
            first, used = intent.executor_attempts.attempt_id, {each.executor_id for each in observed.executors}
            context.memory.reserved_ids = [each for each in reserved if each >= first and each not in used]
        if context.desired.spec.paused:
            situation = Situation(before, _generation(context), observed, intent, next_id, paused=True, issues=())
            put_off = await _write(context, compute_status(situation, now))
            return stop("Paused", "") if put_off is None else _ends(put_off)
        limit = context.config.controller.max_creates_per_pass
        needed = ids_to_reserve(observed, intent, context.moment(), limit) - len(context.memory.reserved_ids)
        ids = range(next_id, min(next_id + max(0, needed), names.MAX_ID + 1))
        if needed_promises(_generation(context), observed, intent, ids.stop) != promises(before):
            situation = Situation(before, _generation(context), observed, intent, ids.stop)
            if (ended := await _promise(context, compute_status(situation, now))) is not None:
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
            _generation(context),
            observed,
            intent,
            next_id,
            issues=_issues(context),
            interrupted=context.interrupted,
        )
        put_off = await _write(context, compute_status(situation, context.clock.now()))
        until = _next_look(intent, observed, context.begun)
        stable = [] if until is None else [wait("Stable", "", context.delay(until))]
        return combine([*([put_off] if put_off is not None else []), *stable])


def _ends(put_off: Outcome) -> Outcome:
    """Without what was to be stored nothing may be done."""
    return stop(put_off.reason, put_off.message, put_off.delay)


def _listen(context: Context) -> None:
    """Finds out whether another operator took back what this one said about the lock: it does the work, then."""
    lock, stored = context.memory.lock, context.cluster.status
    generation, message = lock.said
    taken_back = message not in stored.get("message", "") and context.memory.voice.overwritten(stored)
    if generation == _generation(context) and taken_back:
        lock.hushed = generation


def _issues(context: Context) -> tuple[Issue, ...]:
    """What the steps reported.

    That this operator has to leave Pods to another concerns nobody while the other does its work, and would be written over by
    it each time. So it is not said again in a generation in which that has happened.
    """
    lock, stored, generation = context.memory.lock, context.cluster.status, _generation(context)
    about = [issue.message for issue in context.issues if issue.reason in {LOCK_HELD, LOCK_DENIED}]
    if about and lock.hushed == generation and about[0] not in stored.get("message", ""):
        lock.said = (0, "")
        return tuple(issue for issue in context.issues if issue.message not in about)
    lock.said = (generation, about[0]) if about else (0, "")
    return tuple(context.issues)


async def _promise(context: Context, status: FlameClusterStatus) -> Outcome | None:
    """Stores promises.

    Where the installed CRD does not know all of them nothing may be done: executors' names would be used twice after the next
    restart, failures not counted, a suspension turned back half-way.

    Returns:
        Why the pass ends here, if it does.
    """
    memory, before = context.memory, context.status
    if memory.outdated_crd and not await _would_be_kept(context, status):
        return stop(OUTDATED_CRD, _outdated_crd(memory), RECHECK_CRD)
    if (put_off := await _write(context, status)) is not None:
        return _ends(put_off)
    if promises(context.status) == promises(status):
        memory.outdated_crd = False
        return None
    # What was stored is half of something: back to what it was, and the reason.
    verdict = Verdict(ConditionType.DEGRADED, status=True, reason=OUTDATED_CRD, message=_outdated_crd(memory))
    said = conditions.conditions([verdict], before.conditions, _generation(context), context.clock.now())
    words = {"state": before.state or State.PENDING, "message": verdict.message, "conditions": said}
    if (put_off := await _write(context, before.model_copy(update=words))) is not None:
        return _ends(put_off)
    memory.outdated_crd = True
    return stop(OUTDATED_CRD, verdict.message, RECHECK_CRD)


async def _would_be_kept(context: Context, status: FlameClusterStatus) -> bool:
    """Whether the CRD has been updated meanwhile, so that all promises would be stored. No event tells, and none is made."""
    metadata = context.cluster.metadata
    body = _body(context, with_unknown(status.to_wire(), context.cluster.status))
    try:
        answer = await context.client.rehearse_status(FLAME_CLUSTERS, metadata.namespace, metadata.name, body)
    except (ConflictError, NotFoundError):
        return False
    return promises(FlameClusterStatus.from_wire(answer.status)) == promises(status)


def _outdated_crd(memory: Memory) -> str:
    fields = ", ".join(sorted(memory.unknown))
    return (
        f"The installed CRD is older than the operator and does not know {fields}; nothing is done until it is updated:"
        " `flamectl-operator crd | kubectl apply --server-side -f -`"
    )


def _next_id(context: Context, observed: ObservedCluster) -> int:
    """The high-water mark of executor ids, which nobody who writes into the status can set back as long as this process lives."""
    memory, stored = context.memory, context.status.executor_manager.next_id or 0
    memory.next_id = min(max(stored, observed.highest_executor_id + 1, memory.next_id), names.MAX_ID + 1)
    return memory.next_id


def _generation(context: Context) -> int:
    return context.cluster.metadata.generation


def _intent(
    context: Context, desired: DesiredCluster, observed: ObservedCluster, next_id: int, now: datetime
) -> Intent:
    """What is wanted right now, from the spec and from what the status remembers."""
    settings, before = context.config.flame, context.status
    # Once begun, a suspension is finished before anything is started again. And while paused none is begun.
    unfinished, begun = _unfinished(observed), conditions.suspension_begun(before)
    suspended = (unfinished and begun) or (desired.spec.suspend and not (desired.spec.paused and unfinished))
    manager_attempts, executor_attempts = remembered_attempts(before)
    return Intent(
        desired=desired,
        settings=settings,
        suspended=suspended,
        config_generation=config_generation(
            desired.config_hash, (before.config_generation or 0, before.config_hash or ""), _annotated(observed)
        ),
        session_manager_attempts=attempts.count_session_manager(
            manager_attempts, observed, desired.session_manager.revision, now, settings
        ),
        executor_attempts=attempts.count_executors(
            executor_attempts,
            observed,
            desired.executor.revision,
            replicas=0 if suspended else desired.spec.executor_manager.replicas,
            surge=surge(desired.spec.executor_manager),
            next_id=next_id,
            now=now,
            settings=settings,
        ),
    )


def _unfinished(observed: ObservedCluster) -> bool:
    """Whether a suspension would still have something to do.

    Executors that are stuck on their way out do not hold it up: their names are never used again.
    """
    return observed.session_manager is not None or any(not each.terminating for each in observed.executors)


def _annotated(observed: ObservedCluster) -> tuple[int, str]:
    """The number and hash of the content that the ConfigMap was made for."""
    existing = observed.config_map
    if existing is None or not observed.owns(existing):
        return (0, "")
    number = existing.annotations.get(CONFIG_GENERATION_ANNOTATION, "")
    if not (number.isascii() and number.isdecimal() and len(number) <= _MAX_DIGITS):
        return (0, "")
    return (int(number), existing.annotations.get(CONFIG_HASH_ANNOTATION, ""))


def _next_look(intent: Intent, observed: ObservedCluster, begun: datetime) -> datetime | None:
    """When failures will be forgotten: no event tells that Pods have been ready for a while."""
    manager = [observed.session_manager] if observed.session_manager is not None else []
    times = (
        attempts.forgiven_at(intent.session_manager_attempts, manager, intent.settings),
        attempts.forgiven_at(intent.executor_attempts, observed.live_executors, intent.settings),
    )
    # What was due when the pass began and is not forgiven waits for something else, such as an executor that is missing.
    return min((time for time in times if time is not None and time > begun), default=None)


async def _write(context: Context, status: FlameClusterStatus) -> Outcome | None:
    """Stores the status if it is not what is stored; otherwise says why it is put off.

    The write carries the resourceVersion of the view that everything was decided on: of two operators that reserve the same ids,
    or one with an old view, only one gets through.
    """
    wire, before, now = status.to_wire(), context.cluster.status, context.clock.monotonic()
    memory = context.memory
    if wire != before:
        wire = with_unknown(wire, before)
    if wire == before or memory.pruned == (wire, before):
        memory.voice = memory.voice.agreed(before)
        return None
    if (delay := memory.voice.must_wait(wire, before, now)) > 0:
        return wait("Contradicted", "", delay)
    metadata = context.cluster.metadata
    context.writes += 1
    try:
        stored = await _store(context, wire, promised=promises(status) == promises(context.status))
    except (ConflictError, NotFoundError):
        context.conflicts += 1
        await refresh(context, FLAME_CLUSTERS, context.stores.flame_clusters, metadata.name)
        return changed()
    context.stores.flame_clusters.observe(stored)
    memory.voice = memory.voice.spoke(wire, before, stored.status, now)
    if stored.metadata.resource_version != metadata.resource_version:
        for announcement in announcements(context.status, status):
            context.events.event(context.about, announcement.type, announcement.reason, announcement.message)
    memory.status, memory.pruned, unknown = (wire, status), None, frozenset[str]()
    if stored.status != wire:
        # What is stored counts.
        memory.pruned, unknown = (wire, stored.status), frozenset(not_stored(wire, stored.status))
        status = memory.read(stored.status)
    if unknown - memory.unknown:
        _LOG.warning("the installed CRD is older than the operator", fields_not_stored=sorted(unknown))
    memory.unknown |= unknown
    context.cluster, context.status = stored, status
    return None


async def _store(context: Context, wire: dict[str, Any], *, promised: bool) -> FlameClusterView:
    """Replaces the status. Where the answer is lost, a read tells whether it was stored: then what follows from it is told, too.

    Args:
        context: The pass.
        wire: The status.
        promised: Whether it makes no new promises. For these it must be certain that they are ours.
    """
    metadata = context.cluster.metadata
    try:
        return await context.client.replace_status(
            FLAME_CLUSTERS, metadata.namespace, metadata.name, _body(context, wire)
        )
    except KubernetesError as error:
        if not (promised and error.outcome_unknown):
            raise
        try:
            found = await refresh(context, FLAME_CLUSTERS, context.stores.flame_clusters, metadata.name)
        except (KubernetesError, RefusedError):
            raise error from None
        same = found is not None and (found.uid, found.metadata.generation) == (metadata.uid, metadata.generation)
        if found is None or not same or found.status != wire:
            raise
        return found


def _body(context: Context, wire: dict[str, Any]) -> dict[str, Any]:
    """What is sent to store a status."""
    metadata = context.cluster.metadata
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        },
        "status": wire,
    }
