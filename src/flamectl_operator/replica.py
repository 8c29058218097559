"""One of the processes of an operator: it works, or it waits until it is its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.kube.credentials import own_namespace
from flamectl_operator.kube.errors import ConfigurationError
from flamectl_operator.kube.leader_election import Fence, LeaderElector, LeaseTiming
from flamectl_operator.operator import Operator
from flamectl_operator.runtime.observer import UNOBSERVED

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from random import Random

    from flamectl_operator.kube.client import Client
    from flamectl_operator.kube.events import EventKind, ObjectReference
    from flamectl_operator.kube.transport import Guard
    from flamectl_operator.runtime.clock import Clock
    from flamectl_operator.runtime.observer import Observer
    from flamectl_operator.settings import LeaderElectionSettings, OperatorConfig


class Replica:
    """An operator that works while it leads, or always where there is no election.

    Each term of leadership is an operator of its own, which begins with nothing and lists everything. So its view has all that
    another operator did in the meantime, and nothing that is left of an earlier term and out of date.

    Args:
        client: Makes the client of one term, whose writes are guarded.
        lease_client: For the Lease. It must not retry, nor wait behind the requests of the work, and must give up on a
            request well before the renew deadline.
        config: The settings to begin with.
        clock: The time.
        random: Where jitter and names come from.
        host: Who it says it is.
        observer: Hears what it does.

    Raises:
        ConfigurationError: There is an election, but no telling where its Lease is.
    """

    def __init__(
        self,
        client: Callable[[Guard | None], Client],
        lease_client: Client,
        config: OperatorConfig,
        clock: Clock,
        random: Random,
        host: str,
        observer: Observer = UNOBSERVED,
    ) -> None:
        self._client = client
        self._config = config
        self._clock = clock
        self._random = random
        self._host = host
        self._observer = observer
        self._fence = Fence(clock)
        self._elector = self._election(lease_client) if config.leader_election.leader_elect else None
        self._operator: Operator | None = None  # the one of this term

    async def run(self, stop: asyncio.Event) -> None:
        """Work, or wait for one's turn, until asked to stop.

        Args:
            stop: Set by whoever wants it to stop.

        Raises:
            TaskDiedError: A part of the operator failed for good; the process should end and be started again.
        """
        if self._elector is None:
            await self._term(None, stop)
        else:
            await self._elector.run(lambda: self._term(self._fence.check, stop), stop)

    def reconfigure(self, config: OperatorConfig) -> None:
        """Goes on with other settings, in this term and in those to come.

        Args:
            config: The settings. Those that are marked `AtStart` must be as they were.
        """
        self._config = config
        if self._operator is not None:
            self._operator.reconfigure(config)

    def tell(self, about: ObjectReference, kind: EventKind, reason: str, message: str) -> None:
        """Records an event about something that all replicas see; the one that works tells it."""
        if self._operator is not None:
            self._operator.events.event(about, kind, reason, message)

    @property
    def operator(self) -> Operator | None:
        """The operator of this term; None while it waits for its turn, or has not started."""
        return self._operator

    @property
    def leading(self) -> bool:
        """Whether it holds the Lease; never without an election."""
        return self._fence.open

    @property
    def standing_by(self) -> bool:
        """Whether another holds the Lease, as far as is known, and it could take over."""
        return self._elector is not None and self._elector.standing_by and not self.leading

    @property
    def last_attempt(self) -> float | None:
        """The clock's monotonic seconds at which it last tried to take or to renew the Lease; None without an election."""
        return None if self._elector is None else self._elector.last_attempt

    async def _term(self, guard: Guard | None, stop: asyncio.Event) -> None:
        client = self._client(guard)
        identity = lock_identity(self._config, self._host, own_namespace())
        self._operator = Operator(client, self._config, self._clock, self._random, self._host, identity, self._observer)
        try:
            await self._operator.run(stop)
        finally:
            self._operator = None

    def _election(self, client: Client) -> LeaderElector:
        settings = self._config.leader_election
        return LeaderElector(
            client,
            self._fence,
            f"{self._host}_{self._random.getrandbits(64):016x}",
            namespace=_namespace(settings),
            name=settings.resource_name,
            timing=LeaseTiming(
                settings.lease_duration_seconds, settings.renew_deadline_seconds, settings.retry_period_seconds
            ),
            clock=self._clock,
            random=self._random,
        )


def lock_identity(config: OperatorConfig, host: str, namespace: str | None) -> str:
    """Who a deployment of the operator is in Leases of FlameClusters.

    All replicas of a deployment have the same identity, and keep it over a restart: a new process goes on with the lock that an
    earlier one held. The identity is the name of the Lease of the election, of which each deployment has its own.

    Args:
        config: The settings.
        host: The name of this machine, for a process that runs outside of a cluster.
        namespace: Where it runs; None outside of a cluster.
    """
    election = config.leader_election
    namespace = election.resource_namespace or namespace
    derived = f"{namespace}/{election.resource_name}" if namespace else host
    return config.controller.lock_identity or derived


def _namespace(settings: LeaderElectionSettings) -> str:
    """Where the Lease is."""
    namespace = settings.resource_namespace or own_namespace()
    if namespace is None:
        raise ConfigurationError(
            "leaderElection.resourceNamespace: must be set where the operator does not run in a cluster"
        )
    return namespace
