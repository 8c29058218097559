"""ReplaceStalePods: every Pod is what its author asked for, with as little disruption as that allows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from flamectl_operator.decisions.rollout import RolloutPlan, plan_rollout
from flamectl_operator.desired.pods import rebinding_annotations
from flamectl_operator.kube.errors import KubernetesError
from flamectl_operator.kube.resources import PODS
from flamectl_operator.runtime.outcome import DONE, Outcome, combine, wait
from flamectl_operator.runtime.slow_start import in_parallel
from flamectl_operator.subreconcilers import admission, children, lock, outcomes
from flamectl_operator.subreconcilers.executor_removal import delete_executors, listed
from flamectl_operator.subreconcilers.refusals import RefusedError, collect, foremost

if TYPE_CHECKING:
    from flamectl_operator.observed.cluster import Executor
    from flamectl_operator.subreconcilers.context import Context
    from flamectl_operator.subreconcilers.refusals import Failure


class ReplaceStalePods:
    """Responsible for rollouts: deletes what is stale, as far as the update strategy allows; the next pass makes it anew.

    The session manager comes first. Executors follow when it is ready: those that belong to an earlier one all at once, stale
    ones within their budget. A rollout whose new Pods do not become ready halts there, with the rest still serving.
    """

    name = "ReplaceStalePods"

    async def reconcile(self, context: Context) -> Outcome:
        """Deletes the stale Pods whose turn it is."""
        observed, intent = context.observe(), context.wanted()
        if intent.suspended:
            return DONE
        if not intent.config_map_current(observed):
            return wait("ConfigMapNotReady", "")
        error: Failure | None = None
        if intent.session_manager_to_replace(observed):
            try:
                return await self._replace_session_manager(context)
            except RefusedError as refusal:
                error = refusal  # it has to stay, and with it those that follow it
        plan = self._plan(context)
        asked = bool(plan.stale)
        if asked and error is None:
            error = await self._rehearse(context)
        # Also where none is stale: one that becomes so while others are deleted is not asked about any more.
        keep_stale = not asked or error is not None or not context.ids_left
        if keep_stale:
            plan = self._plan(context, keep_stale=True)
        ends, errors = await collect(
            partial(self._delete, context, plan, keep_stale=keep_stale), partial(self._rebind, context, plan)
        )
        if error is not None:
            errors.append(error)
        if errors:
            raise foremost(errors)
        exhausted = [outcomes.no_ids_left()] if asked and not context.ids_left else []
        return combine([*ends, *exhausted, *map(context.waiting, plan.holds)])

    def _plan(self, context: Context, *, keep_stale: bool = False) -> RolloutPlan:
        observed, intent = context.observe(), context.wanted()
        return plan_rollout(observed, intent, context.moment(), keep_stale=keep_stale, crowded_out=context.crowded_out)

    async def _rehearse(self, context: Context) -> Failure | None:
        """Why stale executors must stay: those in their place would be refused, or nobody can tell yet.

        Lost ones are of no use in any case.
        """
        try:
            await admission.rehearse_executor(context)
        except (RefusedError, KubernetesError) as error:
            return error
        return None

    async def _replace_session_manager(self, context: Context) -> Outcome:
        wanted = context.wanted()
        await admission.rehearse_session_manager(context)
        if wanted.replicas > 0:
            # Its executors will go with it: those that follow must not be refused either.
            if not context.ids_left:
                return outcomes.no_ids_left()
            await admission.rehearse_executor(context)
        if (put_off := await lock.acquire(context)) is not None:
            return put_off
        manager = context.observe().session_manager  # that took a while
        if manager is None or not context.wanted().session_manager_to_replace(context.observe()):
            return outcomes.changed()
        if not await children.delete(context, PODS, context.stores.pods, manager.pod):
            return outcomes.changed()
        context.normal("SessionManagerDeleted", f'Deleted session manager Pod "{manager.name}": no longer as specified')
        return wait("Terminating", "replacing the session manager")

    async def _delete(self, context: Context, plan: RolloutPlan, *, keep_stale: bool) -> Outcome:
        if not plan.delete:
            return DONE
        if (put_off := await lock.acquire(context)) is not None:
            return put_off
        # All this took a while, in which executors may have become ready, or fewer.
        plan = self._plan(context, keep_stale=keep_stale)
        if not plan.delete:
            return DONE
        # One that is not ready needs no budget; if it becomes ready before it is its turn to be deleted, it does.
        as_seen = {executor.name for executor, _ in plan.delete if not executor.ready}
        removal = await delete_executors(context, [executor for executor, _ in plan.delete], as_seen)
        deleted = removal.deleted
        for reason in dict.fromkeys(reason for executor, reason in plan.delete if executor.name in deleted):
            chosen = [executor for executor, why in plan.delete if why == reason and executor.name in deleted]
            context.normal("ExecutorsReplaced", f"Deleted {listed(chosen)} to replace them: {reason}")
        return removal.outcome()

    async def _rebind(self, context: Context, plan: RolloutPlan) -> Outcome:
        """Executors that still wait in their init container have met no session manager: they need only the new mark."""
        annotations = rebinding_annotations(context.observe().session_manager_life)
        changed: list[Outcome] = []

        async def mark(executor: Executor) -> None:
            # The resourceVersion sees to it that none is marked which has started meanwhile.
            version = executor.pod.metadata.resource_version
            patch = {"metadata": {"annotations": annotations, "resourceVersion": version}}
            if await children.patch(context, PODS, context.stores.pods, executor.name, patch) is None:
                changed.append(outcomes.changed())

        in_flight = context.config.controller.max_writes_in_flight
        result = await in_parallel(plan.rebind, in_flight, mark, context.turn())
        if result.errors:
            raise foremost(result.errors)
        return combine([*changed, *([outcomes.next_turn()] if result.skipped else [])])
