"""The Lease of the deletion lock of one FlameCluster: who holds the lock, and the writes that acquire, extend and release it.

The Lease is not watched. A process reads it when it needs the lock and does not hold it, and then keeps what it last wrote.
"""

from dataclasses import replace
from typing import Any

from flamectl_operator.api.flamecluster import LockOptions
from flamectl_operator.desired import names
from flamectl_operator.kube import lease as leases
from flamectl_operator.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from flamectl_operator.kube.resources import LEASES
from flamectl_operator.kube.views import LeaseView
from flamectl_operator.reconcile.lock.lock_guard import LockGuard
from flamectl_operator.reconcile.lock.lock_state import Foreign, HeldByOther, HeldLease, check_lease, observe_lease
from flamectl_operator.reconcile.objects.cluster_io import ClusterIO
from flamectl_operator.reconcile.objects.write_count import WRITES
from flamectl_operator.reconcile.refusals.error import REFUSALS, RefusedError
from flamectl_operator.reconcile.stores.transform import bounded

#: Seconds until a lock that another operator holds is read again, because it may be released before it expires.
LEASE_RECHECK_SECONDS = 5.0


class LockLease:
    """Reads and writes the Lease; each write changes the guard of this process.

    Its methods raise RefusedError when the API server rejects a request, and KubernetesError when the outcome is unknown.
    """

    def __init__(self, guard: LockGuard, io: ClusterIO) -> None:
        self.guard = guard
        self.io = io
        self._clock = io.clock
        #: `metadata.generation` that the pass is about.
        self.generation = 0
        self._duration = 0.0
        self._seen: leases.ObservedLease | None = None
        self._read_again = float("-inf")
        self._acquired_for = 0

    def begin(self, generation: int, options: LockOptions, duration: float) -> None:
        """Begin a pass, in which the lock lasts for so many seconds unless it is extended."""
        self.generation, self.guard.options, self._duration = generation, options, duration
        if options.disabled:
            self.guard.held = self._seen = None
            self._read_again, self._acquired_for = float("-inf"), 0

    @property
    def name(self) -> str:
        """The name of the Lease."""
        return names.lock(self.io.owner.name)

    @property
    def held_by_no_operator(self) -> bool:
        """Whether the holder asks for more time than any operator does."""
        return self._seen is not None and self._seen.too_long

    @property
    def reread_in(self) -> float:
        """Seconds until a Lease that another operator holds is read again."""
        return self._read_again - self._clock.boottime()

    def known_holder(self) -> HeldByOther | None:
        """Return the other operator that held the lock at the last read, unless it is time to read the Lease again."""
        state = self._check(None)
        return state if isinstance(state, HeldByOther) and self.reread_in > 0 else None

    async def read(self) -> LeaseView | None:
        """Read the Lease; None when there is none."""
        return await self.io.reads.read(LEASES, self.name)

    def obstacle(self, lease: LeaseView | None) -> HeldByOther | Foreign | None:
        """Return why the lock cannot be acquired, by a Lease that was just read; None when it can be."""
        # Counted from after the response, because a count from before it would shorten another operator's time.
        now = self._clock.boottime()
        self._seen = observe_lease(lease, self._seen, now, self._duration)
        state = self._check(lease)
        if isinstance(state, HeldByOther):
            self._read_again = min(now + LEASE_RECHECK_SECONDS, state.until)
        return state

    async def extend_when_due(self, held: HeldLease) -> bool:
        """Extend the lock when its time is short or the generation is new; return False when another writer came first.

        When the precondition on the resourceVersion holds, no other operator had the lock meanwhile, and the view is still valid,
        with two exceptions. A generation in between may have denied this operator the lock. And after this process was stopped
        for as long as the lock lasts, its watches have not caught up.
        """
        now, same = self._clock.boottime(), self._acquired_for == self.generation
        if same and now < held.extend_at:
            return True
        return await self.acquire(held.lease, view_is_new=held.view_is_new and same and now < held.until)

    async def extend_after_slow_reads(self, held: HeldLease) -> bool:
        """Extend the lock if its time is short after the view was updated, which is then as new as the lock."""
        return self._clock.boottime() < held.extend_at or await self.acquire(held.lease, view_is_new=held.view_is_new)

    async def acquire(self, lease: LeaseView | None, *, view_is_new: bool) -> bool:
        """Write this operator's identity into the Lease, if there is one; return False when another writer came first."""
        now, sent = self._clock.now(), self._clock.boottime()
        if lease is None:
            metadata = self.io.owner.metadata(self.name, "lock")
            body = leases.new(metadata, self.guard.identity, self._duration, now)
        else:
            body = leases.acquired(lease, self.guard.identity, self._duration, now)
        written = await self._write(lease, body)
        # A webhook or a proxy may have put something else in the place of the lock.
        if written is None or written.spec.holder_identity != self.guard.identity:
            return False
        self.guard.held = HeldLease.taken(written, sent, self._duration, view_is_new=view_is_new)
        self._acquired_for = self.generation
        return True

    async def release(self) -> None:
        """Release the lock, if this process holds it."""
        held = self.guard.held
        if held is None or not held.names_us:
            return
        lease = await self._write(held.lease, leases.released(held.lease, self._clock.now()))
        if lease is not None:
            self.guard.held = HeldLease.given_back(lease)

    async def patch(self, lease: LeaseView, changes: dict[str, Any]) -> None:
        """Change the metadata of the Lease. A change by somebody else comes first, and the next change tries again."""
        held = self.guard.held
        written = await self._write(lease, changes)
        same = held is not None and held.lease.metadata.resource_version == lease.metadata.resource_version
        if held is not None and written is not None and same:
            self.guard.held = replace(held, lease=written)

    def _check(self, lease: LeaseView | None) -> HeldByOther | Foreign | None:
        guard, now = self.guard, self._clock.boottime()
        return check_lease(lease, self._seen, self.io.owner.uid, guard.options, guard.identity, now)

    async def _write(self, lease: LeaseView | None, body: dict[str, Any]) -> LeaseView | None:
        """Create or change the Lease; None when another writer came first. Until the response the lock counts as not held."""
        namespace = self.io.owner.namespace
        self.guard.held = None
        WRITES.get().sent += 1
        try:
            if lease is None:
                return bounded(await self.io.client.create(LEASES, namespace, self.io.common.added_to(body)))
            return bounded(
                await self.io.client.merge_patch(LEASES, namespace, lease.name, self.io.common.joined_to(body, lease))
            )
        except (AlreadyExistsError, ConflictError, NotFoundError):
            WRITES.get().conflicts += 1
            return None
        except REFUSALS as error:
            raise RefusedError.of(error) from error
