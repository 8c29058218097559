"""Storing the status: each write over what it was worked out from, and nothing promised that the installed CRD would drop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from flamectl_operator.api.constants import API_VERSION, KIND
from flamectl_operator.api.skew import not_stored, with_unknown
from flamectl_operator.api.status import ConditionType, FlameClusterStatus, State
from flamectl_operator.decisions import conditions
from flamectl_operator.decisions.announcements import announcements
from flamectl_operator.decisions.conditions import Verdict
from flamectl_operator.decisions.status import promises
from flamectl_operator.kube.errors import ConflictError, KubernetesError, NotFoundError
from flamectl_operator.runtime.outcome import Outcome, stop, wait
from flamectl_operator.subreconcilers.outcomes import changed
from flamectl_operator.subreconcilers.reading import refresh
from flamectl_operator.subreconcilers.refusals import RefusedError
from flamectl_operator.subreconcilers.stores import FLAME_CLUSTERS

if TYPE_CHECKING:
    from flamectl_operator.kube.views import FlameClusterView
    from flamectl_operator.subreconcilers.context import Context
    from flamectl_operator.subreconcilers.memory import Memory

#: The reason of `Degraded` when the installed CRD cannot hold the operator's promises, and how often that is looked at again,
#: in seconds: no event tells that it was updated.
OUTDATED_CRD = "OutdatedCRD"
RECHECK_CRD = 15.0

_LOG = structlog.get_logger(component="status")


async def write(context: Context, status: FlameClusterStatus) -> Outcome | None:
    """Stores the status if it is not what is stored.

    The write carries the resourceVersion of the view that everything was decided on: of two operators that reserve the same ids,
    or one with an old view, only one gets through.

    Returns:
        Why it is put off; None when it is stored.
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
        stored = await _store(context, wire, new_promises=promises(status) != promises(context.status))
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


async def _store(context: Context, wire: dict[str, Any], *, new_promises: bool) -> FlameClusterView:
    """Replaces the status. Where the answer is lost, a read tells whether it was stored: then what follows from it is told, too.

    Args:
        context: The pass.
        wire: The status.
        new_promises: Whether it makes any. Of these it must be certain that they are ours.
    """
    metadata = context.cluster.metadata
    try:
        return await context.client.replace_status(
            FLAME_CLUSTERS, metadata.namespace, metadata.name, _body(context, wire)
        )
    except KubernetesError as error:
        if new_promises or not error.outcome_unknown:
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


def stopped_by(put_off: Outcome) -> Outcome:
    """The end of the pass: without what was to be stored nothing may be done."""
    return stop(put_off.reason, put_off.message, put_off.delay)


async def promise(context: Context, status: FlameClusterStatus) -> Outcome | None:
    """Stores promises.

    Where the installed CRD does not know all of them nothing may be done: executors' names would be used twice after the next
    restart, failures not counted, a suspension turned back half-way.

    Returns:
        Why the pass ends here, if it does.
    """
    memory, before = context.memory, context.status
    if memory.outdated_crd and not await _would_be_kept(context, status):
        return stop(OUTDATED_CRD, _outdated_crd(memory), RECHECK_CRD)
    if (put_off := await write(context, status)) is not None:
        return stopped_by(put_off)
    if promises(context.status) == promises(status):
        memory.outdated_crd = False
        return None
    # What was stored is half of something: back to what it was, and the reason.
    verdict = Verdict(ConditionType.DEGRADED, status=True, reason=OUTDATED_CRD, message=_outdated_crd(memory))
    said = conditions.conditions([verdict], before.conditions, context.generation, context.clock.now())
    words = {"state": before.state or State.PENDING, "message": verdict.message, "conditions": said}
    if (put_off := await write(context, before.model_copy(update=words))) is not None:
        return stopped_by(put_off)
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
        " `flamectl-operator crd | kubectl apply --server-side --force-conflicts -f -`"
    )
