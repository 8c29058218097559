"""CheckReplacements: ensures that no Pod is deleted for a replacement that the API server would reject."""

from __future__ import annotations

from flamectl_operator.desired import names
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.reconcile.checks.existing_claim import replacement_wait
from flamectl_operator.reconcile.objects import outcomes
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.steps.base import Subreconciler
from flamectl_operator.runtime.outcome import Outcome, combine


class CheckReplacements(Subreconciler):
    """Check by dry run whether the API server accepts the replacements of stale Pods.

    The results are kept until the spec or the settings change, so each template needs one dry run.
    """

    async def run(self, pass_: Pass, /) -> Outcome:
        """Check each template that has a stale Pod."""
        plan, dry_runs = pass_.plan.replacements, pass_.dry_runs
        serving = names.session_manager(pass_.io.owner.name) if pass_.observe().session_manager_ready else ""
        waits: list[Outcome] = []
        for template, replaced in ((plan.session_manager, serving), (plan.object_cache, "")):
            if template is not None and await self._mountable(pass_, template, waits):
                await dry_runs.named(template, replaced)
        if plan.executor is not None and pass_.ids.exhausted:
            return outcomes.no_ids_left()
        if plan.executor is not None and await self._mountable(pass_, plan.executor, waits):
            await dry_runs.executor(plan.executor, pass_.ids.trial_name_id)
        return combine(waits)

    async def _mountable(self, pass_: Pass, template: ComponentTemplate, waits: list[Outcome]) -> bool:
        """Return whether a new Pod could mount its claims."""
        deferral = await replacement_wait(pass_.io, template, pass_.effective.desired.claims)
        if deferral is not None:
            pass_.dry_runs.withdraw(template)
            waits.append(deferral)
        return deferral is None
