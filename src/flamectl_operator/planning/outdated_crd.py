"""A spec that reads differently although nobody changed it: the installed CRD drops fields, or has other defaults.

The API server applies the installed CRD to each object that it reads. When an older CRD is installed, `podTemplate` or `env` may
be missing from then on, at the same generation. The status has a hash of the whole spec with its generation, and the revisions
of the Pods. So a process that has just started notices it as well, even under a CRD that knows no such hash.
"""

from __future__ import annotations

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
    known: str | None,
    digest: bytes,
) -> tuple[str, ...]:
    """Return the fields that read differently since the status was written about the same generation.

    Somebody may have edited the status. So a revision counts only if a Pod has it as well, and the hash of the spec does not
    count if this process knows better.

    Args:
        known: `specHash` of the status that this process last wrote or found right; None if there is none.
        digest: Of the spec as it reads now.

    Returns:
        Paths of the fields where they are known, otherwise of their component or the spec; empty if nothing changed.
    """
    recorded, read = stored.spec_hash, read_as(generation, desired)
    has_hash = recorded is not None and recorded.startswith(f"{generation}-")
    # Each of the two says that the status is about this generation, and somebody may have edited the other.
    if not (has_hash or stored.observed_generation == generation) or recorded == read:
        return ()
    if recorded == read_as_invalid(generation, digest):
        return ()  # it reads as before, and other settings or another version of the operator accept it
    components = tuple(dict.fromkeys(_changed(stored, desired, observed, changes)))
    if not has_hash or read == known:
        return components
    return changes.last or components or ("spec",)


def read_as(generation: int, desired: DesiredCluster) -> str:
    """Return `specHash` of a spec. An operator that knows no such field keeps the hash of an earlier generation."""
    return f"{generation}-{desired.spec_hash}"


def read_as_invalid(generation: int, digest: bytes) -> str:
    """Return `specHash` of an invalid spec, by the digest of all that was read."""
    return f"{generation}-invalid-{digest.hex()[:16]}"


def _changed(
    stored: FlameClusterStatus, desired: DesiredCluster, observed: ObservedCluster, changes: SpecChanges
) -> Iterator[str]:
    manager, caches = observed.session_manager, desired.object_cache
    recorded = stored.session_manager.revision
    if recorded and manager is not None and manager.revision == recorded != desired.session_manager.revision:
        yield from changes.session_manager or ("spec.sessionManager",)
    recorded = stored.executor_manager.revision
    if recorded and recorded in observed.group.by_revision and recorded != desired.group.template.revision:
        yield from changes.executors or ("spec.executorManager",)
    recorded = stored.object_cache.revision
    wanted = caches.revision if caches is not None else ""
    if (
        recorded
        and recorded != wanted
        and any(cache.revision == recorded for cache in observed.object_caches.ours.values())
    ):
        yield "spec.objectCache"
