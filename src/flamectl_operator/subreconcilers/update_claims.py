"""UpdateClaims: keeps a PersistentVolumeClaim for each Pod with data, and deletes none that a Pod uses."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from flamectl_operator.kube.errors import AlreadyExistsError
from flamectl_operator.kube.resources import CLAIMS, PODS
from flamectl_operator.planning.claims import ClaimPlan, claim_patch, is_ours, plan_claims
from flamectl_operator.reconcile import outcomes
from flamectl_operator.reconcile.base import Subreconciler
from flamectl_operator.reconcile.cluster_reads import READ_CLAIMS_AGAIN
from flamectl_operator.reconcile.refusals import RefusedError, collect
from flamectl_operator.runtime.outcome import DONE, Outcome, combine, wait

if TYPE_CHECKING:
    from flamectl_operator.desired.claims import DesiredClaim
    from flamectl_operator.kube.views import PersistentVolumeClaimView
    from flamectl_operator.reconcile.reconcile_pass import Pass


class UpdateClaims(Subreconciler):
    """Create, grow, keep and delete the PersistentVolumeClaims as `persistence` says.

    A claim is deleted only with the deletion lock, and after a read has shown that no Pod with the name of the claim exists.
    """

    name = "UpdateClaims"
    summary = "Creates and grows PersistentVolumeClaims, and deletes claims that scaling down left without a Pod."
    reads = ("FlameCluster", "PersistentVolumeClaims", "Pods")
    writes = ("PersistentVolumeClaims",)

    async def run(self, subject: Pass) -> Outcome:
        """Do what the plan says."""
        plan = _plan(subject)
        ends = await collect(
            *([partial(_look_again, subject)] if subject.observe().claim_users else []),
            *(partial(self._create, subject, claim) for claim in plan.create),
            *(partial(self._patch, subject, claim, changes) for claim, changes in plan.patch),
            partial(self._delete, subject, plan),
        )
        taken = [outcomes.name_taken(subject.io.owner, CLAIMS, claim) for claim in plan.taken]
        return combine([*plan.outcomes, *taken, *ends])

    async def _create(self, run: Pass, desired: DesiredClaim) -> Outcome:
        if run.io.superseded:
            return outcomes.changed(0)
        try:
            await run.io.create(CLAIMS, desired.manifest())
        except AlreadyExistsError:
            return await self._find(run, desired)
        if desired.name in run.status.stored.claims:
            message = (
                f'Created PersistentVolumeClaim "{desired.name}" in place of a claim that vanished; it holds no data'
            )
            run.io.record_warning("ClaimReplaced", message)
        else:
            run.io.record_event("ClaimCreated", f'Created PersistentVolumeClaim "{desired.name}"')
        return DONE

    async def _find(self, run: Pass, desired: DesiredClaim) -> Outcome:
        """Look at the claim that has the name and that the watch does not show: it is foreign, or lacks its label."""
        claim = await run.io.refresh(CLAIMS, desired.name)
        if claim is None:
            return outcomes.changed()
        if not is_ours(claim, run.io.owner):
            return outcomes.name_taken(run.io.owner, CLAIMS, claim)
        changes = claim_patch(claim, desired)
        return outcomes.changed() if changes is None else await self._patch(run, claim, changes)

    async def _patch(self, run: Pass, claim: PersistentVolumeClaimView, changes: dict[str, Any]) -> Outcome:
        if _adopts(run, claim, changes) and not await _may_adopt(run):
            return outcomes.changed()
        if (put_off := run.io.repairs.admit(CLAIMS, claim.name, {})) is not None:
            return put_off
        try:
            patched = await run.io.patch(CLAIMS, claim.name, changes)
        except RefusedError as error:
            # Kubernetes' admission plugin for resizing says so in its message alone.
            if "spec" not in changes or "resize" not in str(error.__cause__):
                raise
            message = f'PersistentVolumeClaim "{claim.name}" has {claim.size} and cannot grow: {error.__cause__}'
            raise RefusedError("ClaimCannotGrow", message) from error
        if patched is None:
            return outcomes.changed()
        if not run.io.repairs.record(CLAIMS, claim.name, claim):
            run.io.record_event("ClaimUpdated", f'Updated PersistentVolumeClaim "{claim.name}"')
        return DONE

    async def _delete(self, run: Pass, plan: ClaimPlan) -> Outcome:
        if not plan.delete:
            return DONE
        if (put_off := await run.confirm_lock()) is not None:
            return put_off
        ends = await collect(*(partial(self._remove, run, claim) for claim in _plan(run).delete))
        return combine(ends)

    async def _remove(self, run: Pass, claim: PersistentVolumeClaimView) -> Outcome:
        # The watch may be late, or not show a Pod without its label, and the claim holds data.
        if await run.io.refresh(PODS, claim.name) is not None:
            return outcomes.changed(None)
        if not await run.io.delete(CLAIMS, claim, unchanged=True, still_due=partial(_surplus, run, claim)):
            return outcomes.changed()
        run.io.record_event("ClaimDeleted", f'Deleted PersistentVolumeClaim "{claim.name}": no object cache needs it')
        return DONE


async def _look_again(run: Pass) -> Outcome:
    """Return when claims are read again that the watch does not show.

    Raises:
        RefusedError: RBAC forbids the read.
        KubernetesError: A claim cannot be read.
    """
    if run.io.claims_error is not None:
        raise run.io.claims_error
    observed = run.observe()
    unseen = observed.claim_users.keys() - observed.claims.keys()
    return wait("ReadingClaims", "", READ_CLAIMS_AGAIN) if unseen else DONE


def _adopts(run: Pass, claim: PersistentVolumeClaimView, changes: dict[str, Any]) -> bool:
    """Return whether a patch makes the FlameCluster the owner of a claim that is not owned by it."""
    references = changes.get("metadata", {}).get("ownerReferences", ())
    return not claim.controlled_by(run.io.owner.uid) and any(each["uid"] == run.io.owner.uid for each in references)


async def _may_adopt(run: Pass) -> bool:
    """Return whether the FlameCluster exists and stays, by a read past the cache.

    `kubectl delete --cascade=orphan` removes the owner references of the claims. If the claims got them back, because the watch
    is late, the garbage collector would delete them with their data. Kubernetes' own controllers read before they adopt as well.
    """
    cluster = await run.io.refresh_cluster()
    return cluster is not None and not cluster.terminating


def _surplus(run: Pass, claim: PersistentVolumeClaimView) -> bool:
    """Return whether a claim must still be deleted, by what is known now."""
    return any(each.uid == claim.uid for each in _plan(run).delete)


def _plan(run: Pass) -> ClaimPlan:
    return plan_claims(run.observe(), run.effective)
