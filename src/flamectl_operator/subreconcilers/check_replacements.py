"""CheckReplacements: ensures that no Pod is deleted for a replacement that the API server would reject."""

from collections.abc import Awaitable, Callable
from functools import partial

from flamectl_operator.desired import names
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.reconcile.checks.existing_claim import replacement_wait
from flamectl_operator.reconcile.objects import outcomes
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.steps.base import Subreconciler
from flamectl_operator.runtime.outcome import DONE, Outcome, combine


class CheckReplacements(Subreconciler):
    """Check by dry run whether the API server accepts the replacements of stale Pods.

    The results are kept until the spec or the settings change, so each template needs one dry run.
    """

    async def run(self, pass_: Pass, /) -> Outcome:
        """Check each template that has a stale Pod."""
        plan, dry_runs = pass_.plan.replacements, pass_.dry_runs
        serving = names.session_manager(pass_.io.owner.name) if pass_.observe().session_manager_ready else ""
        checked: list[Outcome] = []
        for template, replaced in ((plan.session_manager, serving), (plan.object_cache, "")):
            if template is not None:
                checked.append(await self._check(pass_, template, partial(dry_runs.named, template, replaced)))
        if plan.executor is not None:
            if pass_.ids.exhausted:
                return outcomes.no_ids_left()
            dry_run = partial(dry_runs.executor, plan.executor, pass_.ids.trial_name_id)
            checked.append(await self._check(pass_, plan.executor, dry_run))
        return combine(checked)

    async def _check(self, pass_: Pass, template: ComponentTemplate, dry_run: Callable[[], Awaitable[None]]) -> Outcome:
        """Send a dry run, unless a new Pod could not mount its claims; then return why."""
        deferral = await replacement_wait(pass_.io.reads, template, pass_.effective.desired.claims)
        if deferral is None:
            await dry_run()
            return DONE
        pass_.dry_runs.withdraw(template)
        return deferral
