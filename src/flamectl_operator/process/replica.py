"""One replica of the operator, which works or stands by."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flamectl_operator.kube.client import Client
from flamectl_operator.kube.errors import ConfigurationError
from flamectl_operator.kube.events import ObjectReference
from flamectl_operator.kube.http.credentials import own_namespace
from flamectl_operator.kube.http.request import Guard
from flamectl_operator.kube.leader_election import Candidate, ContendedLease, Fence, LeaderElector
from flamectl_operator.kube.views import EventKind
from flamectl_operator.operator import Environment, Operator
from flamectl_operator.reconcile.spec_renderer import SpecRenderer
from flamectl_operator.settings.model import LeaderElectionSettings, OperatorConfig

#: Set by the Deployment from the downward API.
POD_UID = "POD_UID"
#: The first process of a container. When it ends, the kernel ends all others, see pid_namespaces(7).
_FIRST = 1


@dataclass(frozen=True, slots=True)
class Host:
    """The host of a process, and the uid of its Pod if every earlier process with this uid is dead."""

    name: str
    pod_uid: str = ""


def restarted_pod_uid(environment: Mapping[str, str], pid: int) -> str:
    """Return the uid of the Pod if this is the first process of its container; else an empty string.

    A kubelet never runs two containers of one name in one Pod at a time. So a first process that finds its Pod's uid in the name
    of another process knows that the other process is dead. A process started with `kubectl exec` cannot know that.
    """
    return environment.get(POD_UID, "") if pid == _FIRST else ""


class Replica:
    """Runs the operator while it leads, or always without leader election.

    Each term of leadership has a new operator, which starts empty and lists everything. So its view contains the changes of other
    operators in the meantime, and nothing outdated from an earlier term. Only cached specs are kept, because they depend only on
    a generation of the spec and the settings.

    Args:
        client: Returns the client of one term, whose writes are guarded.
        lease_client: The client for the Lease. It must not retry or wait behind the requests of the work, and must time out well
            before the renew deadline.

    Raises:
        ConfigurationError: Leader election is on, but the namespace of its Lease is unknown.
    """

    def __init__(
        self,
        client: Callable[[Guard | None], Client],
        lease_client: Client,
        config: OperatorConfig,
        environment: Environment,
        host: Host,
    ) -> None:
        self._client = client
        self._config = config
        self._environment = environment
        self._host = host.name
        self._fence = Fence(environment.clock)
        predecessors = f"{host.name}_{host.pod_uid}_" if host.pod_uid else ""
        self.candidate = Candidate(
            f"{predecessors or f'{host.name}_'}{environment.random.getrandbits(64):016x}", predecessors
        )
        self._elector = self._election(lease_client) if config.leader_election.leader_elect else None
        self._renderer = SpecRenderer(own_namespace() or "")
        #: The operator of this term; None while it stands by or has not started.
        self.operator: Operator | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Work or stand by until asked to stop; raise TaskDiedError when a part of the operator failed for good."""
        if self._elector is None:
            await self._term(None, stop)
        else:
            await self._elector.run(lambda: self._term(self._fence.check, stop), stop)

    def reconfigure(self, config: OperatorConfig) -> None:
        """Apply other settings, with those marked `AtStart` unchanged, in this term and in later ones."""
        self._config = config
        if self.operator is not None:
            self.operator.reconfigure(config)

    def clock_jumped(self) -> None:
        """Plan every wait again, because its end is a time of a clock that has jumped."""
        if self.operator is not None:
            self.operator.clock_jumped()

    def record_event(self, about: ObjectReference, kind: EventKind, reason: str, message: str) -> None:
        """Record an event about a fact that all replicas see; only the leading replica writes it."""
        if self.operator is not None:
            self.operator.events.event(about, kind, reason, message)

    @property
    def leading(self) -> bool:
        """Whether it holds the Lease; False without leader election."""
        return self._fence.open

    @property
    def standing_by(self) -> bool:
        """Whether another process holds the Lease, as far as known, so that it could take over."""
        return self._elector is not None and self._elector.standing_by and not self.leading

    @property
    def last_attempt(self) -> float | None:
        """The monotonic time of the last attempt to acquire or renew the Lease; None without leader election."""
        return None if self._elector is None else self._elector.last_attempt

    async def _term(self, guard: Guard | None, stop: asyncio.Event) -> None:
        client = self._client(guard)
        identity = lock_identity(self._config, self._host, own_namespace())
        self.operator = Operator(client, self._config, self._environment, self._host, identity, self._renderer)
        try:
            await self.operator.run(stop)
        finally:
            self.operator = None

    def _election(self, client: Client) -> LeaderElector:
        settings = self._config.leader_election
        return LeaderElector(
            client,
            self._fence,
            self.candidate,
            ContendedLease(
                _namespace(settings),
                settings.resource_name,
                settings.lease_duration_seconds,
                settings.renew_deadline_seconds,
                settings.retry_period_seconds,
            ),
            self._environment.clock,
            self._environment.random,
        )


def lock_identity(config: OperatorConfig, host: str, namespace: str | None) -> str:
    """Return the identity of this deployment of the operator in the Leases of deletion locks.

    All replicas of a deployment have the same identity and keep it over a restart, so a new process continues with the lock of an
    earlier one. It is the name of the Lease for leader election, because each deployment has its own; outside a cluster, the
    host.
    """
    election = config.leader_election
    namespace = election.resource_namespace or namespace
    derived = f"{namespace}/{election.resource_name}" if namespace else host
    return config.controller.lock_identity or derived


def _namespace(settings: LeaderElectionSettings) -> str:
    namespace = settings.resource_namespace or own_namespace()
    if namespace is None:
        raise ConfigurationError(
            "leaderElection.resourceNamespace: must be set where the operator does not run in a cluster"
        )
    return namespace
