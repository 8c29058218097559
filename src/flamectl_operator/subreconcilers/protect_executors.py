"""ProtectExecutors: keeps autoscalers of nodes away from executors that have work."""

from flamectl_operator.reconcile.objects import outcomes
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.steps.base import Subreconciler
from flamectl_operator.reconcile.steps.batch import annotate_executors
from flamectl_operator.runtime.outcome import DONE, Outcome


class ProtectExecutors(Subreconciler):
    """Annotate executors when their work begins, and remove the annotations when it has ended, if the spec asks for it.

    Autoscalers of nodes leave a Pod with these annotations alone. A Pod is patched at most once a minute.
    """

    async def run(self, pass_: Pass, /) -> Outcome:
        """Patch the executors whose work has begun or ended."""
        plan = pass_.plan.protection
        again = DONE if plan.again is None else outcomes.changed(plan.again)
        return await annotate_executors(pass_.io, plan.patch, again)
