"""The lock that lets one operator at a time delete the Pods of a FlameCluster.

Two deployments of the operator may see the same FlameCluster: in an upgrade side by side, or with namespaces that overlap.
Whatever both of them may do safely they do without it, as creates do, which are protected by names and promises. Deleting is
not: both would use up the budget of a rollout, and each would go by a view that knows nothing of what the other just did.

A step that has something to delete asks for the lock (`acquire`), then looks at what is there again, and deletes. The lock is
extended while Pods are being deleted, and given back when nothing is left to be (`give_back`). A cluster at rest writes
nothing. The Lease is not watched: it is read by who wants the lock and does not know it, and by nobody else.

An operator that takes the lock anew first reads the FlameCluster and its Pods: its watches may not have told yet what the
holder before it did a moment ago.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.decisions.lock import Foreign, Grip, Held, disruption_ahead, judge_lock, sight
from flamectl_operator.desired import lock as desired
from flamectl_operator.desired import names
from flamectl_operator.kube.client import Page
from flamectl_operator.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from flamectl_operator.kube.resources import LEASES, PODS
from flamectl_operator.runtime.outcome import DONE, Outcome, blocked, wait
from flamectl_operator.subreconcilers import outcomes, reading
from flamectl_operator.subreconcilers.memory import LockMemory
from flamectl_operator.subreconcilers.refusals import REFUSALS, RefusedError
from flamectl_operator.subreconcilers.stores import FLAME_CLUSTERS

if TYPE_CHECKING:
    from flamectl_operator.decisions.lock import Verdict
    from flamectl_operator.kube.views import FlameClusterView, LeaseView, PodView
    from flamectl_operator.subreconcilers.context import Context

#: How often a lock that another operator holds is looked at, in seconds: it may be given back before it expires.
LOOK_AGAIN = 5.0
#: Reasons of outcomes that say that Pods stay since another operator may delete them, or this one may not.
LOCK_HELD = "LockHeld"
LOCK_DENIED = "LockDenied"


async def acquire(context: Context) -> Outcome | None:
    """Takes the lock, or extends it where that is due.

    Args:
        context: The pass.

    Returns:
        None when Pods may be deleted; look at what is there again before, for this may have taken a while and brought news.
        Otherwise why not.

    Raises:
        RefusedError: The API server will not have it.
        KubernetesError: It is not known whether the lock is ours, or the view could not be brought up to date.
    """
    if context.lock_options.disabled:
        context.memory.lock = LockMemory()
    elif context.lock_put_off is None:
        context.lock_put_off = await _acquire(context)
    if context.lock_put_off is not None:
        return context.lock_put_off
    # What an earlier step asked for may have taken Pods away of which nobody knows.
    await reading.settle(context)
    if context.wanted().suspended:
        # To call a suspension finished needs no lock, and what another operator made after it must not be taken for its rest.
        await _read_cluster(context)
    return _put_off_if_changed(context)


async def give_back(context: Context) -> Outcome:
    """Gives the lock back when nothing is left to be deleted, or when this operator is not to have it.

    Raises:
        RefusedError: The API server will not have it.
        KubernetesError: It is not known whether it was given back. If not, it expires.
    """
    memory, options = context.memory.lock, context.lock_options
    if options.disabled:
        context.memory.lock = LockMemory()
        return DONE
    grip = memory.grip
    if grip is None or not grip.held:
        return DONE
    if not context.lock_denied and disruption_ahead(context.observe(), context.wanted()):
        return DONE
    lease = await _write(context, grip.lease, desired.given_back(grip.lease, context.clock.now()))
    if lease is not None:
        memory.grip = Grip.given_back(lease)
    return DONE


async def _acquire(context: Context) -> Outcome | None:
    memory = context.memory.lock
    if context.lock_denied:
        return _denied()
    if memory.grip is None:
        if (put_off := await _take(context)) is not None:
            return put_off
    elif context.clock.boottime() >= memory.grip.extend_at or memory.claimed_for != context.generation:
        # If the precondition on our resourceVersion holds, nobody else had the lock meanwhile, and our view is still good, but
        # for two cases. If the spec has changed, a generation in between may have denied us the lock or asked for none. And if
        # this process stood still for as long as it held the lock, its watches have not caught up yet.
        same = memory.claimed_for == context.generation
        informed = memory.grip.informed and same and context.clock.boottime() < memory.grip.until
        if not await _claim(context, memory.grip.lease, informed=informed):
            return outcomes.changed()
    if memory.grip is None or memory.grip.informed:
        return None
    put_off = await _inform(context, memory.grip)
    late = memory.grip.informed and context.clock.boottime() >= memory.grip.extend_at
    # Where reading takes so long, the rest of the time might not do for a deletion, and all would have to be read again.
    if late and not await _claim(context, memory.grip.lease, informed=True):
        return outcomes.changed()
    return put_off


async def _take(context: Context) -> Outcome | None:
    """Takes a lock of which this process knows nothing, or that somebody else held when it was looked at."""
    memory, now = context.memory.lock, context.clock.boottime()
    verdict = _judge(context, None, now)
    if isinstance(verdict, Held) and now < memory.look_again:
        return _held(verdict, memory.look_again - now)
    lease = await reading.look(context, LEASES, names.lock(context.owner.name))
    now = context.clock.boottime()  # after the answer: counted from before, another's time would be cut short
    memory.sighting = sight(lease, memory.sighting, now, context.config.controller.lock_duration_seconds)
    match _judge(context, lease, now):
        case Foreign(lease=theirs):
            return outcomes.name_taken(context.owner, LEASES, theirs)
        case Held() as held:
            memory.look_again = min(now + LOOK_AGAIN, held.until)
            return _held(held, memory.look_again - now)
    if lease is not None and lease.terminating:
        return wait("Terminating", f'waiting for Lease "{lease.name}" to terminate', outcomes.RECHECK_TAKEN_NAME)
    taken_over = lease is not None and lease.spec.holder_identity not in {None, "", context.lock_identity}
    if taken_over and await _asks_for_something_else(context):
        return outcomes.changed()  # its holder may have been taken off the deny list
    return None if await _claim(context, lease, informed=False) else outcomes.changed()


def _judge(context: Context, lease: LeaseView | None, now: float) -> Verdict:
    options, me = context.lock_options, context.lock_identity
    return judge_lock(lease, context.memory.lock.sighting, context.owner.uid, options, me, now)


async def _claim(context: Context, lease: LeaseView | None, *, informed: bool) -> bool:
    """Writes our name into the Lease; False when somebody was faster."""
    me, duration, now = context.lock_identity, context.config.controller.lock_duration_seconds, context.clock.now()
    sent = context.clock.boottime()
    if lease is None:
        written = await _write(context, None, desired.lease(context.owner, me, duration, now))
    else:
        written = await _write(context, lease, desired.claim(lease, me, duration, now))
    if written is not None:
        context.memory.lock.grip = Grip.taken(written, sent, duration, informed=informed)
        context.memory.lock.claimed_for = context.generation
    return written is not None


async def _write(context: Context, lease: LeaseView | None, body: dict[str, Any]) -> LeaseView | None:
    """Makes or changes the Lease; None when somebody was faster. Until the answer is there nothing is known of the lock."""
    namespace = context.owner.namespace
    context.memory.lock.grip = None
    context.writes += 1
    try:
        if lease is None:
            return await context.client.create(LEASES, namespace, body)
        return await context.client.merge_patch(LEASES, namespace, lease.name, body)
    except (AlreadyExistsError, ConflictError, NotFoundError):
        context.conflicts += 1
        return None
    except REFUSALS as error:
        raise RefusedError.of(error) from error


async def _inform(context: Context, grip: Grip) -> Outcome | None:
    """Brings the view up to date with what was before the lock came to us."""
    owner, stores = context.owner, context.stores
    if await _read_cluster(context) is None:
        return outcomes.changed()
    known = stores.pods.by_index(owner.key)
    await _read_pods(context)
    context.memory.lock.grip = replace(grip, informed=True)
    # The steps before went by what was known then: with news it is for the next pass, at once, to act on it.
    return None if stores.pods.by_index(owner.key) is known else outcomes.changed(None)


async def _asks_for_something_else(context: Context) -> bool:
    """Whether the FlameCluster asks for something else by now than this pass goes by."""
    cluster = await _read_cluster(context)
    return cluster is None or cluster.metadata.generation != context.generation


async def _read_cluster(context: Context) -> FlameClusterView | None:
    """Reads the FlameCluster; None when it is gone."""
    cluster = await reading.refresh(context, FLAME_CLUSTERS, context.stores.flame_clusters, context.owner.name)
    return cluster if cluster is not None and cluster.uid == context.owner.uid else None


async def _read_pods(context: Context) -> None:
    """Reads the FlameCluster's Pods, and what has become of those that are not there any more."""
    owner, store = context.owner, context.stores.pods
    ours = {pod.uid: pod for pod in store.by_index(owner.key) if pod.controlled_by(owner.uid)}
    listed = await _list_pods(context)
    for pod in (*listed.items, *listed.unreadable):
        ours.pop(pod.uid, None)
    store.observe_list(listed.items, listed.resource_version, owner.namespace, owner.key, listed.unreadable)
    # The others are gone, or their label says something else by now.
    context.memory.unsettled |= {pod.name for pod in ours.values()}
    await reading.settle(context)


async def _list_pods(context: Context) -> Page[PodView]:
    """All Pods with the FlameCluster's label, as if they were on one page."""
    owner, token = context.owner, ""
    found: list[PodView] = []
    unreadable: list[PodView] = []
    selector = f"{CLUSTER_LABEL}={owner.name}"
    while True:
        page = await context.client.list_page(PODS, owner.namespace, label_selector=selector, continue_token=token)
        found += page.items
        unreadable += page.unreadable
        token = page.continue_token
        if not token:
            return Page(found, page.resource_version, unreadable=unreadable)


def _put_off_if_changed(context: Context) -> Outcome | None:
    """Nothing is deleted by an order that may have been taken back: the FlameCluster changed in any way since the pass began."""
    newest = context.stores.flame_clusters.get(context.owner.namespace, context.owner.name)
    if newest is not None and newest.metadata.resource_version == context.cluster.metadata.resource_version:
        return None
    return outcomes.changed(0)


def _denied() -> Outcome:
    # Without a name: of two operators that are denied, both say the same.
    return blocked(LOCK_DENIED, "the operator deletes no Pods, for it is on the deny list (spec.lockOptions.denyList)")


def _held(held: Held, delay: float) -> Outcome:
    return wait(LOCK_HELD, f'operator "{held.by}" holds the lock, which lets one at a time delete Pods', delay)
