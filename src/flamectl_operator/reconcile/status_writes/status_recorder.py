"""Records in the status what a pass is about to do, and refuses to rely on fields that the installed CRD would prune."""

from collections.abc import Sequence

from flamectl_operator.api.constants import APPLY_CRD
from flamectl_operator.api.lenient import not_stored, stored_otherwise
from flamectl_operator.api.status import ConditionType, FlameClusterStatus, State
from flamectl_operator.kube.errors import ConflictError, NotFoundError
from flamectl_operator.planning.claim_outcomes import claims_in_danger
from flamectl_operator.reconcile.objects.cluster_io import ClusterIO
from flamectl_operator.reconcile.objects.outcomes import CHANGES_UNDONE
from flamectl_operator.reconcile.status_writes.stored_status import StoredStatus
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS
from flamectl_operator.runtime.outcome import Outcome, stop
from flamectl_operator.runtime.text import joined, listing, shortened
from flamectl_operator.status.conditions import ConditionWriter
from flamectl_operator.status.durable_fields import durable_fields

#: The reason of `Degraded` when the installed CRD cannot store the durable fields.
OUTDATED_CRD = "OutdatedCRD"
#: Seconds until an outdated CRD is checked again, because no event reports its update.
CRD_RECHECK_SECONDS = 15.0


class StatusRecorder:
    """Writes what must be stored before a pass acts on it, and stops a pass that could not remember what it is about to do."""

    def __init__(self, io: ClusterIO, status: StoredStatus) -> None:
        self._io = io
        self._status = status
        #: Why nothing is done, because not all durable fields were stored; None while all are.
        self._not_stored: Outcome | None = None

    async def record(self, status: FlameClusterStatus) -> Outcome | None:
        """Write a status whose durable fields must be stored before the pass acts; return why the pass must stop, or None.

        When the installed CRD does not declare all of them, the pass must not act: executor names would be used twice after the
        next restart, failures would not be counted, and a suspension could be reversed half-way.
        """
        before = self._status.stored
        if self._not_stored is not None and not await self._would_be_stored(status):
            return await self._refuse(before, self._not_stored)
        if (deferral := await self._status.write(status)) is not None:
            return _stopped_by(deferral)
        if durable_fields(self._status.stored) == durable_fields(status):
            self._not_stored = None
            return None
        return await self._record_not_stored(before, status)

    async def refuse_spec(self, fields: Sequence[str]) -> Outcome:
        """Write that the spec reads differently although nobody changed it; return why the pass must stop.

        A process that has just started may know only components. An earlier message about this generation then stays.
        """
        before, generation = self._status.stored, self._status.cluster.metadata.generation
        refusals = (each for each in before.conditions if each.reason == OUTDATED_CRD)
        known = next((each.message for each in refusals if each.observed_generation == generation), "")
        message = known or shortened(_refused_spec_message(fields, generation))
        stopped = await self._refuse(before, stop(OUTDATED_CRD, message, CRD_RECHECK_SECONDS))
        # No event reports that the CRD was updated, after which the spec may read as before.
        await self._io.reads.refresh(FLAME_CLUSTERS, self._io.owner.name)
        return stopped

    async def _record_not_stored(self, before: FlameClusterStatus, status: FlameClusterStatus) -> Outcome:
        """Write back the previous values with the reason, because only a part was stored; return why the pass must stop."""
        refusal = self._why_not_stored(status)
        stopped = await self._refuse(before, refusal)
        if stopped is refusal:
            self._not_stored = refusal
        return stopped

    async def _refuse(self, before: FlameClusterStatus, outcome: Outcome) -> Outcome:
        writer = ConditionWriter(before.conditions, self._status.cluster.metadata.generation, self._io.clock.now())
        degraded = writer.make(ConditionType.DEGRADED, outcome.reason, outcome.message, status=True)
        # Nobody else tells of them meanwhile, and the condition has the refusal alone.
        claims = (each.message for each in claims_in_danger(self._io.reads.observe()))
        refusal = {
            "state": before.state or State.PENDING,
            "reason": outcome.reason,
            "message": joined([*claims, outcome.message]),
            "conditions": writer.merge([degraded]),
        }
        if (deferral := await self._status.write(before.model_copy(update=refusal))) is not None:
            return _stopped_by(deferral)
        return outcome

    async def _would_be_stored(self, status: FlameClusterStatus) -> bool:
        """Return whether a dry run stores all durable fields, because the CRD has been updated."""
        try:
            answer = await self._status.dry_run(status)
        except (ConflictError, NotFoundError):
            return False
        return durable_fields(FlameClusterStatus.from_wire(answer.status)) == durable_fields(status)

    def _why_not_stored(self, status: FlameClusterStatus) -> Outcome:
        """Name the fields that the installed CRD drops, or else those that were stored with another value."""
        wire, stored = status.to_wire(), self._status.cluster.status
        if dropped := set(not_stored(wire, stored)):
            fields = ", ".join(sorted(dropped))
            message = (
                f"The installed CRD is older than the operator and does not store {fields}; the operator changes nothing until"
                f" an administrator updates the CRD: {APPLY_CRD}"
            )
            return stop(OUTDATED_CRD, message, CRD_RECHECK_SECONDS)
        fields = listing(sorted(stored_otherwise(wire, stored)))
        message = (
            f"A webhook changes {fields} when the operator writes it; the operator changes nothing until the webhook is"
            " corrected, because the status could not tell what the operator did"
        )
        return stop(CHANGES_UNDONE, message, CRD_RECHECK_SECONDS)


def _refused_spec_message(fields: Sequence[str], generation: int) -> str:
    return (
        f"The installed CRD reads {listing(fields)} of generation {generation} differently. The operator changes nothing"
        f" until an administrator updates the CRD ({APPLY_CRD}), and the manifest is applied again"
    )


def _stopped_by(deferral: Outcome) -> Outcome:
    return stop(deferral.reason, deferral.message, deferral.delay)
