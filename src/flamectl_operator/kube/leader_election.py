"""Leader election: only the process whose identity is in a Lease does the work.

The holder renews the Lease; another process takes it after it was not renewed for its duration. Clocks of two machines are never
compared: the holder counts from the time when it *sent* its last successful renewal, the others count from the time when they
*saw* the Lease change, which is later. Both use a clock that also runs while the machine or the process is stopped.

A holder that cannot renew stops well before the others may take over, and from then on its fence rejects every write. The fence
of a process that was frozen is closed before the process can send anything. A request that it sent earlier and that arrives late
is harmless, because each write has a precondition or a unique name.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import structlog

from flamectl_operator.kube import lease as leases
from flamectl_operator.kube.client import Client
from flamectl_operator.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    KubernetesError,
    NotFoundError,
    NotLeadingError,
)
from flamectl_operator.kube.resources import LEASES
from flamectl_operator.kube.views import LeaseSpec, LeaseView
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.tasks import set_within


class Fence:
    """Allows writes until a deadline, which is a `boottime`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = float("-inf")

    @property
    def remaining(self) -> float:
        """Seconds until the fence closes; zero or less when it is closed."""
        return self._until - self._clock.boottime()

    @property
    def open(self) -> bool:
        """Whether writes may be sent."""
        return self.remaining > 0

    def check(self) -> None:
        """Raise NotLeadingError if the fence is closed; the guard of a client."""
        if not self.open:
            raise NotLeadingError("not sent, because this process is not the leader")

    def extend(self, until: float) -> None:
        """Keep the fence open until this `boottime`."""
        self._until = until

    def close(self) -> None:
        """Close the fence now."""
        self._until = float("-inf")


#: Seconds to release the Lease when the process ends.
RELEASE_TIMEOUT = 3.0

#: The longest duration that a Lease of another process lasts, in seconds, unless our own lasts longer. The API server accepts 68
#: years, and nobody would lead for as long.
LONGEST_LEASE = 600.0

#: The largest share of the retry period that is added to it, so that candidates do not all come at once.
JITTER = 0.2


@dataclass(frozen=True, slots=True)
class ContendedLease:
    """The Lease that candidates contend for, and the periods of its election in seconds, each well below the previous one.

    Args:
        duration: The time since the last seen change of the Lease after which another process takes it.
        renew_deadline: The time since the last successful renewal was sent after which the holder stops working.
        retry_period: The time between two attempts to renew or to acquire.
    """

    namespace: str
    name: str
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A process that contends for the Lease.

    Args:
        identity: The name of the process, which no other process ever had.
        predecessors: Prefix of the identities of its dead predecessors, and of no other process; empty when unknown.
    """

    identity: str
    predecessors: str = ""

    def succeeds(self, holder: str) -> bool:
        """Return whether a holder is this process or a dead predecessor, so that nobody needs to wait for it."""
        return holder == self.identity or (bool(self.predecessors) and holder.startswith(self.predecessors))


class LeaderElector:
    """Contends for a Lease, and runs work for as long as it holds the Lease.

    Args:
        client: Reads and writes the Lease. The fence does not guard it; it does not retry, and it times out well before the renew
            deadline.
        fence: Guards the clients that do the work; the elector opens and closes it.
    """

    def __init__(
        self, client: Client, fence: Fence, candidate: Candidate, lease: ContendedLease, clock: Clock, random: Random
    ) -> None:
        self._client = client
        self._fence = fence
        self._candidate = candidate
        self._identity = candidate.identity
        self._lease = lease
        self._clock = clock
        self._random = random
        self._log = structlog.get_logger(
            component="leader election", lease=f"{lease.namespace}/{lease.name}", identity=candidate.identity
        )
        self._written: LeaseView | None = None  # the Lease as we last wrote it; None when uncertain
        self._seen: leases.ObservedLease | None = None  # the Lease as we last saw it
        self._seen_holder = False  # whether we ever saw the Lease with a holder
        self._last_logged = ""
        #: The monotonic time of the last attempt to acquire or renew the Lease; None before the first one.
        self.last_attempt: float | None = None

    @property
    def standing_by(self) -> bool:
        """Whether it has seen another holder of the Lease, so that it could take over."""
        return self._seen is not None

    async def run(self, term: Callable[[], Coroutine[Any, Any, None]], stop: asyncio.Event) -> None:
        """Contend, and lead whenever elected, until asked to stop; release the Lease in the end.

        Args:
            term: The work of one term. It is cancelled when leadership is lost, and starts again in the next term. It returns
                when it has done its part of stopping.

        Raises:
            Exception: The term failed for another reason than the loss of leadership.
        """
        try:
            while not stop.is_set():
                if await self._acquired(stop):
                    self._log_once("leading", fresh=True)
                    await self._lead(term)
        finally:
            await self._release()

    async def _acquired(self, stop: asyncio.Event) -> bool:
        """Try until we hold the Lease; return False when asked to stop."""
        while not await self._attempt():
            pause = self._lease.retry_period * (1 + JITTER * self._random.random())
            if await set_within(stop, pause):
                return False
        return True

    async def _lead(self, term: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the work until it ends by itself or the Lease is lost."""
        work = asyncio.create_task(term(), name="term")
        try:
            while self._fence.open:
                pause = min(self._lease.retry_period, self._fence.remaining)
                await asyncio.wait({work}, timeout=pause)
                if work.done():
                    await work
                    return
                await self._renew()
            self._log.warning("leadership lost")
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            if not self._fence.open:
                self._written = None

    async def _renew(self) -> None:
        """Renew once, and give up when the fence closes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, self._fence.remaining)):
                await self._attempt(again=True)
                return
        self._written = None

    async def _attempt(self, *, again: bool = False) -> bool:
        """Acquire or renew the Lease, if possible, `again` at once after a conflict; return whether we hold it now."""
        sent, self.last_attempt = self._clock.boottime(), self._clock.monotonic()
        try:
            self._written = await self._write()
        except (ConflictError, AlreadyExistsError):
            self._written = None  # another process wrote first: the next attempt reads the Lease
            return again and await self._attempt()
        except KubernetesError as error:
            self._written = None  # it may have been applied: the next attempt reads the Lease
            self._log_once("the Lease could not be acquired", error=str(error))
            return False
        written = self._written
        if written is not None and written.spec.holder_identity != self._identity:
            self._log_once(
                "the answer to the write of the Lease names another process", holder=written.spec.holder_identity
            )
            self._written = None
        if self._written is not None:
            self._seen_holder = True
            self._fence.extend(sent + self._lease.renew_deadline)
        return self._written is not None

    async def _write(self) -> LeaseView | None:
        """Write our identity and the time into the Lease, unless another process holds it."""
        current = self._written
        if current is None:
            try:
                current = await self._client.get(LEASES, self._lease.namespace, self._lease.name)
            except NotFoundError:
                if self._vanished():
                    return None
                metadata = {"name": self._lease.name, "namespace": self._lease.namespace}
                body = leases.new(metadata, self._identity, self._lease.duration, self._clock.now())
                return await self._client.create(LEASES, self._lease.namespace, body)
            if not self._available(current):
                # Also when we believed that we hold it, because then another process took it.
                self._fence.close()
                if current.spec.holder_identity:
                    self._log_once("another process leads", holder=current.spec.holder_identity)
                else:
                    self._log_once("someone cleared holderIdentity of the Lease; waiting until the Lease expires")
                return None
        body = leases.acquired(current, self._identity, self._lease.duration, self._clock.now())
        return await self._client.merge_patch(LEASES, self._lease.namespace, self._lease.name, body)

    def _available(self, current: LeaseView) -> bool:
        """Return whether the Lease is ours, free, or unchanged for as long as its holder may be silent."""
        spec, now, ours = current.spec, self._clock.boottime(), self._lease.duration
        longest = max(LONGEST_LEASE, ours)
        self._seen = leases.observe(current, self._seen, now, default=ours, longest=longest, shortest=ours)
        silent = now >= self._seen.until
        if self._seen.set_back and not self._fence.open:
            return silent
        if spec.holder_identity:
            self._seen_holder = True
            return silent or self._candidate.succeeds(spec.holder_identity)
        return silent or self._free_at_once(spec)

    def _free_at_once(self, spec: LeaseSpec) -> bool:
        """Return whether a Lease without a holder is free at once: it was released, never held, or is still ours.

        Otherwise someone may have cleared the identity of a leader that still works.
        """
        released = spec.lease_duration_seconds is not None and spec.lease_duration_seconds <= leases.RELEASED_DURATION
        never_held = spec.renew_time is None and not self._seen_holder
        return released or never_held or self._fence.open  # with an open fence, this process is the leader

    def _vanished(self) -> bool:
        """Return whether a Lease that we saw was deleted so recently that its holder may not have noticed."""
        if self._seen is None or self._fence.open:
            return False
        now = self._clock.boottime()
        self._seen = leases.observe_deletion(self._seen, now, self._lease.duration)
        return now < self._seen.until

    async def _release(self) -> None:
        """Release the Lease, so that another process need not wait until it expires."""
        self._fence.close()
        written, self._written = self._written, None
        if written is None:
            return
        body = leases.released(written, self._clock.now())
        try:
            async with asyncio.timeout(RELEASE_TIMEOUT):
                await self._client.merge_patch(LEASES, self._lease.namespace, self._lease.name, body)
        except (KubernetesError, TimeoutError) as error:
            self._log.warning("the Lease could not be released; it will expire", error=str(error) or "timed out")
        else:
            self._log.info("leadership released")

    def _log_once(self, what: str, *, fresh: bool = False, **details: object) -> None:
        line = f"{what} {details}"
        if fresh or line != self._last_logged:
            self._log.info(what, **details)
        self._last_logged = line
