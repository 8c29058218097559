"""Decides whether Pods must be deleted, now or as soon as the update strategy allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.planning.claims import plan_claims
from flamectl_operator.planning.drain import plan_drain
from flamectl_operator.planning.object_cache import plan_object_caches, stale_object_caches, stale_to_replace
from flamectl_operator.planning.rollout import plan_rollout
from flamectl_operator.planning.scale import plan_scale
from flamectl_operator.planning.session_manager import SessionManagerAction, plan_session_manager

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.planning.effective_spec import EffectiveSpec
    from flamectl_operator.runtime.clock_reading import ClockReading


def deletions_due(
    observed: ObservedCluster,
    effective: EffectiveSpec,
    now: ClockReading,
    *,
    session_manager_replaceable: bool,
    object_caches_replaceable: bool,
    executors_replaceable: bool,
    released_at: Mapping[str, float],
) -> bool:
    """Return whether this pass will delete Pods.

    Args:
        observed: The objects that exist.
        effective: The effective spec.
        now: The time.
        session_manager_replaceable: Whether a stale session manager may be deleted.
        object_caches_replaceable: Whether stale object caches may be deleted.
        executors_replaceable: Whether stale executors may be deleted.
        released_at: When this process released nodes in Flame, by the clock's `boottime`.
    """
    if plan_session_manager(observed, effective, now).action in {
        SessionManagerAction.DELETE,
        SessionManagerAction.FORCE_DELETE,
    }:
        return True
    scale = plan_scale(observed, effective, now, limit=0)
    if scale.deletes or scale.drain or plan_object_caches(observed, effective, now).delete:
        return True
    if plan_drain(observed, effective, released_at, now).delete:
        return True
    if plan_claims(observed, effective).delete:
        return True
    if effective.suspended or not effective.config_map_current(observed):
        return False
    manager = observed.session_manager
    kept = manager is not None and manager.pod.uid in observed.kept
    if session_manager_replaceable and effective.session_manager_to_replace(observed) and not kept:
        return True
    if object_caches_replaceable and stale_to_replace(observed, effective):
        return True
    rollout = plan_rollout(observed, effective, now, keep_stale=not executors_replaceable)
    return bool(rollout.delete or rollout.drain)


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
