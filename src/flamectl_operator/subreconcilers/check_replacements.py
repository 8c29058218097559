"""CheckReplacements: ensures that no Pod is deleted for a replacement that the API server would reject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.desired import names
from flamectl_operator.planning.object_cache import stale_object_caches
from flamectl_operator.reconcile import outcomes
from flamectl_operator.reconcile.base import Subreconciler
from flamectl_operator.reconcile.existing_claim import replacement_wait
from flamectl_operator.runtime.outcome import DONE, Outcome, combine

if TYPE_CHECKING:
    from flamectl_operator.desired.pod_template import ComponentTemplate
    from flamectl_operator.reconcile.reconcile_pass import Pass


class CheckReplacements(Subreconciler):
    """Check by dry run whether the API server accepts the replacements of stale Pods.

    The results are kept until the spec or the settings change, so each template needs one dry run.
    """

    async def run(self, pass_: Pass, /) -> Outcome:
        """Check each template that has a stale Pod."""
        observed, effective = pass_.observe(), pass_.effective
        if effective.suspended or not effective.config_map_current(observed):
            return DONE
        session_manager = effective.session_manager_to_replace(observed)
        # The executors are replaced with the session manager, unless its sessions persist.
        follow = session_manager and not effective.keeps_executors(observed)
        to_replace = effective.stale_executors(observed) or observed.unmarked_executors
        executors = effective.replicas > 0 if follow else bool(to_replace)
        waits: list[Outcome] = []
        desired, dry_runs = effective.desired, pass_.dry_runs
        if session_manager and await self._mountable(pass_, desired.session_manager, waits):
            await dry_runs.named(
                desired.session_manager, names.session_manager(observed.owner.name), "the session manager is"
            )
        caches = desired.object_cache
        stale_caches = caches is not None and bool(stale_object_caches(observed, effective))
        if caches is not None and stale_caches and await self._mountable(pass_, caches, waits):
            await dry_runs.named(caches, names.object_cache(observed.owner.name), "the object cache is")
        if executors and pass_.ids.exhausted:
            return outcomes.no_ids_left()
        if executors and await self._mountable(pass_, desired.executor, waits):
            await dry_runs.executor(effective, pass_.ids.trial_name_id)
        return combine(waits)

    async def _mountable(self, pass_: Pass, template: ComponentTemplate, waits: list[Outcome]) -> bool:
        """Return whether a new Pod could mount its claims."""
        created = {claim.name for claim in pass_.effective.desired.claims}
        put_off = await replacement_wait(pass_.io, template, created)
        if put_off is not None:
            pass_.dry_runs.withdraw(template)
            waits.append(put_off)
        return put_off is None
