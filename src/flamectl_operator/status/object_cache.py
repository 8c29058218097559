"""The status of the object cache."""

from flamectl_operator.api.component_status import CacheState, ObjectCacheStatus
from flamectl_operator.desired.flame_config import object_cache_endpoint
from flamectl_operator.desired.tls import cache_is_secure
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.effective.replacement_backoff import remembered_fields

#: The message where the operator runs no object cache.
NOT_RUN = "The operator runs no object cache, because spec.objectCache.image is not set"
_NOT_RUN = ObjectCacheStatus(state=CacheState.NOT_RUN, message=NOT_RUN)


def object_cache_status(
    before: ObjectCacheStatus, observed: ObservedCluster, effective: EffectiveSpec | None
) -> ObjectCacheStatus:
    """Return the status of the object cache; without a valid spec the stored one with what the Pods show."""
    caches = observed.object_caches.ours.values()
    live = [cache for cache in caches if cache.live]
    found: dict[str, int | None] = {"ready": sum(cache.ready for cache in caches), "current": len(live)}
    # Where none is to run, only those that are left are counted.
    left = found if caches else dict.fromkeys(found)
    if effective is None:
        if before.replicas is None:
            return before.having(left)
        state = _cache_state(observed, before.replicas, suspended=False)
        return before.having({**found, "state": state})
    desired = effective.desired
    template = desired.object_cache
    if template is None:
        return _NOT_RUN.having(left)
    updated = [cache for cache in live if not effective.cache_stale(cache)]
    return ObjectCacheStatus(
        state=_cache_state(observed, effective.cache_replicas, suspended=effective.suspended),
        endpoint=object_cache_endpoint(observed.owner.name, secure=cache_is_secure(desired.spec)),
        replicas=desired.cache_replicas,
        updated=len(updated),
        outdated=sum(cache.rendered != template.rendered for cache in updated),
        **remembered_fields(effective.object_cache_backoff, ObjectCacheStatus),
        **found,
    )


def object_cache_line(observed: ObservedCluster, replicas: int) -> str:
    """Return the part of the FlameCluster's message about the object cache; empty when all of it is ready."""
    ready = _ready(observed, replicas)
    return "" if ready == replicas else f"{ready} of {replicas} object caches ready"


def _ready(observed: ObservedCluster, replicas: int) -> int:
    caches = observed.object_caches.ours.values()
    return sum(1 for cache in caches if cache.ready and cache.ordinal < replicas)


def _cache_state(observed: ObservedCluster, replicas: int, *, suspended: bool) -> CacheState:
    if _ready(observed, replicas) == replicas and not suspended:
        return CacheState.RUNNING
    standing = [cache for cache in observed.object_caches.ours.values() if not cache.terminating]
    failed = bool(standing) and all(cache.failure is not None for cache in standing)
    return CacheState.FAILED if failed else CacheState.PENDING
