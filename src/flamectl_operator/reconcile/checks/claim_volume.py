"""Whether a claim gets a volume, by its events."""

from collections.abc import Sequence
from datetime import timedelta

from flamectl_operator.kube.errors import AnswerTooLargeError
from flamectl_operator.kube.resources import READ_EVENTS
from flamectl_operator.kube.views import EventView, PersistentVolumeClaimView
from flamectl_operator.observed.claims import PHASE_PENDING
from flamectl_operator.reconcile.objects.cluster_reads import ClusterReads
from flamectl_operator.reconcile.objects.outcomes import TAKEN_NAME_RECHECK_SECONDS
from flamectl_operator.reconcile.refusals.error import REFUSALS
from flamectl_operator.runtime.outcome import Outcome, blocked, wait
from flamectl_operator.runtime.text import one_line

#: The reason of an outcome for a claim that has no volume.
CLAIM_NOT_BOUND = "ClaimNotBound"
#: Reasons of Kubernetes' events for a claim that waits for a Pod, that gets no volume, and whose volume is being made.
_WAITS_FOR_POD = frozenset({"WaitForFirstConsumer", "WaitForPodScheduled"})
_FAILED = frozenset({"FailedBinding", "ProvisioningFailed"})
_UNDER_WAY = frozenset({"ExternalProvisioning", "Provisioning"})
#: Time after the creation of a claim in which its first event must come, and in which its volume should.
_FIRST_EVENT_WITHIN, _VOLUME_WITHIN = timedelta(seconds=10), timedelta(seconds=60)
#: Seconds until a new claim is looked at again.
_RECHECK_SECONDS = 2.0
#: The most events that are read.
_MAX_EVENTS = 50
#: Longest cause, in characters, because a message has to have room for the advice.
_MAX_CAUSE_LENGTH = 100


async def volume_wait(reads: ClusterReads, claim: PersistentVolumeClaimView, label: str, advice: str) -> Outcome | None:
    """Return why a claim gets no volume; None when it has one, or may get one when a Pod mounts it.

    A claim whose class has the volumeBindingMode WaitForFirstConsumer gets its volume when a Pod mounts it. Any other claim gets
    one by itself, or never. Only the events of a claim tell which, because an operator of single namespaces may not read
    StorageClasses. The message begins with the label and ends with the advice.
    """
    if claim.status.phase != PHASE_PENDING:
        return None
    try:
        events = await _events(reads, claim)
    except (*REFUSALS, AnswerTooLargeError):
        return None  # the permission came with a later version of the role
    reasons = {each.reason for each in events}
    made = claim.metadata.creation_timestamp
    age = reads.clock.now() - made if made is not None else _VOLUME_WITHIN
    if reasons & _WAITS_FOR_POD or (not reasons & (_FAILED | _UNDER_WAY) and age >= _FIRST_EVENT_WITHIN):
        return None
    failed = [each for each in events if each.reason in _FAILED]
    saying = failed or [each for each in events if each.reason in _UNDER_WAY and age >= _VOLUME_WITHIN]
    if not saying:
        return wait(CLAIM_NOT_BOUND, delay=_RECHECK_SECONDS)
    cause = one_line(max(saying, key=_version).message, _MAX_CAUSE_LENGTH)
    return blocked(CLAIM_NOT_BOUND, f"{label} has no volume: {cause}; {advice}", TAKEN_NAME_RECHECK_SECONDS)


async def _events(reads: ClusterReads, claim: PersistentVolumeClaimView) -> Sequence[EventView]:
    """Return some events of a claim: there are a few, and a user could write any number."""
    selector = f"involvedObject.uid={claim.uid}"
    page = await reads.client.list_page(READ_EVENTS, claim.namespace, field_selector=selector, limit=_MAX_EVENTS)
    return page.items


def _version(event: EventView) -> int:
    return int(event.metadata.resource_version)
