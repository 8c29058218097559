"""Decides which object caches are created, repaired, removed and replaced. There are never two of one name.

Each object cache holds data of its own, and references to objects name the cache that holds them. So an object cache comes
back under its name; surplus ones are deleted from the highest ordinal down; and stale ones are replaced one at a time.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from flamectl_operator.desired.claims import object_cache_claim
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.executor import terminal_since
from flamectl_operator.observed.object_cache import ObjectCache
from flamectl_operator.observed.pods import disrupted
from flamectl_operator.planning.claims import claim_wait, has_claim
from flamectl_operator.planning.comparison import Comparison
from flamectl_operator.planning.deletion import awaited_end, given_up_at
from flamectl_operator.planning.effective_spec import EffectiveSpec
from flamectl_operator.planning.kept_claims import KEEPS_CLAIM
from flamectl_operator.planning.parts import CacheRemoval, ObjectCachePlan
from flamectl_operator.planning.patches import object_cache_repair
from flamectl_operator.runtime.clock_reading import ClockReading
from flamectl_operator.runtime.outcome import Outcome, wait, wait_until


def plan_object_caches(compared: Comparison, now: ClockReading) -> ObjectCachePlan:
    """Decide what to do about object caches, apart from stale ones."""
    observed, effective = compared.observed, compared.effective
    caches, wanted = observed.object_caches, range(effective.cache_replicas)
    delete: list[CacheRemoval] = []
    repair: list[ObjectCache] = []
    waits: list[Outcome] = []
    for cache in reversed(caches.ours.values()):
        if cache.terminating:
            if cache.ordinal in wanted:
                _terminating(observed, cache, effective, now, delete, waits)
        elif cache.ordinal not in wanted:
            delete.append(CacheRemoval(cache, "suspended" if effective.suspended else f"only {len(wanted)} wanted"))
        elif cache.terminal:
            _terminal(cache, effective, now.wall, delete, waits)
        elif object_cache_repair(cache.pod, observed.owner, effective) is not None:
            repair.append(cache)
    if kept := [each for each in delete if each.cache.pod.uid in observed.kept]:
        delete = [each for each in delete if each not in kept]
        waits.append(KEEPS_CLAIM)
    missing = tuple(each for each in wanted if each not in caches.ours and each not in caches.foreign)
    deferral = _creation_wait(compared) if missing else None
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
        waits=(*waits, *(() if deferral is None else (deferral,))),
    )


def stale_to_replace(compared: Comparison) -> tuple[ObjectCache, ...]:
    """Return the stale object caches that may be deleted now.

    The session manager comes first. Stale object caches that are not ready are deleted at once. The others are deleted
    one at a time, the highest ordinal first, while all others are ready.
    """
    observed = compared.observed
    if compared.session_manager_first:
        return ()
    owner, spec = observed.owner, compared.effective.desired.spec
    stale = tuple(
        each
        for each in compared.stale_object_caches
        if each.pod.uid not in observed.kept and has_claim(observed, object_cache_claim(owner, spec, each.ordinal))
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


def _creation_wait(compared: Comparison) -> Outcome | None:
    if not compared.config_map_current:
        return wait("ConfigMapNotReady")
    if compared.observed.session_manager_quota_refused:
        return wait("WaitingForSessionManager")  # what the quota frees is for the session manager
    return None


def _terminating(
    observed: ObservedCluster,
    cache: ObjectCache,
    effective: EffectiveSpec,
    now: ClockReading,
    delete: list[CacheRemoval],
    waits: list[Outcome],
) -> None:
    """Delete a stuck terminating object cache by force, because its name blocks the replacement."""
    until = given_up_at(observed, cache, effective.settings, now)
    forced = cache.pod.metadata.deletion_grace_period_seconds == 0
    message = awaited_end("Pod", cache.pod)
    if cache.pod.claim_names:
        why = "the operator does not force-delete it, because it may still write to its claim"
        waits.append(wait("Terminating", f"{message}; {why}"))
        return
    if until <= now.wall and not forced:
        delete.append(CacheRemoval(cache, "stuck terminating", forced=True))
        return
    waits.append(wait("Terminating", message) if forced else wait_until("Terminating", until, now.wall, message))


def _terminal(
    cache: ObjectCache, effective: EffectiveSpec, now: datetime, delete: list[CacheRemoval], waits: list[Outcome]
) -> None:
    """Replace a cache that worked for a while at once, and keep one that failed early, to avoid endless creates."""
    due = _replaced_at(cache, effective)
    if due is None or due <= now:
        delete.append(CacheRemoval(cache, str(cache.failure)))
    else:
        message = f'object cache "{cache.name}" failed soon after its creation; it is replaced at {due:%H:%M:%S} UTC'
        waits.append(wait_until("BackOff", due, now, message))


def _replaced_at(cache: ObjectCache, effective: EffectiveSpec) -> datetime | None:
    """Return when a terminal object cache is replaced; None for at once."""
    settings, ended, born = effective.settings, terminal_since(cache), cache.pod.metadata.creation_timestamp
    if ended is None or born is None or disrupted(cache.pod):
        return None
    if ended - born >= timedelta(seconds=settings.stable_after_seconds):
        return None
    pause = max(settings.terminal_pod_retention_seconds, settings.backoff_base_seconds)
    return max(ended, born) + timedelta(seconds=pause)
