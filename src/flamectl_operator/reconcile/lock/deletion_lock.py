"""The deletion lock: only one operator at a time may delete the Pods and PersistentVolumeClaims of a FlameCluster.

Two deployments of the operator may see the same FlameCluster: side by side during an upgrade, or with overlapping namespaces.
Creates are safe without the lock, because names and reserved ids protect them. Deletions are not: both operators would use up the
budget of a rollout, and each would act on a view without the other's latest actions.

The first deletion of a pass acquires the lock, and the pass releases it when no deletion is left. Each deletion is checked again
right before it is sent. The lock is extended only while Pods are being deleted, so a cluster at rest causes no writes. An
operator that acquires the lock first reads the FlameCluster and its Pods, because its watches may not show the previous holder's
latest actions yet.
"""

from dataclasses import replace

from flamectl_operator.api.flamecluster import LockOptions
from flamectl_operator.kube.resources import LEASES, PODS
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.planning.termination import awaited_end
from flamectl_operator.reconcile.lock.lock_lease import LEASE_RECHECK_SECONDS, LockLease
from flamectl_operator.reconcile.lock.lock_state import Foreign, HeldByOther, HeldLease
from flamectl_operator.reconcile.lock.lock_wait import LockWait
from flamectl_operator.reconcile.objects import outcomes
from flamectl_operator.runtime.outcome import Outcome, blocked, wait

#: The reason of outcomes for Pods that stay because this operator is denied the lock.
LOCK_DENIED = "LockDenied"


class DeletionLock:
    """Acquires, extends and releases the deletion lock of one FlameCluster, as its passes need it.

    A process that ends while it holds the lock leaves it to its successor under the same lock identity, or lets it expire.
    """

    def __init__(self, lease: LockLease) -> None:
        self.lease = lease
        self._guard, self._io = lease.guard, lease.io
        #: Whether this pass has asked for the lock, and then why it may delete nothing; None when it may.
        self._asked = False
        self._deferral: Outcome | None = None
        self._wait = LockWait()

    def begin(self, generation: int, options: LockOptions, duration: float) -> None:
        """Begin a pass, in which the lock lasts for so many seconds unless it is extended."""
        self._asked = False
        self.lease.begin(generation, options, duration)
        self._wait.begin()

    @property
    def denied(self) -> bool:
        """Whether the spec denies this operator the lock."""
        return self._guard.denied

    async def acquire(self) -> Outcome | None:
        """Acquire the lock, or extend it when that is due; return why no Pod may be deleted, or None."""
        # The outcome until the answers are there, and after an error, which already asks for a retry.
        self._asked, self._deferral = True, wait("LockNotAcquired")
        self._wait.need(f'somebody keeps changing Lease "{self.lease.name}"')
        deferral = None if self._guard.options.disabled else await self._acquire()
        if deferral is None:
            self._wait.end()
        else:
            pods = frozenset(each.pod.uid for each in self._io.reads.observe().components if not each.terminating)
            no_operator = self.lease.held_by_no_operator
            deferral = self._wait.explained(deferral, pods, self._io.clock.boottime(), no_operator=no_operator)
        self._deferral = deferral
        return deferral

    async def confirm(self, seen: FlameClusterView, *, suspended: bool) -> Outcome | None:
        """Acquire the lock right before a step chooses the Pods that it deletes; observe the objects again after this call.

        Returns:
            None when Pods may be deleted; otherwise the reason why not, with its message once in a pass.
        """
        said_before = self._asked
        deferral = self._deferral if said_before else await self.acquire()
        if deferral is not None:
            return replace(deferral, message="", attention=False) if said_before else deferral
        # A deletion of an earlier step may have an unknown outcome.
        await self._io.reads.resolve_unknown_writes()
        if suspended:
            # Another operator may have recorded the end of the suspension without the lock; its new Pods must stay.
            await self._io.reads.refresh_cluster()
        newest = self._io.stores.flame_clusters.get(*self._io.owner.key)
        same = newest is not None and newest.metadata.resource_version == seen.metadata.resource_version
        return None if same else outcomes.changed(0)

    async def _acquire(self) -> Outcome | None:
        if self.denied:
            return await self._deny()
        if (held := self._guard.held) is None:
            if (deferral := await self._acquire_anew()) is not None:
                return deferral
        elif not await self.lease.extend_when_due(held):
            return outcomes.changed()
        held = self._guard.held
        return None if held is None or held.view_is_new else await self._update_view(held)

    async def _acquire_anew(self) -> Outcome | None:
        """Acquire a lock that is unknown to this process, or that another operator held at the last read."""
        if (other := self.lease.known_holder()) is not None:
            return self._wait.for_holder(other.by, self.lease.reread_in)
        lease = await self.lease.read()
        match self.lease.obstacle(lease):
            case Foreign(lease=theirs):
                return outcomes.name_taken(self._io.owner, LEASES, theirs)
            case HeldByOther(by=holder):
                return self._wait.for_holder(holder, self.lease.reread_in)
        if lease is not None and lease.terminating:
            self._wait.obstacle = f'Lease "{lease.name}" is being deleted, and its finalizers keep it'
            return wait("Terminating", awaited_end("Lease", lease), outcomes.TAKEN_NAME_RECHECK_SECONDS)
        taken_over = lease is not None and lease.spec.holder_identity not in {None, "", self._guard.identity}
        if taken_over:
            # A newer generation may have removed the holder from the deny list.
            cluster = await self._io.reads.refresh_cluster()
            if cluster is None or cluster.metadata.generation != self.lease.generation:
                return outcomes.changed()
        return None if await self.lease.acquire(lease, view_is_new=False) else outcomes.changed()

    async def _update_view(self, held: HeldLease) -> Outcome | None:
        """Update the view with changes from before this operator acquired the lock."""
        if await self._io.reads.refresh_cluster() is None:
            return outcomes.changed()
        pods, key = self._io.stores.of(PODS), self._io.owner.key
        known = pods.by_index(key)
        await self._io.reads.refresh_pods()
        held = self._guard.held = replace(held, view_is_new=True)
        # After a slow read, the remaining time may not suffice for a deletion, and then everything would be read again.
        if not await self.lease.extend_after_slow_reads(held):
            return outcomes.changed()
        # The earlier steps used the old view. After a change the next pass, which the change triggers, acts on the new view.
        return None if pods.by_index(key) is known else outcomes.changed(None)

    async def _deny(self) -> Outcome:
        """Return the reason why a denied operator deletes nothing.

        While the Lease names an operator that is not denied, that operator works and writes the status, so this operator reports
        nothing: two operators with different messages would overwrite each other.
        """
        lease = await self.lease.read()
        holder = lease.spec.holder_identity if lease is not None and lease.controlled_by(self._io.owner.uid) else None
        if holder and holder not in self._guard.options.deny_list:
            return self._wait.for_holder(holder, LEASE_RECHECK_SECONDS)
        # Without a name, because all denied operators must report the same message.
        return blocked(
            LOCK_DENIED,
            "Pods cannot be deleted, because spec.lockOptions.denyList names this operator, and no other one holds the lock:"
            " take it off the list",
        )
