"""AddSessionManager: there is one session manager, and never a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.decisions.session_manager import (
    Action,
    SessionManagerPlan,
    plan_session_manager,
    session_manager_repair,
)
from flamectl_operator.desired import names
from flamectl_operator.kube.errors import AlreadyExistsError
from flamectl_operator.kube.resources import PODS
from flamectl_operator.runtime.outcome import DONE, Outcome, wait
from flamectl_operator.subreconcilers import admission, children, lock, outcomes, reading
from flamectl_operator.subreconcilers.refusals import QUOTA_EXCEEDED, RefusedError

if TYPE_CHECKING:
    from flamectl_operator.kube.views import PodView
    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.subreconcilers.context import Context


class AddSessionManager:
    """Responsible for the Pod `<name>-session-manager`: makes it when it is missing, clears it away when it is over.

    Its fixed name is what guarantees that there are never two: a new one can only be made once the old one is gone. One that
    stays stuck terminating, as on a lost node, is in the end deleted by force. A stale one is ReplaceStalePods' business.
    """

    name = "AddSessionManager"

    async def reconcile(self, context: Context) -> Outcome:
        """Does what the plan says."""
        observed, plan = self._plan(context)
        if plan.action in {Action.DELETE, Action.FORCE_DELETE}:
            if (put_off := await lock.acquire(context)) is not None:
                return put_off
            observed, plan = self._plan(context)  # that took a while
        match plan.action:
            case Action.NOTHING:
                return DONE
            case Action.WAIT:
                return self._wait(context, observed, plan)
            case Action.CREATE:
                return await self._create(context)
            case Action.LOOK:
                return await self._look(context, plan)
            case Action.REPAIR:
                return await self._repair(context, _pod(observed))
            case Action.DELETE | Action.FORCE_DELETE:
                return await self._delete(context, _pod(observed), plan)

    def _plan(self, context: Context) -> tuple[ObservedCluster, SessionManagerPlan]:
        observed = context.observe()
        return observed, plan_session_manager(observed, context.wanted(), context.moment())

    def _wait(self, context: Context, observed: ObservedCluster, plan: SessionManagerPlan) -> Outcome:
        if plan.hold is None:
            return outcomes.name_taken(context.owner, PODS, _pod(observed))
        return context.waiting(plan.hold)

    async def _create(self, context: Context) -> Outcome:
        if context.overtaken:
            return outcomes.changed(0)
        name = names.session_manager(context.owner.name)
        manifest = context.wanted().desired.session_manager.pod(name)
        try:
            pod = await children.create(context, PODS, context.stores.pods, manifest)
        except AlreadyExistsError:
            return await self._find(context, name)
        except RefusedError as error:
            context.crowded_out = error.reason == QUOTA_EXCEEDED
            raise
        context.normal("SessionManagerCreated", f'Created session manager Pod "{name}"')
        admission.check_session_manager(context, pod, manifest)
        # A webhook may have taken the label off, and then the watch says nothing of it.
        return DONE if CLUSTER_LABEL in pod.labels else await self._recover(context, pod)

    async def _find(self, context: Context, name: str) -> Outcome:
        """The watch does not show the Pod that has the name: it is somebody else's, or ours without its label."""
        pod = await reading.refresh(context, PODS, context.stores.pods, name)
        if pod is None:
            return outcomes.changed()
        if not pod.controlled_by(context.owner.uid):
            return outcomes.name_taken(context.owner, PODS, pod)
        return await self._recover(context, pod)

    async def _look(self, context: Context, plan: SessionManagerPlan) -> Outcome:
        name = names.session_manager(context.owner.name)
        pod = await reading.refresh(context, PODS, context.stores.pods, name)
        if pod is not None and pod.controlled_by(context.owner.uid):
            return await self._recover(context, pod)
        return DONE if plan.hold is None else context.waiting(plan.hold)

    async def _recover(self, context: Context, pod: PodView) -> Outcome:
        """Brings a Pod of ours into sight that the watch does not show."""
        outcome = await self._repair(context, pod)
        # Should somebody keep taking the label off, no event will tell.
        return outcomes.changed(outcomes.RECHECK_TAKEN_NAME) if outcome is DONE else outcome

    async def _repair(self, context: Context, pod: PodView) -> Outcome:
        changes = session_manager_repair(pod, context.owner, context.wanted())
        if changes is None:
            return outcomes.changed()
        repaired = await children.patch(context, PODS, context.stores.pods, pod.name, changes)
        if repaired is None:
            return outcomes.changed()
        if session_manager_repair(repaired, context.owner, context.wanted()) is not None:
            return outcomes.undone(PODS, pod.name)
        context.normal("SessionManagerRepaired", f'Restored labels of Pod "{pod.name}"')
        return DONE

    async def _delete(self, context: Context, pod: PodView, plan: SessionManagerPlan) -> Outcome:
        forced = plan.action is Action.FORCE_DELETE
        grace = 0 if forced else None
        if not await children.delete(context, PODS, context.stores.pods, pod, grace_period_seconds=grace):
            return outcomes.changed()
        how = "Deleted by force" if forced else "Deleted"
        context.normal("SessionManagerDeleted", f'{how} session manager Pod "{pod.name}": {plan.why}')
        return wait("Terminating", "waiting for the old session manager to be gone")


def _pod(observed: ObservedCluster) -> PodView:
    """The Pod that a plan with an action on it speaks of."""
    assert observed.session_manager_pod is not None
    return observed.session_manager_pod
