"""UpdateClaims: keeps a PersistentVolumeClaim for each Pod with data, and deletes none that a Pod uses."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.api.quantity import amount
from flamectl_operator.desired.claims import DesiredClaim
from flamectl_operator.kube.errors import AlreadyExistsError
from flamectl_operator.kube.resources import CLAIMS, PODS
from flamectl_operator.kube.views import PersistentVolumeClaimView
from flamectl_operator.observed.ownership import is_ours
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.patches import claim_patch
from flamectl_operator.planning.sub_plans import ClaimPlan
from flamectl_operator.reconcile.checks.existing_claim import in_use
from flamectl_operator.reconcile.objects import outcomes
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.reconcile.steps.base import PlannedStep
from flamectl_operator.reconcile.steps.collect import collect
from flamectl_operator.reconcile.steps.ensure import find_taken, restore
from flamectl_operator.reconcile.steps.named_pod import named_object_cache
from flamectl_operator.runtime.outcome import DONE, Outcome, combine


class UpdateClaims(PlannedStep[ClaimPlan]):
    """Create, grow, keep and delete the PersistentVolumeClaims as `persistence` says.

    A claim is deleted only with the deletion lock, and after a read has shown that no Pod with the name of the claim exists.
    """

    def sub_plan(self, plan: ClusterPlan, /) -> ClaimPlan:
        """Return the plan of the claims."""
        return plan.claims

    async def apply(self, pass_: Pass, plan: ClaimPlan, /) -> Outcome:
        """Create and change claims."""
        error = pass_.io.reads.claims.error
        if error is None and not (plan.create or plan.patch or plan.taken):
            return DONE
        ends = await collect(
            *(partial(self._create, pass_, claim) for claim in plan.create),
            *(partial(self._patch, pass_, claim, changes) for claim, changes in plan.patch),
            earlier=error,
        )
        return combine([*(outcomes.name_taken(pass_.io.owner, CLAIMS, claim) for claim in plan.taken), *ends])

    async def delete(self, pass_: Pass, plan: ClaimPlan, /) -> Outcome:
        """Delete claims that scaling down left without a Pod."""
        return combine(await collect(*(partial(self._remove, pass_, claim) for claim in plan.delete)))

    async def _create(self, pass_: Pass, desired: DesiredClaim) -> Outcome:
        if pass_.io.reads.superseded:
            return outcomes.changed(0)
        try:
            await pass_.io.create(CLAIMS, desired.manifest())
        except AlreadyExistsError:
            return await self._find(pass_, desired)
        if desired.name in pass_.status.stored.claims:
            message = (
                f'Created PersistentVolumeClaim "{desired.name}" in place of a claim that vanished; it holds no data'
            )
            pass_.io.events.record_warning("ClaimReplaced", message)
        else:
            pass_.io.events.record_normal("ClaimCreated", f'Created PersistentVolumeClaim "{desired.name}"')
        return DONE

    async def _find(self, pass_: Pass, desired: DesiredClaim) -> Outcome:
        """Look at the claim that has the name and that the watch does not show: it is foreign, or lacks its label."""
        claim = await find_taken(pass_.io, CLAIMS, desired.name, is_ours)
        if isinstance(claim, Outcome):
            return claim
        changes = claim_patch(claim, desired)
        return outcomes.changed() if changes is None else await self._patch(pass_, claim, changes)

    async def _patch(self, pass_: Pass, claim: PersistentVolumeClaimView, changes: dict[str, Any]) -> Outcome:
        if _adopts(pass_, claim, changes) and (obstacle := await _adoption_wait(pass_, claim)) is not None:
            return obstacle
        # A claim outlives its FlameCluster, and never shrinks again.
        if pass_.io.reads.superseded:
            return outcomes.changed(0)
        try:
            outcome, is_news = await restore(pass_.io, CLAIMS, claim, changes, partial(_patch_of, pass_), {})
        except RefusedError as error:
            if (refusal := _of_size(error, claim, changes)) is None:
                raise
            raise refusal from error
        if is_news:
            pass_.io.events.record_normal("ClaimUpdated", f'Updated PersistentVolumeClaim "{claim.name}"')
        return outcome

    async def _remove(self, pass_: Pass, claim: PersistentVolumeClaimView) -> Outcome:
        # The watch may be late, or not show a Pod without its label, and the claim holds data. With its label again, such a Pod
        # is surplus, and its end lets the claim go.
        if (pod := await pass_.io.reads.refresh(PODS, claim.name)) is not None:
            if not pod.controlled_by(pass_.io.owner.uid):
                return outcomes.name_taken(pass_.io.owner, PODS, pod)
            return await named_object_cache(pass_, claim.name).recover(pod)
        if (obstacle := in_use(pass_.io.reads, claim)) is not None:
            return obstacle
        if not await pass_.io.delete(CLAIMS, claim, unchanged=True, still_due=partial(_surplus, pass_, claim)):
            return outcomes.changed()
        pass_.io.events.record_normal(
            "ClaimDeleted", f'Deleted PersistentVolumeClaim "{claim.name}": no object cache needs it'
        )
        return DONE


def _of_size(error: RefusedError, claim: PersistentVolumeClaimView, changes: dict[str, Any]) -> RefusedError | None:
    """Return a refusal of the size with its own reason; None where Kubernetes refuses something else.

    Its plugin for resizing tells that in its message alone.
    """
    if "spec" not in changes:
        return None
    has = f'PersistentVolumeClaim "{claim.name}" has {claim.size} and cannot'
    if amount(changes["spec"]["resources"]["requests"]["storage"]) < amount(claim.size):
        return RefusedError("ClaimCannotShrink", f"{has} shrink: {error.__cause__}")
    if "resize" not in str(error.__cause__):
        return None
    return RefusedError("ClaimCannotGrow", f"{has} grow: {error.__cause__}")


def _patch_of(pass_: Pass, claim: PersistentVolumeClaimView) -> Mapping[str, Any] | None:
    changes = next((each for found, each in pass_.plan.claims.patch if found.uid == claim.uid), None)
    if changes is None and CLUSTER_LABEL not in claim.labels:
        return {"metadata": {"labels": {CLUSTER_LABEL: None}}}
    return changes


def _adopts(pass_: Pass, claim: PersistentVolumeClaimView, changes: dict[str, Any]) -> bool:
    """Return whether a patch makes the FlameCluster the owner of a claim that is not owned by it."""
    references = changes.get("metadata", {}).get("ownerReferences", ())
    return not claim.controlled_by(pass_.io.owner.uid) and any(each["uid"] == pass_.io.owner.uid for each in references)


async def _adoption_wait(pass_: Pass, claim: PersistentVolumeClaimView) -> Outcome | None:
    """Return why the FlameCluster may not become the owner of a claim: others use it, or the FlameCluster does not stay.

    A read past the cache shows that. `kubectl delete --cascade=orphan` removes the owner references of the claims. If the claims
    got them back, because the watch is late, the garbage collector would delete them with their data. Kubernetes' own controllers
    read before they adopt as well.
    """
    if (obstacle := in_use(pass_.io.reads, claim)) is not None:
        return obstacle
    cluster = await pass_.io.reads.refresh_cluster()
    return None if cluster is not None and not cluster.terminating else outcomes.changed()


def _surplus(pass_: Pass, claim: PersistentVolumeClaimView) -> bool:
    """Return whether a claim must still be deleted, by what is known now."""
    return any(each.uid == claim.uid for each in pass_.plan.claims.delete)
