"""The contract of a subreconciler."""

from abc import abstractmethod
from functools import partial
from typing import ClassVar, Generic, TypeVar

from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.sub_plans import SubPlan
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.steps.collect import collect
from flamectl_operator.runtime.outcome import DONE, Outcome, combine
from flamectl_operator.runtime.workflow import Action

P = TypeVar("P", bound=SubPlan)


class Subreconciler(Action[Pass]):
    """One idempotent step of a pass: a stage's own, or a part of a stage.

    It compares the objects that should exist with the objects that exist, does what its name says, and leaves early when there is
    nothing to do. It never relies on an earlier run, nor on an event.

    Its `run` raises RefusedError when the API server rejects a request; the status then shows the server's text. It raises
    KubernetesError when a request failed for another reason; the next pass repeats the request.
    """

    #: Whether the step may change child objects, so that the status can tell from its result how the work goes.
    acts: ClassVar[bool] = True


class PlannedStep(Subreconciler, Generic[P]):
    """A step that carries out its sub-plan: the deletions under the deletion lock, and all else without it."""

    @abstractmethod
    def sub_plan(self, plan: ClusterPlan, /) -> P:
        """Return what this step carries out."""

    async def delete(self, pass_: Pass, plan: P, /) -> Outcome:  # noqa: ARG002 - the contract of subclasses
        """Delete what the sub-plan says. The step holds the lock, and the sub-plan is as new as the view that came with it."""
        return DONE

    async def apply(self, pass_: Pass, plan: P, /) -> Outcome:  # noqa: ARG002 - the contract of subclasses
        """Do what else the sub-plan says. It is new if something was deleted."""
        return DONE

    async def run(self, pass_: Pass, /) -> Outcome:
        """Carry out the sub-plan; an error of the deletions does not stop the rest, nor the other way round."""
        plan = self.sub_plan(pass_.plan)
        if not plan.locked:
            applied = await self.apply(pass_, plan)
            return combine([*plan.waits, applied]) if plan.waits else applied

        async def apply() -> Outcome:
            return await self.apply(pass_, self.sub_plan(pass_.plan))

        return combine([*plan.waits, *await collect(partial(self._delete_under_lock, pass_), apply)])

    async def _delete_under_lock(self, pass_: Pass) -> Outcome:
        if (deferral := await pass_.confirm_lock()) is not None:
            return deferral
        plan, confirmed = self.sub_plan(pass_.plan), set[str]()  # the confirmation may have updated the view
        # The plan chooses other Pods in place of those whose claims turn out to be in danger.
        while chosen := [each.pod for each in plan.removes if each.pod.uid not in confirmed]:
            await pass_.io.reads.claims.confirm(chosen, pass_.io.writes_in_flight)
            confirmed |= {pod.uid for pod in chosen}
            plan = self.sub_plan(pass_.plan)
        # Taking the lock may have lasted so long that the plan now waits for another answer of the session manager.
        return await self.delete(pass_, plan) if plan.locked else combine(plan.waits)
