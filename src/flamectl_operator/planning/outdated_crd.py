"""A spec that reads differently although nobody changed it: the installed CRD drops fields, or has other defaults.

The API server applies the installed CRD to each object that it reads. When an older CRD is installed, `podTemplate` or `env` may
be missing from then on, at the same generation. The status has the revisions of the generation that it speaks of, and the Pods
have them too, so a process that has just started notices it as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flamectl_operator.api.status import FlameClusterStatus
    from flamectl_operator.desired.cluster import DesiredCluster
    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.planning.spec_changes import SpecChanges


def unwanted_changes(
    generation: int,
    stored: FlameClusterStatus,
    desired: DesiredCluster,
    observed: ObservedCluster,
    changes: SpecChanges,
) -> tuple[str, ...]:
    """Return the fields that read differently since the status was written about the same generation.

    A revision in the status counts only if a Pod has it as well, because somebody may have edited the status.

    Args:
        generation: `metadata.generation`.
        stored: The stored status.
        desired: The objects of the spec as it reads now.
        observed: The objects that exist.
        changes: The changes of the spec that this process has seen.

    Returns:
        Paths of the fields where they are known, otherwise of their component; empty if nothing changed.
    """
    if stored.observed_generation != generation:
        return ()
    return tuple(dict.fromkeys(_changed(stored, desired, observed, changes)))


def _changed(
    stored: FlameClusterStatus, desired: DesiredCluster, observed: ObservedCluster, changes: SpecChanges
) -> Iterator[str]:
    manager, caches = observed.session_manager, desired.object_cache
    recorded = stored.session_manager.revision
    if recorded and manager is not None and manager.revision == recorded != desired.session_manager.revision:
        yield from changes.session_manager or ("spec.sessionManager",)
    recorded = stored.executor_manager.revision
    if recorded and recorded in observed.live_by_revision and recorded != desired.executor.revision:
        yield from changes.executors or ("spec.executorManager",)
    recorded = stored.object_cache.revision
    wanted = caches.revision if caches is not None else ""
    if (
        recorded
        and recorded != wanted
        and any(cache.revision == recorded for cache in observed.object_caches.ours.values())
    ):
        yield "spec.objectCache"
