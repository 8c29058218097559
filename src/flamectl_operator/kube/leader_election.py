"""At most one of several processes does the work: the one whose name stands in a Lease.

The holder renews the Lease; when it has not done so for the Lease's duration, another takes it. Nobody compares clocks of
two machines: a holder counts its time from when it *sent* the last renewal that succeeded, the others count from when they
*saw* the Lease change, which is later. Both count on a clock that also runs while the machine or the process is stopped.

A holder that cannot renew gives up well before the others may take over, and from then on its fence refuses every write. A
process that was frozen and wakes up too late finds its fence closed before it can send anything; what it had sent before
and lands late is harmless, for each write has a precondition or a name of its own.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from flamectl_operator.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    KubernetesError,
    NotFoundError,
    NotLeadingError,
)
from flamectl_operator.kube.resources import LEASES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from random import Random

    from flamectl_operator.kube.client import Client
    from flamectl_operator.kube.views import LeaseSpec, LeaseView
    from flamectl_operator.runtime.clock import Clock

#: How long giving the Lease back may take when the process ends, in seconds.
RELEASE_PATIENCE = 3.0

#: leaseDurationSeconds written on release (client-go writes 1 too). No leader uses it, so it tells a release from a Lease whose
#: holderIdentity somebody blanked.
GIVEN_BACK = 1

#: How much longer than the retry period an attempt may be put off, so that candidates do not come all at once.
JITTER = 0.2


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """When a Lease is renewed, given up and taken over, in seconds; each must be well below the one before it.

    Args:
        duration: How long the others wait, after they last saw the Lease change, before they take it.
        renew_deadline: How long the holder works on after it sent the last renewal that succeeded.
        retry_period: The time between two attempts to renew or to take.
    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class Fence:
    """Until when this process may write.

    Args:
        clock: Its `boottime` is what counts.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = float("-inf")

    @property
    def remaining(self) -> float:
        """Seconds until it closes; none or less when it is closed."""
        return self._until - self._clock.boottime()

    @property
    def open(self) -> bool:
        """Whether writes may be sent."""
        return self.remaining > 0

    def check(self) -> None:
        """Be the guard of a client.

        Raises:
            NotLeadingError: When the fence is closed.
        """
        if not self.open:
            raise NotLeadingError("not sent: this process does not lead (any more)")

    def extend(self, until: float) -> None:
        """Keep it open until this moment of the clock's `boottime`."""
        self._until = until

    def close(self) -> None:
        """Close it now."""
        self._until = float("-inf")


@dataclass(frozen=True, slots=True)
class _Sighting:
    """What a look at the Lease showed.

    Args:
        resource_version: As it was; empty when there was none.
        expires: The moment of our clock's `boottime` at which a holder has been silent for too long.
    """

    resource_version: str
    expires: float


class LeaderElector:
    """Contends for a Lease, and has work done for as long as it holds it.

    Args:
        client: Reads and writes the Lease. It is not guarded by the fence, does not retry by itself, and gives up on a
            request well before the renew deadline.
        fence: Opened and closed here; guards the clients that do the work.
        identity: The name of this process, which no other process ever had.
        namespace: Of the Lease.
        name: Of the Lease.
        timing: The seconds that matter.
        clock: The time.
        random: Where jitter comes from.
    """

    def __init__(
        self,
        client: Client,
        fence: Fence,
        identity: str,
        *,
        namespace: str,
        name: str,
        timing: LeaseTiming,
        clock: Clock,
        random: Random,
    ) -> None:
        self._client = client
        self._fence = fence
        self._identity = identity
        self._namespace = namespace
        self._name = name
        self._timing = timing
        self._clock = clock
        self._random = random
        self._log = structlog.get_logger(component="leader election", lease=f"{namespace}/{name}", identity=identity)
        self._held: LeaseView | None = None  # the Lease as we last wrote it; None when that is not certain
        self._seen: _Sighting | None = None  # the Lease as it last was when we looked
        self._seen_held = False  # whether the Lease ever had a holder when we looked
        self._said = ""
        #: The clock's monotonic seconds at which it last tried to take or to renew the Lease; None before the first time.
        self.last_attempt: float | None = None

    @property
    def standing_by(self) -> bool:
        """Whether it has seen who else holds the Lease, so that it could take over."""
        return self._seen is not None

    async def run(self, term: Callable[[], Coroutine[Any, Any, None]], stop: asyncio.Event) -> None:
        """Contend, and lead whenever elected, until asked to stop; the Lease is given back in the end.

        Args:
            term: The work of one term. It is cancelled when leadership is lost, and begun anew with the next term. It
                returns when it has done what `stop` asks for.
            stop: Set by whoever wants it to stop.

        Raises:
            Exception: Whatever ended a term other than the loss of leadership.
        """
        try:
            while not stop.is_set():
                if await self._acquired(stop):
                    self._say("leading", fresh=True)
                    await self._lead(term)
        finally:
            await self._release()

    async def _acquired(self, stop: asyncio.Event) -> bool:
        """Try until the Lease is ours; False when asked to stop."""
        while not await self._attempt():
            pause = self._timing.retry_period * (1 + JITTER * self._random.random())
            if await _set_within(stop, pause):
                return False
        return True

    async def _lead(self, term: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have the work done until it ends by itself, or until the Lease is lost."""
        work = asyncio.create_task(term(), name="term")
        try:
            while self._fence.open:
                pause = min(self._timing.retry_period, self._fence.remaining)
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
                self._held = None

    async def _renew(self) -> None:
        """Renew once, for as long as there is still a point in it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, self._fence.remaining)):
                await self._attempt(again=True)
                return
        self._held = None

    async def _attempt(self, *, again: bool = False) -> bool:
        """Take or renew the Lease if that is possible; whether it is ours now.

        Args:
            again: Whether to look at once who was faster, if anybody was.
        """
        sent, self.last_attempt = self._clock.boottime(), self._clock.monotonic()
        try:
            lease = await self._take()
        except (ConflictError, AlreadyExistsError):
            self._held = None  # somebody was faster: the next attempt looks who
            return again and await self._attempt()
        except KubernetesError as error:
            self._held = None  # it may have been applied: the next attempt looks
            self._say("the Lease cannot be had", error=str(error))
            return False
        self._held = lease
        if lease is not None:
            self._seen_held = True
            self._fence.extend(sent + self._timing.renew_deadline)
        return lease is not None

    async def _take(self) -> LeaseView | None:
        """Write our name and the time into the Lease, unless another holds it."""
        current = self._held
        if current is None:
            try:
                current = await self._client.get(LEASES, self._namespace, self._name)
            except NotFoundError:
                if self._vanished():
                    return None
                return await self._client.create(LEASES, self._namespace, self._manifest())
            if not self._available(current):
                # Also when we believed to hold it: then it was taken from us.
                self._fence.close()
                if current.spec.holder_identity:
                    self._say("another process leads", holder=current.spec.holder_identity)
                else:
                    self._say("the Lease has lost its holder's name, who may still lead: waiting as if it were there")
                return None
        return await self._client.merge_patch(LEASES, self._namespace, self._name, self._claim(current))

    def _available(self, lease: LeaseView) -> bool:
        """Whether it is ours, free, or has not changed for as long as its holder may be silent."""
        spec = lease.spec
        duration = max(spec.lease_duration_seconds or 0, self._timing.duration)
        silent = self._silent_for(lease.metadata.resource_version, duration)
        if spec.holder_identity:
            self._seen_held = True
            return silent or spec.holder_identity == self._identity
        return silent or self._free_at_once(spec)

    def _free_at_once(self, spec: LeaseSpec) -> bool:
        """Whether a Lease without a holder may be taken without waiting: it was given back, never held, or is still ours.

        Otherwise somebody may have blanked the name of a leader that works on.
        """
        given_back = spec.lease_duration_seconds is not None and spec.lease_duration_seconds <= GIVEN_BACK
        never_held = spec.renew_time is None and not self._seen_held
        return given_back or never_held or self._fence.open  # an open fence: the leader that works on is us

    def _vanished(self) -> bool:
        """Whether a Lease that we saw was deleted so recently that its holder may not have noticed yet."""
        return self._seen is not None and not self._fence.open and not self._silent_for("", self._timing.duration)

    def _silent_for(self, resource_version: str, seconds: float) -> bool:
        """Whether the Lease has been as it is for so long, as far as we know."""
        now = self._clock.boottime()
        if self._seen is None or self._seen.resource_version != resource_version:
            self._seen = _Sighting(resource_version, now + seconds)
        return now >= self._seen.expires

    def _manifest(self) -> dict[str, Any]:
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec() | {"acquireTime": self._now(), "leaseTransitions": 0},
        }

    def _claim(self, lease: LeaseView) -> dict[str, Any]:
        """The patch that makes it ours, unless anybody has written it since."""
        spec = self._spec()
        if lease.spec.holder_identity != self._identity:
            spec |= {"acquireTime": self._now(), "leaseTransitions": (lease.spec.lease_transitions or 0) + 1}
        return {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}

    def _spec(self) -> dict[str, Any]:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._timing.duration),
            "renewTime": self._now(),
        }

    def _now(self) -> str:
        """The wall clock as a metav1.MicroTime: for people, nobody decides by it."""
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    async def _release(self) -> None:
        """Give the Lease back, so that another need not wait until it expires."""
        self._fence.close()
        lease, self._held = self._held, None
        if lease is None:
            return
        body = {
            "metadata": {"resourceVersion": lease.metadata.resource_version},
            "spec": {"holderIdentity": "", "leaseDurationSeconds": GIVEN_BACK, "renewTime": self._now()},
        }
        try:
            async with asyncio.timeout(RELEASE_PATIENCE):
                await self._client.merge_patch(LEASES, self._namespace, self._name, body)
        except (KubernetesError, TimeoutError) as error:
            self._log.warning("the Lease could not be given back; it will expire", error=str(error) or "timed out")
        else:
            self._log.info("leadership given back")

    def _say(self, what: str, *, fresh: bool = False, **details: object) -> None:
        """Log a state of things once."""
        said = f"{what} {details}"
        if fresh or said != self._said:
            self._log.info(what, **details)
        self._said = said


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, but not longer than that; whether it is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
