"""The deletion lock: only one operator at a time may delete the Pods and PersistentVolumeClaims of a FlameCluster.

Two deployments of the operator may see the same FlameCluster: side by side during an upgrade, or with overlapping namespaces.
Creates are safe without the lock, because names and reserved ids protect them. Deletions are not: both operators would use up the
budget of a rollout, and each would act on a view without the other's latest actions.

The first deletion of a pass acquires the lock, and the pass releases it when no deletion is left. Each deletion is checked again
right before it is sent. The lock is extended only while Pods are being deleted, so a cluster at rest causes no writes. The
Lease is not watched; only an operator that needs the lock reads it.

An operator that acquires the lock first reads the FlameCluster and its Pods, because its watches may not show the previous
holder's latest actions yet.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flamectl_operator.desired import names
from flamectl_operator.kube import lease as leases
from flamectl_operator.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from flamectl_operator.kube.resources import LEASES, PODS
from flamectl_operator.planning.lock import (
    Foreign,
    HeldByOther,
    HeldLease,
    ObservedLease,
    check_lease,
    observe_lease,
)
from flamectl_operator.reconcile import outcomes
from flamectl_operator.reconcile.lock_wait import LockWait
from flamectl_operator.reconcile.refusals import REFUSALS, RefusedError
from flamectl_operator.reconcile.transform import keep
from flamectl_operator.reconcile.write_count import WRITES
from flamectl_operator.runtime.outcome import Outcome, blocked, wait

if TYPE_CHECKING:
    from flamectl_operator.api.flamecluster import LockOptions
    from flamectl_operator.kube.views import LeaseView
    from flamectl_operator.observed.flame_cluster import FlameClusterView
    from flamectl_operator.reconcile.cluster_io import ClusterIO
    from flamectl_operator.reconcile.lock_hold import LockHold
    from flamectl_operator.runtime.clock import Clock

#: Seconds until a lock that another operator holds is read again, because it may be released before it expires.
LEASE_RECHECK_SECONDS = 5.0
#: The reason of outcomes for Pods that stay because this operator is denied the lock.
LOCK_DENIED = "LockDenied"

#: The state before the first deletion of a pass.
_NOT_ASKED = wait("Changed", "", 0)


class DeletionLock:
    """Acquires, extends and releases the deletion lock of one FlameCluster.

    It keeps the Lease between passes. A process without this knowledge reads the Lease when it has something to delete. A process
    that ends while it holds the lock leaves it to its successor under the same lock identity, or lets it expire.

    Args:
        hold: The hold of this process, which changes with each write of the Lease.
    """

    def __init__(self, hold: LockHold, io: ClusterIO, clock: Clock) -> None:
        self._hold = hold
        self._io = io
        self._clock = clock
        self._generation = 0
        self._duration = 0.0
        self._seen: ObservedLease | None = None
        self._read_again = float("-inf")
        self._acquired_for = 0
        self._deferral: Outcome | None = _NOT_ASKED
        self._wait = LockWait()

    def begin(self, generation: int, options: LockOptions, duration: float) -> None:
        """Begin a pass.

        Args:
            generation: `metadata.generation` that the pass is about.
            duration: Seconds that the lock lasts unless it is extended.
        """
        self._generation, self._hold.options, self._duration = generation, options, duration
        self._deferral = _NOT_ASKED
        self._wait.begin()
        if options.disabled:
            self._hold.held = self._seen = None
            self._read_again, self._acquired_for = float("-inf"), 0

    @property
    def denied(self) -> bool:
        """Whether the spec denies this operator the lock."""
        return self._hold.denied

    async def acquire(self) -> Outcome | None:
        """Acquire the lock, or extend it when that is due.

        Returns:
            None when Pods may be deleted; otherwise the reason why not.

        Raises:
            RefusedError: The API server rejects the Lease.
            KubernetesError: It is unknown whether the lock is held, or the view could not be updated.
        """
        # Until the answers are there, and after an error, which already asks for a retry.
        self._deferral = wait("LockNotAcquired")
        self._wait.need(f'somebody keeps changing Lease "{self._name}"')
        deferral = None if self._hold.options.disabled else await self._acquire()
        if deferral is None:
            self._wait.end()
        else:
            pods = frozenset(each.pod.uid for each in self._io.observe().components if not each.terminating)
            no_operator = self._seen is not None and self._seen.too_long
            deferral = self._wait.explained(deferral, pods, self._clock.boottime(), no_operator=no_operator)
        self._deferral = deferral
        return deferral

    async def confirm(self, seen: FlameClusterView, *, suspended: bool) -> Outcome | None:
        """Acquire the lock right before a step chooses the Pods that it deletes; observe the objects again after this call.

        Args:
            suspended: Whether the pass suspends the FlameCluster.

        Returns:
            None when Pods may be deleted; otherwise the reason why not, with its message once in a pass.

        Raises:
            RefusedError: The API server rejects the Lease or a read.
            KubernetesError: It is unknown whether the lock is held, or the view could not be updated.
        """
        if self._deferral is _NOT_ASKED:
            if (deferral := await self.acquire()) is not None:
                return deferral
        elif self._deferral is not None:
            return replace(self._deferral, message="", attention=False)
        # A deletion of an earlier step may have an unknown outcome.
        await self._io.resolve_unknown_writes()
        if suspended:
            # Another operator may have recorded the end of the suspension without the lock; its new Pods must stay.
            await self._io.refresh_cluster()
        newest = self._io.stores.flame_clusters.get(*self._io.owner.key)
        same = newest is not None and newest.metadata.resource_version == seen.metadata.resource_version
        return None if same else outcomes.changed(0)

    async def release(self) -> None:
        """Release the lock, if this process holds it.

        Raises:
            RefusedError: The API server rejects the Lease.
            KubernetesError: It is unknown whether the lock was released. If not, it expires.
        """
        if self._hold.held is None or not self._hold.held.held:
            return
        lease = await self._write(self._hold.held.lease, leases.released(self._hold.held.lease, self._clock.now()))
        if lease is not None:
            self._hold.held = HeldLease.given_back(lease)

    async def patch(self, lease: LeaseView, changes: dict[str, Any]) -> None:
        """Change the metadata of the Lease. A change by somebody else comes first, and the next change tries again.

        Raises:
            RefusedError: The API server rejects the change.
            KubernetesError: It is unknown whether the Lease was changed.
        """
        held = self._hold.held
        written = await self._write(lease, changes)
        if (
            held is not None
            and written is not None
            and held.lease.metadata.resource_version == lease.metadata.resource_version
        ):
            self._hold.held = replace(held, lease=written)

    @property
    def _name(self) -> str:
        return names.lock(self._io.owner.name)

    async def _acquire(self) -> Outcome | None:
        if self.denied:
            return await self._deny()
        if self._hold.held is None:
            if (deferral := await self._take()) is not None:
                return deferral
        elif self._clock.boottime() >= self._hold.held.extend_at or self._acquired_for != self._generation:
            # When the precondition on the resourceVersion holds, no other operator had the lock meanwhile, and the view is still
            # valid, with two exceptions. A generation in between may have denied this operator the lock. And after this process
            # was stopped for as long as the lock lasts, its watches have not caught up.
            same = self._acquired_for == self._generation
            informed = self._hold.held.informed and same and self._clock.boottime() < self._hold.held.until
            if not await self._write_hold(self._hold.held.lease, informed=informed):
                return outcomes.changed()
        held: HeldLease | None = self._hold.held
        if held is None or held.informed:
            return None
        deferral = await self._inform(held)
        held = self._hold.held
        late = held is not None and held.informed and self._clock.boottime() >= held.extend_at
        # After a slow read, the remaining time may not suffice for a deletion, and then everything would be read again.
        if held is not None and late and not await self._write_hold(held.lease, informed=True):
            return outcomes.changed()
        return deferral

    async def _take(self) -> Outcome | None:
        """Acquire a lock that is unknown to this process, or that another operator held at the last read."""
        now = self._clock.boottime()
        state = self._check_lease(None, now)
        if isinstance(state, HeldByOther) and now < self._read_again:
            return self._wait.for_holder(state.by, self._read_again - now)
        lease = await self._io.look(LEASES, self._name)
        now = (
            self._clock.boottime()
        )  # after the response, because a count from before it would shorten another operator's time
        self._seen = observe_lease(lease, self._seen, now, self._duration)
        match self._check_lease(lease, now):
            case Foreign(lease=theirs):
                return outcomes.name_taken(self._io.owner, LEASES, theirs)
            case HeldByOther() as held:
                self._read_again = min(now + LEASE_RECHECK_SECONDS, held.until)
                return self._wait.for_holder(held.by, self._read_again - now)
        if lease is not None and lease.terminating:
            self._wait.obstacle = f'Lease "{lease.name}" is being deleted, and its finalizers keep it'
            return wait(
                "Terminating", f'waiting for Lease "{lease.name}" to terminate', outcomes.TAKEN_NAME_RECHECK_SECONDS
            )
        taken_over = lease is not None and lease.spec.holder_identity not in {None, "", self._hold.identity}
        if taken_over:
            # A newer generation may have removed the holder from the deny list.
            cluster = await self._io.refresh_cluster()
            if cluster is None or cluster.metadata.generation != self._generation:
                return outcomes.changed()
        return None if await self._write_hold(lease, informed=False) else outcomes.changed()

    def _check_lease(self, lease: LeaseView | None, now: float) -> HeldByOther | Foreign | None:
        return check_lease(lease, self._seen, self._io.owner.uid, self._hold.options, self._hold.identity, now)

    async def _write_hold(self, lease: LeaseView | None, *, informed: bool) -> bool:
        """Write this operator's identity into the Lease; return False when another writer came first."""
        now, sent = self._clock.now(), self._clock.boottime()
        if lease is None:
            metadata = self._io.owner.metadata(self._name, "lock")
            body = leases.new(metadata, self._hold.identity, self._duration, now)
        else:
            body = leases.acquired(lease, self._hold.identity, self._duration, now)
        written = await self._write(lease, body)
        if written is not None and written.spec.holder_identity != self._hold.identity:
            written = None  # a webhook or a proxy has put something else in the place of the lock
        if written is not None:
            self._hold.held = HeldLease.taken(written, sent, self._duration, informed=informed)
            self._acquired_for = self._generation
        return written is not None

    async def _write(self, lease: LeaseView | None, body: dict[str, Any]) -> LeaseView | None:
        """Create or change the Lease; None when another writer came first. Until the response the lock counts as not held."""
        namespace = self._io.owner.namespace
        self._hold.held = None
        WRITES.get().sent += 1
        try:
            if lease is None:
                return keep(await self._io.client.create(LEASES, namespace, self._io.common.added_to(body)))
            return keep(
                await self._io.client.merge_patch(LEASES, namespace, lease.name, self._io.common.joined_to(body, lease))
            )
        except (AlreadyExistsError, ConflictError, NotFoundError):
            WRITES.get().conflicts += 1
            return None
        except REFUSALS as error:
            raise RefusedError.of(error) from error

    async def _inform(self, held: HeldLease) -> Outcome | None:
        """Update the view with changes from before this operator acquired the lock."""
        if await self._io.refresh_cluster() is None:
            return outcomes.changed()
        pods, key = self._io.stores.of(PODS), self._io.owner.key
        known = pods.by_index(key)
        await self._io.refresh_pods()
        self._hold.held = replace(held, informed=True)
        # The earlier steps used the old view. After a change the next pass, which the change triggers, acts on the new view.
        return None if pods.by_index(key) is known else outcomes.changed(None)

    async def _deny(self) -> Outcome:
        """Return the reason why a denied operator deletes nothing.

        While the Lease names an operator that is not denied, that operator works and writes the status, so this operator reports
        nothing: two operators with different messages would overwrite each other.
        """
        lease = await self._io.look(LEASES, self._name)
        holder = lease.spec.holder_identity if lease is not None and lease.controlled_by(self._io.owner.uid) else None
        if holder and holder not in self._hold.options.deny_list:
            return self._wait.for_holder(holder, LEASE_RECHECK_SECONDS)
        # Without a name, because all denied operators must report the same message.
        return blocked(
            LOCK_DENIED, "the operator deletes no Pods, because it is on the deny list (spec.lockOptions.denyList)"
        )
