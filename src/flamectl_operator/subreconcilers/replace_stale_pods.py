"""ReplaceStalePods: every Pod is what its author asked for, with as little disruption as that allows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from flamectl_operator.decisions.executors import RolloutPlan, plan_rollout
from flamectl_operator.desired.pods import rebinding_annotations
from flamectl_operator.kube.errors import KubernetesError
from flamectl_operator.kube.resources import PODS
from flamectl_operator.runtime.outcome import DONE, Outcome, combine, wait
from flamectl_operator.runtime.slow_start import slow_start_batch
from flamectl_operator.subreconcilers import children, lock
from flamectl_operator.subreconcilers.base import RefusedError, foremost, in_turn, next_turn, no_ids_left
from flamectl_operator.subreconcilers.scale_executors import delete_executors, listed

if TYPE_CHECKING:
    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.subreconcilers.base import Context


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
        manager = observed.session_manager
        refused: RefusedError | KubernetesError | None = None
        if manager is not None and manager.live and intent.session_manager_stale(manager):
            try:
                return await self._replace_session_manager(context, observed)
            except RefusedError as error:
                refused = error  # it has to stay, and with it those that follow it
        plan = plan_rollout(observed, intent)
        rehearsed, refused = bool(plan.stale), refused or await self._rehearse(context, plan)
        keep_stale = refused is not None or not rehearsed or not context.ids_left
        if keep_stale:
            plan = plan_rollout(observed, intent, keep_stale=True)

        async def tell() -> Outcome:
            if refused is not None:
                raise refused
            exhausted = [no_ids_left()] if rehearsed and not context.ids_left else []
            return combine([*exhausted, *map(context.waiting, plan.holds)])

        return combine(
            await in_turn(
                partial(self._delete, context, plan, keep_stale=keep_stale), partial(self._rebind, context, plan), tell
            )
        )

    async def _rehearse(self, context: Context, plan: RolloutPlan) -> RefusedError | KubernetesError | None:
        """Why stale executors must stay: those in their place would be refused, or nobody can tell yet.

        Lost ones are of no use in any case.
        """
        if not plan.stale:
            return None
        try:
            await children.rehearse(context, context.wanted().desired.executor, plan.stale[0].name)
        except (RefusedError, KubernetesError) as error:
            return error
        return None

    async def _replace_session_manager(self, context: Context, observed: ObservedCluster) -> Outcome:
        manager = observed.session_manager
        assert manager is not None
        wanted = context.wanted()
        await children.rehearse(context, wanted.desired.session_manager, manager.name)
        if wanted.replicas > 0:
            # Its executors will go with it: those that follow must not be refused either.
            if not context.ids_left:
                return no_ids_left()
            await children.rehearse(context, wanted.desired.executor, context.next_executor_name)
        if (hold := await lock.acquire(context)) is not None:
            return hold
        manager = context.observe().session_manager  # that took a while
        if manager is None or not manager.live or not context.wanted().session_manager_stale(manager):
            return children.changed()
        if not await children.delete(context, PODS, context.stores.pods, manager.pod):
            return children.changed()
        context.normal("SessionManagerDeleted", f'Deleted session manager Pod "{manager.name}": no longer as specified')
        return wait("Terminating", "replacing the session manager")

    async def _delete(self, context: Context, plan: RolloutPlan, *, keep_stale: bool) -> Outcome:
        if not plan.delete:
            return DONE
        if (hold := await lock.acquire(context)) is not None:
            return hold
        # All this took a while, in which executors may have become ready, or fewer.
        plan = plan_rollout(context.observe(), context.wanted(), keep_stale=keep_stale)
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

        async def mark(index: int) -> None:
            # The resourceVersion sees to it that none is marked which has started meanwhile.
            version = plan.rebind[index].pod.metadata.resource_version
            patch = {"metadata": {"annotations": annotations, "resourceVersion": version}}
            name = plan.rebind[index].name
            if await children.patch(context, PODS, context.stores.pods, name, patch) is None:
                changed.append(children.changed())

        in_flight = context.config.controller.max_writes_in_flight
        result = await slow_start_batch(len(plan.rebind), len(plan.rebind) or 1, in_flight, mark, context.turn())
        if result.errors:
            raise foremost(result.errors)
        return combine([*changed, *([next_turn()] if result.skipped else [])])
