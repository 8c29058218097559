"""Decides whether Pods must be deleted, now or as soon as the update strategy allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.planning.claims import plan_claims
from flamectl_operator.planning.object_cache import stale_object_caches

if TYPE_CHECKING:
    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.planning.effective_spec import EffectiveSpec


def disruption_ahead(observed: ObservedCluster, effective: EffectiveSpec) -> bool:
    """Return whether Pods must be deleted now or later, so that the deletion lock is kept.

    A kept lock is extended only when Pods are deleted, so a stuck rollout does not block other operators for long.

    Args:
        observed: The objects that exist.
        effective: The effective spec.
    """
    if effective.suspended:
        return any(not component.terminating for component in observed.components)
    if effective.session_manager_to_replace(observed):
        return True
    caches = observed.object_caches.ours.values()
    if len(observed.live_executors) > effective.replicas or any(
        each.ordinal >= effective.cache_replicas for each in caches
    ):
        return True
    stale = stale_object_caches(observed, effective)
    if observed.draining_executors or stale or plan_claims(observed, effective).delete:
        return True
    if any(executor.started for executor in observed.unbound_executors):
        return True
    return effective.update_strategy.type != "OnDelete" and bool(effective.stale_executors(observed))
