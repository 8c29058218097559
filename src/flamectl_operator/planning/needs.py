"""The work that is left for a FlameCluster, one flag for each need: the source of `status.generations`."""

from collections.abc import Collection
from dataclasses import dataclass, fields
from operator import attrgetter

from flamectl_operator.desired.executor_annotations import DrainReason
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.children import CHILDREN
from flamectl_operator.planning.comparison import Comparison
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.sub_plans import ClaimPlan, ScalePlan


@dataclass(frozen=True)
class Needs:
    """The work that is left, in the words of `status.generations`.

    Args:
        needs_session_manager: The session manager must be created or deleted.
        needs_object_cache: Object caches must be created or deleted.
        needs_pod_replacement: Some Pods are stale, or belong to an earlier session manager.
        has_unhealthy_pods: Some Pods have failed or find no node.
        has_pending_removal: Some Pods are terminating, which delays no other work.
    """

    needs_config_map_update: bool = False
    needs_service_update: bool = False
    needs_network_policy_update: bool = False
    needs_session_manager: bool = False
    needs_claim_update: bool = False
    needs_object_cache: bool = False
    needs_grow: bool = False
    needs_shrink: bool = False
    needs_pod_replacement: bool = False
    has_unhealthy_pods: bool = False
    has_pending_removal: bool = False

    @property
    def work(self) -> bool:
        """Whether the operator has something to do."""
        return any(_WORK(self))


#: Returns the flags that say that something has to be done.
_WORK = attrgetter(*[each.name for each in fields(Needs) if each.name.startswith("needs_")])


def compute_needs(compared: Comparison, claims: ClaimPlan, scale: ScalePlan, contended: Collection[str]) -> Needs:
    """Compare the cluster with the spec. Children of contended kinds always need an update, which keeps the status still."""
    observed, effective = compared.observed, compared.effective
    group = compared.group
    draining = {executor.drain_reason for executor in group.observed.draining}
    manager = observed.session_manager
    has_manager = manager is not None and manager.live
    return Needs(
        **_of_children(compared, contended),
        needs_session_manager=has_manager == effective.suspended,
        needs_claim_update="PersistentVolumeClaim" in contended or claims.work,
        needs_object_cache=not _object_caches_there(observed, effective),
        needs_grow=group.occupied < group.effective.replicas,
        needs_shrink=len(group.observed.live) > scale.target or bool(draining - {DrainReason.STALE}),
        needs_pod_replacement=not effective.suspended
        and (
            compared.has_stale_pods
            or DrainReason.STALE in draining
            or (observed.session_manager_ready and bool(group.observed.unbound))
        ),
        has_unhealthy_pods=bool(observed.unhealthy),
        has_pending_removal=bool(observed.terminating),
    )


def _object_caches_there(observed: ObservedCluster, effective: EffectiveSpec) -> bool:
    """Return whether exactly the wanted object caches exist."""
    live = {cache.ordinal for cache in observed.object_caches.ours.values() if cache.live}
    return live == set(range(effective.cache_replicas))


def _of_children(compared: Comparison, contended: Collection[str]) -> dict[str, bool]:
    """Return the flags of children that are kept as their manifests say."""
    flags = dict.fromkeys([child.need for child in CHILDREN], False)
    flags.update((child.need, True) for child in compared.outdated_children)
    if contended:
        flags.update((child.need, True) for child in CHILDREN if child.resource.kind in contended)
    return flags
