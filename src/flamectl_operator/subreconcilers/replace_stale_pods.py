"""ReplaceStalePods: replaces Pods that differ from the spec, with as little disruption as possible."""

from functools import partial

from flamectl_operator.desired.executor_annotations import DrainReason, executor_annotations, rebinding_annotations
from flamectl_operator.observed.component import Component, ObjectCache
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.removals import RemovalReason, by_reason, listed
from flamectl_operator.planning.spec_changes import because, why_replaced
from flamectl_operator.planning.sub_plans import RolloutPlan
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.steps.base import PlannedStep
from flamectl_operator.reconcile.steps.batch import ExecutorRemoval, annotate_executors
from flamectl_operator.reconcile.steps.collect import collect
from flamectl_operator.reconcile.steps.named_pod import named_object_cache, named_session_manager
from flamectl_operator.runtime.outcome import DONE, Outcome, combine, wait


class ReplaceStalePods(PlannedStep[RolloutPlan]):
    """Delete stale Pods as far as the update strategy allows; the next pass creates their replacements.

    The session manager comes first, then the object caches, one at a time. Executors of an earlier session manager are deleted
    all at once when the session manager is ready. Stale executors follow the object caches, within their budget. A rollout stops
    when its new Pods do not become ready, and the other Pods stay in service.
    """

    def sub_plan(self, plan: ClusterPlan, /) -> RolloutPlan:
        """Return the plan of the rollout."""
        return plan.rollout

    async def delete(self, pass_: Pass, plan: RolloutPlan, /) -> Outcome:
        """Delete the stale Pods that are due."""
        if plan.session_manager is not None:
            return await self._replace_session_manager(pass_, plan.session_manager, plan.why)
        ends = await collect(partial(self._replace_object_caches, pass_, plan), partial(self._replace_executors, pass_))
        return combine(ends)

    async def _replace_session_manager(self, pass_: Pass, manager: Component, why: str) -> Outcome:
        template, paths = pass_.effective.desired.session_manager, pass_.spec_changes.session_manager
        edited = manager.revision == template.revision
        because_of = why_replaced([manager], template, paths) if edited else because(why, paths)
        deleted = await named_session_manager(pass_).delete(manager.pod, because_of)
        return wait("Terminating", "replacing the session manager") if deleted is DONE else deleted

    async def _replace_object_caches(self, pass_: Pass, plan: RolloutPlan) -> Outcome:
        """Delete the stale object caches that are due; ScaleObjectCache recreates them under their names."""
        for cache in plan.object_caches:
            # An unready object cache may be deleted together with others, but not if it has become ready meanwhile.
            still_due = partial(_replaceable, pass_, cache)
            pod = named_object_cache(pass_, cache.name)
            template = pass_.effective.desired.object_cache
            why = RemovalReason.STALE.value if template is None else why_replaced([cache], template, ())
            deleted = await pod.delete(cache.pod, why, unchanged=not cache.ready, still_due=still_due)
            if deleted is not DONE:
                return deleted
        return DONE

    async def _replace_executors(self, pass_: Pass) -> Outcome:
        plan = self.sub_plan(pass_.plan)  # a deleted object cache changed the view
        if not plan.delete and not plan.drain:
            return DONE
        # An unready executor needs no budget, unless it becomes ready before its deletion is sent.
        unchanged = {executor.name for executor, _ in plan.delete if not executor.ready}
        stale = [executor for executor, _ in plan.delete]
        removal = ExecutorRemoval(pass_.io, (*stale, *plan.drain))
        result = await removal.delete(stale, unchanged)
        template, changes = pass_.effective.desired.group.template, pass_.spec_changes.executors
        for reason, chosen in by_reason(plan.delete, result.deleted).items():
            why = why_replaced(chosen, template, changes) if reason is RemovalReason.STALE else reason.value
            pass_.io.events.record_normal("ExecutorsReplaced", f"Deleted {listed(chosen)} for replacement: {why}")
        why = why_replaced(plan.drain, template, changes)
        return combine([result.outcome(), await removal.mark(plan.drain, DrainReason.STALE, why)])

    async def apply(self, pass_: Pass, plan: RolloutPlan, /) -> Outcome:
        """Patch executors that wait in their init container, because they have no session manager yet and need no new Pod.

        Executors that belong to the present incarnation get their annotation back, if somebody removed or changed it.
        """
        if not plan.rebind and not plan.reannotate:
            return DONE
        incarnation = pass_.observe().session_manager_incarnation
        bindings = [(each, rebinding_annotations(incarnation, pass_.clock.now())) for each in plan.rebind]
        bindings += [(each, executor_annotations(incarnation)) for each in plan.reannotate]
        return await annotate_executors(pass_.io, bindings)


def _replaceable(pass_: Pass, cache: ObjectCache) -> bool:
    """Return whether an object cache may still be deleted in the present view."""
    return any(each.pod.uid == cache.pod.uid for each in pass_.plan.rollout.object_caches)
