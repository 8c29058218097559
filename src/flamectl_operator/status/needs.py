"""The work that is left for a FlameCluster, one flag for each need: the source of `status.generations`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flamectl_operator.planning import drift
from flamectl_operator.planning.claims import plan_claims
from flamectl_operator.planning.drain import DrainReason, occupied
from flamectl_operator.planning.object_cache import stale_object_caches
from flamectl_operator.planning.scale import wanted_now

if TYPE_CHECKING:
    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.planning.effective_spec import EffectiveSpec


@dataclass(frozen=True)
class Needs:
    """The work that is left.

    Args:
        config_map_update: A ConfigMap differs from the desired one.
        service_update: A Service differs from the desired one.
        network_policy_update: The NetworkPolicy is not as wanted.
        session_manager: The session manager must be created or deleted.
        claims: PersistentVolumeClaims have to be created, changed or deleted.
        object_cache: Object caches must be created or deleted.
        grow: There are too few executors.
        shrink: There are too many.
        pod_replacement: Some Pods are stale, or belong to an earlier session manager.
        unhealthy_pods: Some Pods have failed or find no node.
        pending_removal: Some Pods are terminating, which delays no other work.
    """

    config_map_update: bool = False
    service_update: bool = False
    network_policy_update: bool = False
    session_manager: bool = False
    claims: bool = False
    object_cache: bool = False
    grow: bool = False
    shrink: bool = False
    pod_replacement: bool = False
    unhealthy_pods: bool = False
    pending_removal: bool = False

    @property
    def work(self) -> bool:
        """Whether the operator has something to do."""
        return (
            self.config_map_update
            or self.service_update
            or self.network_policy_update
            or self.session_manager
            or self.claims
            or self.object_cache
            or self.grow
            or self.shrink
            or self.pod_replacement
        )


def needs(observed: ObservedCluster, effective: EffectiveSpec) -> Needs:
    """Compare the observed cluster with the effective spec."""
    live = len(observed.live_executors)
    draining = {executor.drain_reason for executor in observed.draining_executors}
    manager = observed.session_manager
    has_manager = manager is not None and manager.live
    return Needs(
        config_map_update=not (effective.config_map_current(observed) and effective.client_config_current(observed)),
        service_update=not _services_current(observed, effective),
        network_policy_update=not effective.network_policy_current(observed),
        session_manager=has_manager == effective.suspended,
        claims=plan_claims(observed, effective).work,
        object_cache=not _object_caches_there(observed, effective),
        grow=occupied(observed) < effective.replicas,
        shrink=live > wanted_now(observed, effective) or bool(draining - {DrainReason.STALE}),
        pod_replacement=not effective.suspended
        and (
            effective.session_manager_to_replace(observed)
            or bool(stale_object_caches(observed, effective))
            or bool(effective.stale_executors(observed))
            or DrainReason.STALE in draining
            or (observed.session_manager_ready and bool(observed.unbound_executors))
        ),
        unhealthy_pods=bool(observed.unhealthy),
        pending_removal=bool(observed.terminating),
    )


def _object_caches_there(observed: ObservedCluster, effective: EffectiveSpec) -> bool:
    """Return whether exactly the wanted object caches exist."""
    live = {cache.ordinal for cache in observed.object_caches.ours.values() if cache.live}
    return live == set(range(effective.cache_replicas))


def _services_current(observed: ObservedCluster, effective: EffectiveSpec) -> bool:
    for desired in effective.desired.services:
        service = observed.services.get(desired["metadata"]["name"])
        if service is None or not observed.owns(service) or drift.service_patch(service, desired) is not None:
            return False
    return True
