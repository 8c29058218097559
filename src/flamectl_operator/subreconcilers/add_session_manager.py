"""AddSessionManager: ensures one session manager, and never a second."""

from flamectl_operator.api.constants import CLAIM_ANNOTATION, SESSION_STORE_ANNOTATION, SHARED_ANNOTATION
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import PODS
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.incarnation import on_claim
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.sub_plans import SessionManagerAction, SessionManagerPlan
from flamectl_operator.reconcile.checks.existing_claim import mount_reserved, reserve_claim
from flamectl_operator.reconcile.objects import outcomes
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.steps.base import PlannedStep
from flamectl_operator.reconcile.steps.named_pod import named_session_manager
from flamectl_operator.runtime.outcome import DONE, Outcome


class AddSessionManager(PlannedStep[SessionManagerPlan]):
    """Create the Pod `<name>-session-manager` when it is missing, and delete it when it has failed or is not wanted.

    Its fixed name guarantees that there are never two: a new Pod can be created only after the old one is gone. A Pod that stays
    terminating, as on a lost node, is force-deleted in the end. ReplaceStalePods replaces a stale one.
    """

    def sub_plan(self, plan: ClusterPlan, /) -> SessionManagerPlan:
        """Return the plan of the session manager."""
        return plan.session_manager

    async def delete(self, pass_: Pass, plan: SessionManagerPlan, /) -> Outcome:
        """Delete a session manager that has failed or is not wanted."""
        assert plan.pod is not None
        forced = plan.action is SessionManagerAction.FORCE_DELETE
        return await named_session_manager(pass_).delete(plan.pod.pod, plan.why, forced=forced)

    async def apply(self, pass_: Pass, plan: SessionManagerPlan, /) -> Outcome:
        """Create the session manager, or repair it."""
        observed = pass_.observe()
        match plan.action:
            case SessionManagerAction.WAIT:
                return plan.deferral or outcomes.name_taken(pass_.io.owner, PODS, _pod(observed))
            case SessionManagerAction.CREATE:
                return await self._create(pass_, observed)
            case SessionManagerAction.READ:
                return await named_session_manager(pass_).find_unlabelled(plan.deferral or DONE)
            case SessionManagerAction.REPAIR:
                return await named_session_manager(pass_).restore_labels(_pod(observed))
            case _:
                return DONE

    async def _create(self, pass_: Pass, observed: ObservedCluster) -> Outcome:
        desired = pass_.effective.desired
        persistence, own = desired.spec.session_manager.persistence, desired.session_manager_claim
        made = observed.claims.get(own.name) if own is not None else None
        claim = await reserve_claim(pass_.io.reads, desired.session_manager.field, persistence, made)
        if isinstance(claim, Outcome):
            return claim
        annotations = {SHARED_ANNOTATION: desired.shared_revision}
        if claim is not None:
            annotations[CLAIM_ANNOTATION] = claim.uid
            if desired.session_store:
                annotations[SESSION_STORE_ANNOTATION] = on_claim(desired.session_store, claim.uid)
        with mount_reserved(pass_.io.reads, claim):
            return await named_session_manager(pass_).create(desired.session_manager, annotations)


def _pod(observed: ObservedCluster) -> PodView:
    """Return the Pod of a plan that acts on one."""
    assert observed.session_manager_pod is not None
    return observed.session_manager_pod
