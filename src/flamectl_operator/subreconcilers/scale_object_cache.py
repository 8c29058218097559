"""ScaleObjectCache: ensures the wanted number of object caches, and never two of one name."""

from functools import partial

from flamectl_operator.api.constants import CLAIM_ANNOTATION
from flamectl_operator.desired import names
from flamectl_operator.kube.resources import PODS
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.sub_plans import CacheRemoval, ObjectCachePlan
from flamectl_operator.reconcile.checks.existing_claim import mount_reserved, reserve_claim
from flamectl_operator.reconcile.objects import outcomes
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.steps.base import PlannedStep
from flamectl_operator.reconcile.steps.batch import time_limit
from flamectl_operator.reconcile.steps.collect import collect
from flamectl_operator.reconcile.steps.named_pod import named_object_cache
from flamectl_operator.runtime.outcome import DONE, Outcome, combine


class ScaleObjectCache(PlannedStep[ObjectCachePlan]):
    """Create missing Pods `<name>-object-cache-<ordinal>`, and delete surplus and terminal ones.

    The fixed names guarantee that there are never two of one ordinal. A Pod that stays terminating, as on a lost node, is
    force-deleted in the end. ReplaceStalePods replaces stale ones.
    """

    def sub_plan(self, plan: ClusterPlan, /) -> ObjectCachePlan:
        """Return the plan of the number of object caches."""
        return plan.object_caches

    async def delete(self, pass_: Pass, plan: ObjectCachePlan, /) -> Outcome:
        """Delete surplus, terminal and stuck object caches."""
        return combine(await collect(*(partial(self._remove, pass_, removal) for removal in plan.delete)))

    async def apply(self, pass_: Pass, plan: ObjectCachePlan, /) -> Outcome:
        """Restore labels, and create missing object caches."""
        if not (plan.repair or plan.read or plan.create or plan.taken):
            return DONE
        ends = await collect(partial(self._repair, pass_, plan), partial(self._create, pass_, plan))
        return combine([*(outcomes.name_taken(pass_.io.owner, PODS, pod) for pod in plan.taken), *ends])

    async def _remove(self, pass_: Pass, removal: CacheRemoval) -> Outcome:
        pod = named_object_cache(pass_, removal.cache.name)
        return await pod.delete(removal.cache.pod, removal.why, forced=removal.forced)

    async def _repair(self, pass_: Pass, plan: ObjectCachePlan) -> Outcome:
        unseen = (names.object_cache_replica(pass_.io.owner.name, ordinal) for ordinal in plan.read)
        ends = await collect(
            *(partial(named_object_cache(pass_, cache.name).restore_labels, cache.pod) for cache in plan.repair),
            *(partial(named_object_cache(pass_, name).find_unlabelled, DONE) for name in unseen),
        )
        return combine(ends)

    async def _create(self, pass_: Pass, plan: ObjectCachePlan) -> Outcome:
        """Create the missing Pods one after the other, and stop at the first refusal, because the others would fail as well."""
        template, in_time = pass_.effective.desired.object_cache, time_limit(pass_.clock)
        if template is None or not plan.create:
            return DONE
        persistence, claims = pass_.effective.desired.spec.object_cache.persistence, pass_.observe().claims
        ends: list[Outcome] = []
        for ordinal in plan.create:
            if not in_time():
                return combine([*ends, outcomes.next_batch()])
            name = names.object_cache_replica(pass_.io.owner.name, ordinal)
            claim = await reserve_claim(pass_.io.reads, template.field, persistence, claims.get(name))
            if isinstance(claim, Outcome):
                ends.append(claim)
                continue
            annotations = None if claim is None else {CLAIM_ANNOTATION: claim.uid}
            with mount_reserved(pass_.io.reads, claim):
                ends.append(await named_object_cache(pass_, name).create(template, annotations))
        return combine(ends)
