"""The fields of a status that must be stored before a pass acts on them."""

from flamectl_operator.api.component_status import AutoscalingStatus
from flamectl_operator.api.status import FlameClusterStatus, suspension_begun
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.effective.replacement_backoff import of_executors, of_object_cache, of_session_manager

_NOT_SCALED = AutoscalingStatus()


def durable_fields(status: FlameClusterStatus) -> tuple[object, ...]:
    """Return the part of a status that must be stored before a pass acts on it; the rest can wait for the pass's end.

    - Ids are reserved before they are used.
    - A failure is counted before it is repaired.
    - A suspension is recorded before the first Pod is deleted.
    - The number of executors for the demand is recorded before the pass acts on it.
    - A new generation is acknowledged first, so that no reader takes the status of the old one for its status.
    """
    executors = status.executor_manager
    return (
        status.observed_generation,
        suspension_begun(status),
        of_session_manager(status.session_manager),
        of_executors(executors),
        of_object_cache(status.object_cache),
        (executors.next_id, executors.autoscaling, status.idle),
    )


def required_durable_fields(
    generation: int, observed: ObservedCluster, effective: EffectiveSpec, next_id: int
) -> tuple[object, ...]:
    """Return the durable fields of the status that would be computed, without computing it."""
    return (
        generation,
        effective.suspended and bool(observed.components),
        of_session_manager(effective.session_manager_backoff),
        of_executors(effective.group.backoff),
        of_object_cache(effective.object_cache_backoff),
        (next_id, autoscaling_status(effective.group), effective.idleness.remembered),
    )


def autoscaling_status(wanted: EffectiveGroup) -> AutoscalingStatus:
    """Return what the status remembers of autoscaling."""
    return _NOT_SCALED if wanted.scaling is None else wanted.scaling.remembered
