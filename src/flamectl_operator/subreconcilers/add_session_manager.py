"""AddSessionManager: ensures one session manager, and never a second."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from flamectl_operator.api.constants import CLAIM_ANNOTATION, SESSION_STORE_ANNOTATION
from flamectl_operator.desired import names
from flamectl_operator.kube.resources import PODS
from flamectl_operator.planning.session_manager import (
    SessionManagerAction,
    SessionManagerPlan,
    plan_session_manager,
    session_manager_repair,
)
from flamectl_operator.reconcile import outcomes
from flamectl_operator.reconcile.base import Subreconciler
from flamectl_operator.reconcile.existing_claim import mount_reserved, reserve_existing_claim
from flamectl_operator.reconcile.named_pod import NamedPod
from flamectl_operator.runtime.outcome import DONE, Outcome, wait

if TYPE_CHECKING:
    from flamectl_operator.kube.views import PodView
    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.reconcile.reconcile_pass import Pass

_EXISTING_CLAIM = "spec.sessionManager.persistence.existingClaim"


class AddSessionManager(Subreconciler):
    """Create the Pod `<name>-session-manager` when it is missing, and delete it when it has failed or is not wanted.

    Its fixed name guarantees that there are never two: a new Pod can be created only after the old one is gone. A Pod that stays
    terminating, as on a lost node, is force-deleted in the end. ReplaceStalePods replaces a stale one.
    """

    async def run(self, pass_: Pass, /) -> Outcome:
        """Carry out the plan."""
        observed, plan = _plan(pass_)
        if plan.action in {SessionManagerAction.DELETE, SessionManagerAction.FORCE_DELETE}:
            manager = observed.session_manager
            if (put_off := await pass_.confirm_lock([] if manager is None else [manager])) is not None:
                return put_off
            observed, plan = _plan(pass_)  # the confirmation may have updated the view
        match plan.action:
            case SessionManagerAction.NOTHING:
                return DONE
            case SessionManagerAction.WAIT:
                return plan.wait or outcomes.name_taken(pass_.io.owner, PODS, _pod(observed))
            case SessionManagerAction.CREATE:
                return await self._create(pass_, observed)
            case SessionManagerAction.LOOK:
                return await _named(pass_).look(plan.wait or DONE)
            case SessionManagerAction.REPAIR:
                return await _named(pass_).restore_labels(_pod(observed))
            case SessionManagerAction.DELETE | SessionManagerAction.FORCE_DELETE:
                return await self._delete(pass_, _pod(observed), plan)

    async def _create(self, pass_: Pass, observed: ObservedCluster) -> Outcome:
        desired = pass_.effective.desired
        persistence, own = desired.spec.session_manager.persistence, desired.session_manager_claim
        claim = observed.claims.get(own.name) if own is not None else None
        annotations: dict[str, str] = {}
        if persistence is not None and persistence.existing_claim is not None:
            found = await reserve_existing_claim(pass_.io, persistence.existing_claim, _EXISTING_CLAIM)
            if isinstance(found, Outcome):
                return found
            claim, annotations = found, {CLAIM_ANNOTATION: found.uid}
        if store := pass_.effective.session_store(claim):
            annotations[SESSION_STORE_ANNOTATION] = store
        with nullcontext() if claim is None else mount_reserved(pass_.io, claim):
            return await _named(pass_).create(desired.session_manager, annotations or None)

    async def _delete(self, pass_: Pass, pod: PodView, plan: SessionManagerPlan) -> Outcome:
        forced = plan.action is SessionManagerAction.FORCE_DELETE
        if not await pass_.io.delete(PODS, pod, grace_period_seconds=0 if forced else None):
            return outcomes.changed()
        how = "Force-deleted" if forced else "Deleted"
        pass_.io.record_event("SessionManagerDeleted", f'{how} session manager Pod "{pod.name}": {plan.why}')
        return wait("Terminating", "waiting for the old session manager to terminate")


def _plan(pass_: Pass) -> tuple[ObservedCluster, SessionManagerPlan]:
    observed = pass_.observe()
    return observed, plan_session_manager(observed, pass_.effective, pass_.now())


def _named(pass_: Pass) -> NamedPod:
    def repair(pod: PodView) -> dict[str, object] | None:
        return session_manager_repair(pod, pass_.io.owner, pass_.effective)

    return NamedPod(pass_, names.session_manager(pass_.io.owner.name), "session manager", "SessionManager", repair)


def _pod(observed: ObservedCluster) -> PodView:
    """Return the Pod of a plan that acts on one."""
    assert observed.session_manager_pod is not None
    return observed.session_manager_pod
