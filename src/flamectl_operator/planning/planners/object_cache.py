"""Decides which object caches are created, repaired, removed and replaced. There are never two of one name.

Each object cache holds data of its own, and references to objects name the cache that holds them. So an object cache comes
back under its name; surplus ones are deleted from the highest ordinal down; and stale ones are replaced one at a time. A cache
that failed stays until its replacement is due, so that its log can be read.
"""

from flamectl_operator.desired.claims import object_cache_claim
from flamectl_operator.observed.component import ObjectCache
from flamectl_operator.planning.claim_outcomes import KEEPS_CLAIM
from flamectl_operator.planning.comparison import Comparison
from flamectl_operator.planning.effective.failure_counts import object_cache_uncounted
from flamectl_operator.planning.patches import object_cache_repair
from flamectl_operator.planning.planners.claims import claim_wait, has_claim
from flamectl_operator.planning.sub_plans import CacheRemoval, ObjectCachePlan
from flamectl_operator.planning.termination import awaited_end, name_wait
from flamectl_operator.runtime.outcome import Outcome, wait


def plan_object_caches(compared: Comparison) -> ObjectCachePlan:
    """Decide what to do about object caches, apart from stale ones."""
    observed, effective = compared.observed, compared.effective
    caches, wanted = observed.object_caches, range(effective.cache_replicas)
    delete: list[CacheRemoval] = []
    repair: list[ObjectCache] = []
    waits: list[Outcome] = []
    deferral = _replacement_wait(compared)
    for cache in reversed(caches.ours.values()):
        match _decide(compared, cache, deferral):
            case CacheRemoval() as removal:
                delete.append(removal)
            case Outcome() as deferred:
                waits.append(deferred)
            case ObjectCache() as unlabelled:
                repair.append(unlabelled)
    if kept := [each for each in delete if each.cache.pod.uid in observed.must_stay]:
        delete = [each for each in delete if each not in kept]
        waits.append(KEEPS_CLAIM)
    missing = tuple(each for each in wanted if each not in caches.ours and each not in caches.foreign)
    deferral = (_creation_wait(compared) or deferral) if missing else None
    claims = {each: object_cache_claim(observed.owner, effective.desired.spec, each) for each in missing}
    if deferral is None and (blocked := [each for each in missing if claim_wait(observed, claims[each]) is not None]):
        missing = tuple(each for each in missing if each not in blocked)
        waits.append(wait("ClaimNotReady"))
    unseen = range(effective.desired.cache_replicas) if effective.suspended else ()
    return ObjectCachePlan(
        create=missing if deferral is None else (),
        read=tuple(each for each in unseen if each not in caches.ours and each not in caches.foreign),
        repair=tuple(repair),
        delete=tuple(delete),
        taken=tuple(caches.foreign[ordinal] for ordinal in wanted if ordinal in caches.foreign),
        waits=tuple(dict.fromkeys((*waits, *(() if deferral is None else (deferral,))))),
    )


def stale_to_replace(compared: Comparison) -> tuple[ObjectCache, ...]:
    """Return the stale object caches that may be deleted now, after the session manager.

    Unready object caches are deleted at once. Ready ones are deleted one by one, the highest ordinal first, while all are ready.
    """
    observed = compared.observed
    if compared.session_manager_first:
        return ()
    owner, spec = observed.owner, compared.effective.desired.spec
    stale = tuple(
        each
        for each in compared.stale_object_caches
        if each.pod.uid not in observed.must_stay and has_claim(observed, object_cache_claim(owner, spec, each.ordinal))
    )
    broken = tuple(cache for cache in stale if not cache.ready)
    if broken or not stale:
        return broken
    caches = observed.object_caches.ours
    all_ready = all(ordinal in caches and caches[ordinal].ready for ordinal in range(compared.effective.cache_replicas))
    return stale[-1:] if all_ready else ()


def rollout_wait(compared: Comparison) -> Outcome | None:
    """Return how far the replacement of stale object caches is; None when none is stale."""
    stale = len(compared.stale_object_caches)
    if not stale:
        return None
    replicas, caches = compared.effective.cache_replicas, compared.observed.object_caches.ours.values()
    current = sum(1 for each in caches if each.live and each.ordinal < replicas) - stale
    return wait("RollingUpdate", f"rolling update: {current} of {replicas} object caches are on the current revision")


def _replacement_wait(compared: Comparison) -> Outcome | None:
    """Return why no object cache is replaced or created yet: one failed since the pass began, or replacements keep failing."""
    effective = compared.effective
    backoff, wanted = effective.object_cache_backoff, compared.observed.object_caches.first(effective.cache_replicas)
    if any(object_cache_uncounted(cache, backoff, effective.settings) for cache in wanted):
        return wait("Changed", delay=0)  # the next pass counts the failure first
    return backoff.back_off("object caches", compared.now.wall)


def _creation_wait(compared: Comparison) -> Outcome | None:
    if not compared.config_map_current:
        return wait("ConfigMapNotReady")
    if compared.observed.session_manager_quota_refused:
        return wait("WaitingForSessionManager")  # what the quota frees is for the session manager
    return None


def _decide(
    compared: Comparison, cache: ObjectCache, deferral: Outcome | None
) -> CacheRemoval | Outcome | ObjectCache | None:
    """Return the deletion of an object cache, the wait for it, or the object cache itself when it lacks labels; else None."""
    observed, effective = compared.observed, compared.effective
    wanted = cache.ordinal < effective.cache_replicas
    if cache.terminating:
        if not wanted:
            return None
        message = awaited_end("Pod", cache.pod)
        name_kept = name_wait(observed, cache, effective.settings, compared.now, message)
        return name_kept or CacheRemoval(cache, "stuck terminating", forced=True)
    if not wanted:
        why = "suspended" if effective.suspended else f"only {effective.cache_replicas} wanted"
        return CacheRemoval(cache, why)
    if cache.terminal:
        return deferral or CacheRemoval(cache, str(cache.failure))
    return cache if object_cache_repair(cache.pod, observed.owner, effective) is not None else None
