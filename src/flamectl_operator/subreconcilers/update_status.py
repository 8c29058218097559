"""UpdateStatus opens each pass and closes it: what must survive a crash comes first, the truth with its reasons last."""

from dataclasses import replace

from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.reconcile.objects.claim_reads import CLAIMS_RECHECK_SECONDS
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.steps.base import Subreconciler
from flamectl_operator.runtime.outcome import DONE, Outcome, combine, wait, wait_until
from flamectl_operator.status.compute import compute_status
from flamectl_operator.status.durable_fields import durable_fields, required_durable_fields
from flamectl_operator.status.health import next_late_end, present_state
from flamectl_operator.status.notices import silence
from flamectl_operator.status.pod_problems import patience_ends
from flamectl_operator.status.recent_failures import failures_end, recent_failures


class OpenStatus(Subreconciler):
    """Record executor ids, failures, the beginning of a suspension, and a state that has changed, before the pass acts on them.

    Nothing else runs in the pass unless all is stored that must survive a crash. If there is work, the status reports a changed
    state early, because the other steps may take a while; the pass goes on even if that write fails.
    """

    name = "UpdateStatus"
    acts = False

    async def run(self, pass_: Pass, /) -> Outcome:
        """Write the status if one of its durable fields must change, or if the state has changed."""
        if (effective := pass_.resolved) is None:
            pass_.report.recorded = True
            return DONE
        observed, stored, now = pass_.observe(), pass_.status.stored, pass_.clock.reading()
        if pass_.may_act:
            unwanted = pass_.spec_changes.unwanted(pass_.rendered, stored, observed, pass_.status.spec_hash)
            if unwanted:
                return await pass_.recorder.refuse_spec(unwanted)
        needed = pass_.plan.ids_needed if pass_.may_act else 0
        ids = pass_.ids.missing(needed)
        required = required_durable_fields(pass_.rendered.generation, observed, effective, ids.stop)
        # A failed Pod is reported even if the process dies right after it deleted the Pod.
        recorded = (
            recent_failures(stored, observed, effective.desired, effective.group, now.wall) == stored.recent_failures
        )
        if required != durable_fields(stored) or not recorded:
            status = compute_status(pass_.status_input(ids.stop), now.wall)
            if (stopped := await pass_.recorder.record(status)) is not None:
                return stopped
        pass_.ids.reserve(ids)
        pass_.report.recorded = True
        # If no step acts, or none has work, the closing UpdateStatus follows at once.
        turned = pass_.may_act and present_state(observed, effective.group) != pass_.status.stored.state
        if turned and pass_.plan.has_work:
            status = compute_status(pass_.status_input(pass_.ids.next_id), now.wall)
            return await pass_.status.write(status) or DONE
        return DONE


class UpdateStatus(Subreconciler):
    """Compute the status from the objects that exist and from what the steps reported, and write it if it changed."""

    acts = False

    async def run(self, pass_: Pass, /) -> Outcome:
        """Write the status if it changed, and return when to run again without an event."""
        await pass_.io.reads.resolve_unknown_writes()
        observed, now = pass_.observe(), pass_.clock.now()
        next_id = pass_.ids.advance(pass_.status.stored, observed)
        status = compute_status(pass_.status_input(next_id), now)
        deferral = await pass_.status.write(status)
        return combine([deferral or DONE, _next_pass_without_event(pass_, observed, status)])


def _next_pass_without_event(pass_: Pass, observed: ObservedCluster, status: FlameClusterStatus) -> Outcome:
    """Return the wait until the status changes by time alone, because no event reports that."""
    now, effective = pass_.clock.now(), pass_.resolved
    waits = []
    if effective is not None:
        unheard = silence(status.conditions, effective)
        waits += [
            wait_until("PodsStarting", None if effective.suspended else patience_ends(observed, now), now),
            wait_until("SessionManagerSilent", None if unheard is None or unheard.due <= now else unheard.due, now),
            wait_until("LateDeletion", next_late_end(observed, effective, now), now),
            wait_until("Stable", failures_end(status.recent_failures, effective.settings), now),
            wait_until("Stable", pass_.plan.next_without_event if pass_.may_act else None, now),
        ]
    waits += [replace(each, message="", attention=False) for each in pass_.io.repairs.contentions()]
    claims = pass_.io.reads.claims
    if claims.found or claims.error is not None:
        waits.append(wait("ReadingClaims", "", 0 if claims.learned else CLAIMS_RECHECK_SECONDS))
    errors = pass_.report.errors
    failing = pass_.status.persistent_failure(errors) if errors else DONE
    return combine([*waits, *([] if failing.attention else [failing])])
