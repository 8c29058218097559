"""The fields of a status that must be stored before a pass acts on them."""

from __future__ import annotations

from flamectl_operator.api.component_status import AutoscalingStatus
from flamectl_operator.api.status import FlameClusterStatus, suspension_begun
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec

_NOT_SCALED = AutoscalingStatus()


def durable_fields(status: FlameClusterStatus) -> tuple[object, ...]:
    """Return the part of a status that must be stored before a pass acts on it; the rest can wait for the pass's end.

    - Ids are reserved before they are used.
    - A failure is counted before it is repaired.
    - A suspension is recorded before the first Pod is deleted.
    - The number of executors for the demand is recorded before the pass acts on it.
    - A new generation is acknowledged first, so that no reader takes the status of the old one for its status.
    """
    manager, executors, caches = status.session_manager, status.executor_manager, status.object_cache
    return (
        status.observed_generation,
        suspension_begun(status),
        (manager.revision, manager.failures, manager.next_attempt, manager.last_failure),
        (executors.revision, executors.failures, executors.next_attempt, executors.attempt_id, executors.next_id),
        (caches.revision, caches.failures, caches.next_attempt, caches.counted_pods),
        (executors.autoscaling, status.idle),
    )


def required_durable_fields(
    generation: int, observed: ObservedCluster, effective: EffectiveSpec, next_id: int
) -> tuple[object, ...]:
    """Return the durable fields of the status that would be computed, without computing it."""
    manager, executors = effective.session_manager_backoff, effective.group.backoff
    caches = effective.object_cache_backoff
    return (
        generation,
        effective.suspended and bool(observed.components),
        (manager.revision, manager.failures, manager.next_attempt, manager.last_failure or None),
        (executors.revision, executors.failures, executors.next_attempt, executors.attempt_id, next_id),
        (caches.revision or None, caches.failures or None, caches.next_attempt, caches.counted_pods),
        (autoscaling_status(effective.group), effective.idleness.remembered),
    )


def autoscaling_status(wanted: EffectiveGroup) -> AutoscalingStatus:
    """Return what the status remembers of autoscaling."""
    return _NOT_SCALED if wanted.scaling is None else wanted.scaling.remembered
