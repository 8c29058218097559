"""UpdateStatus: reports the state of the FlameCluster and its reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from flamectl_operator.planning import replacement_backoff
from flamectl_operator.planning.budget import surge
from flamectl_operator.reconcile.base import STATUS, Subreconciler
from flamectl_operator.runtime.outcome import DONE, Outcome, combine, wait_until
from flamectl_operator.status.compute import compute_status
from flamectl_operator.status.recent_failures import failures_end
from flamectl_operator.status.troubles import patience_ends

if TYPE_CHECKING:
    from flamectl_operator.api.status import FlameClusterStatus
    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.reconcile.reconcile_pass import Pass


class UpdateStatus(Subreconciler):
    """Compute the status from the objects that exist and from what the steps reported, and write it if it changed.

    It closes each pass. When the state has changed, it also runs before the acting steps, because these may take a while.
    """

    name = "UpdateStatus"
    summary = "Computes the status from the objects that exist and from the reports of the steps, and writes it if it changed."
    reads = ("FlameCluster", "ConfigMap", "Services", "NetworkPolicy", "PersistentVolumeClaims", "Pods", "Flame")
    writes = (STATUS,)

    async def run(self, pass_: Pass, /) -> Outcome:
        """Write the status if it changed, and return when to run again without an event."""
        await pass_.io.resolve_unknown_writes()
        observed, now = pass_.observe(), pass_.clock.now()
        next_id = pass_.ids.advance(pass_.status.stored, observed)
        status = compute_status(pass_.status_input(observed, next_id), now)
        put_off = await pass_.status.write(status)
        return combine([put_off or DONE, _next_pass_without_event(pass_, observed, status)])


def _next_pass_without_event(pass_: Pass, observed: ObservedCluster, status: FlameClusterStatus) -> Outcome:
    """Return the wait until failures or fights are over, failures are reset, or Pods take too long: there is no event."""
    now = pass_.clock.now()
    starting = None if pass_.spec is None or pass_.effective.suspended else patience_ends(observed, now)
    slow = DONE if starting is None else wait_until("PodsStarting", starting, now)
    over = None if pass_.spec is None else failures_end(status.recent_failures, pass_.effective)
    forgotten = DONE if over is None else wait_until("Stable", over, now)
    fights = [replace(fight, message="", attention=False) for fight in pass_.io.repairs.fights()]
    return combine([slow, forgotten, _failures_reset(pass_, observed), *fights])


def _failures_reset(pass_: Pass, observed: ObservedCluster) -> Outcome:
    if not pass_.may_act:
        return DONE
    effective, settings = pass_.effective, pass_.effective.settings
    beyond = surge(effective.update_strategy, effective.wanted_replicas)
    backoffs = (effective.session_manager_backoff, effective.executor_backoff)
    times = (
        # The status no longer shows the time of the next attempt when it has passed.
        *(backoff.next_attempt for backoff in backoffs),
        replacement_backoff.session_manager_reset_at(
            effective.session_manager_backoff, observed.session_manager, settings
        ),
        replacement_backoff.executors_reset_at(
            effective.executor_backoff, observed, effective.replicas, beyond, settings
        ),
    )
    # Time alone does not reset a failure whose time passed before this pass, so a wait for it would repeat the pass for ever.
    until = min((time for time in times if time is not None and time > pass_.begun), default=None)
    return DONE if until is None else wait_until("Stable", until, pass_.clock.now())
