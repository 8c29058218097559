"""What a subreconciler is, and what it gets to work with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from flamectl_operator.api.constants import API_VERSION, KIND, PLURAL
from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.decisions.contradiction import Voice
from flamectl_operator.desired import names
from flamectl_operator.kube.errors import (
    BadRequestError,
    ForbiddenError,
    InvalidError,
    KubernetesError,
    LockLostError,
)
from flamectl_operator.kube.events import ObjectReference
from flamectl_operator.kube.resources import Resource
from flamectl_operator.kube.views import FlameClusterView
from flamectl_operator.observed.cluster import ObservedCluster, Views
from flamectl_operator.runtime.moment import Moment
from flamectl_operator.runtime.outcome import Outcome, blocked, wait

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from flamectl_operator.api.flamecluster import LockOptions
    from flamectl_operator.decisions.executors import Hold
    from flamectl_operator.decisions.health import Issue
    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.decisions.lock import Grip, Sighting
    from flamectl_operator.desired.cluster import DesiredCluster
    from flamectl_operator.desired.metadata import Identity
    from flamectl_operator.kube.client import Client
    from flamectl_operator.kube.errors import ApiError
    from flamectl_operator.kube.events import EventRecorder
    from flamectl_operator.kube.store import Store
    from flamectl_operator.kube.views import ConfigMapView, PodView, ServiceView
    from flamectl_operator.runtime.clock import Clock
    from flamectl_operator.settings import FlameSettings, OperatorConfig
    from flamectl_operator.subreconcilers.failing import Failing

FLAME_CLUSTERS: Resource[FlameClusterView] = Resource(API_VERSION, KIND, PLURAL, FlameClusterView)


#: For how long a batch of requests goes on before the rest is left to the next pass, in seconds: while it lasts, the status is
#: not written, and nothing is done about what happens meanwhile.
TURN = 10.0


class Subreconciler(Protocol):
    """One idempotent step of a pass.

    It compares what should exist with what is there, does what its name says, and leaves early when there is nothing to do. It
    never relies on having run before, nor on any event having been seen.
    """

    @property
    def name(self) -> str:
        """As it is called in logs and documentation."""

    async def reconcile(self, context: Context) -> Outcome:
        """Does the step.

        Args:
            context: All it needs.

        Returns:
            DONE, or what is waited for, or that the pass ends here.

        Raises:
            RefusedError: The API server will not have what is asked for; the status shows its words.
            KubernetesError: Anything else that went wrong; it is retried.
        """


#: The reason of a refusal for want of room in a ResourceQuota.
QUOTA_EXCEEDED = "QuotaExceeded"


class RefusedError(Exception):
    """The API server refuses a write that will not succeed until somebody changes something.

    Args:
        reason: One CamelCase word for the `Degraded` condition.
        message: The server's own words.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @classmethod
    def of(cls, error: ApiError) -> RefusedError:
        """From the API server's answer."""
        if isinstance(error, ForbiddenError):
            return cls(QUOTA_EXCEEDED if error.quota else "Forbidden", str(error))
        return cls("Rejected", str(error))


#: Answers that do not change by themselves.
REFUSALS = (ForbiddenError, InvalidError, BadRequestError)


async def in_turn(*works: Callable[[], Awaitable[Outcome]]) -> list[Outcome]:
    """Does several things one after the other, each whatever became of those before it.

    Raises:
        RefusedError: One of them was refused.
        KubernetesError: One of them failed in another way.
    """
    outcomes: list[Outcome] = []
    errors: list[Exception] = []
    for work in works:
        try:
            outcomes.append(await work())
        except (RefusedError, KubernetesError) as error:
            errors.append(error)
    if errors:
        raise foremost(errors)
    return outcomes


def foremost(errors: Sequence[Exception]) -> Exception:
    """The one of several errors that a step ends in: the first refusal, which somebody has to be told of, else the first."""
    return next((error for error in errors if isinstance(error, RefusedError)), errors[0])


def no_ids_left() -> Outcome:
    """No executor can be made any more."""
    return blocked(
        "IdsExhausted",
        f"executors cannot be made, for the highest number, {names.MAX_ID}, is taken: somebody gave it to a Pod, or wrote into"
        " status.executorManager.nextId; delete such a Pod, and make the FlameCluster anew",
    )


def next_turn() -> Outcome:
    """A batch of requests has had its turn: the next pass, which follows at once, does the rest."""
    return wait("NextTurn", "", 0)


@dataclass(frozen=True)
class Stores:
    """What is known of the cluster, kept current by watches and by our own writes."""

    flame_clusters: Store[FlameClusterView]
    pods: Store[PodView]
    services: Store[ServiceView]
    config_maps: Store[ConfigMapView]


@dataclass(frozen=True)
class Plan:
    """What a generation of a FlameCluster asks for under some settings: the same for every pass over it.

    Args:
        generation: `metadata.generation`.
        settings: The operator's settings for Flame.
        desired: What should exist; None when the spec is invalid.
        problem: What is wrong with the spec; empty when nothing is.
    """

    generation: int
    settings: FlameSettings
    desired: DesiredCluster | None
    problem: str = ""

    def holds_for(self, generation: int, settings: FlameSettings) -> bool:
        """Whether it would be the same if it were made again."""
        return self.generation == generation and (self.settings is settings or self.settings == settings)


@dataclass
class LockMemory:
    """What a process remembers of the lock of a FlameCluster.

    A process that knows nothing of it reads the Lease when it has something to delete. One that ended while it held the lock
    leaves it to its successor under the same lock identity, or to expire.

    Args:
        grip: What it has of the lock itself; None when it is not certain.
        sighting: The Lease as it was when it was looked at.
        look_again: When it may be looked at again, by the clock's `boottime`.
        claimed_for: The generation of the FlameCluster for which the Lease was last written.
        said: What the status says about the lock by our doing, with the generation; nothing when it is empty.
        hushed: The generation in which another operator took that back.
    """

    grip: Grip | None = None
    sighting: Sighting | None = None
    look_again: float = float("-inf")
    claimed_for: int = 0
    said: tuple[int, str] = (0, "")
    hushed: int = 0


@dataclass(frozen=True)
class Mislabelled:
    """Executors that were made without the labels they are known by.

    Args:
        rendered: Hash of their template.
        message: What is told of it.
        next_trial: When one may be made again to see whether the labels stay, where no dry run tells; by the clock's `monotonic`.
    """

    rendered: str
    message: str
    next_trial: float


@dataclass
class Memory:
    """What a process remembers of a FlameCluster from one pass to the next, and may forget without harm.

    Args:
        uid: Of the FlameCluster.
        reserved_ids: Executor ids that the status says are taken and that are not used yet. After a restart they are burnt.
        plan: What the last generation that was seen asks for.
        accepted: Hashes of Pod templates that the API server has said it would accept.
        mislabelled: Executors that were made without the labels they are known by.
        observed: The last snapshot of the children.
        status: The last status that was read or written, as JSON data and as what it means.
        unsettled: Names of Pods of which nobody knows what became: a request was to make or delete them, or a list lacks them,
            or they were not what was to be deleted.
        lock: The lock.
        voice: What it said in the status.
        pruned: A status that could not be stored whole, and what was stored of it.
        unknown: Paths of fields that the installed CRD does not know, as writes have shown.
        outdated_crd: Whether there are promises among them.
        next_id: The high-water mark of executor ids, should the status lose it.
        failing: Requests that fail in pass after pass.
        creates_at_once: How many executors are made at first, to see whether that works: more when it did in the pass before,
            which had no time for all of them.
    """

    uid: str
    reserved_ids: list[int] = field(default_factory=list)
    plan: Plan | None = None
    accepted: set[str] = field(default_factory=set)
    mislabelled: Mislabelled | None = None
    observed: ObservedCluster | None = None
    status: tuple[dict[str, Any], FlameClusterStatus] | None = None
    unsettled: set[str] = field(default_factory=set)
    lock: LockMemory = field(default_factory=LockMemory)
    voice: Voice = field(default_factory=Voice)
    pruned: tuple[dict[str, Any], dict[str, Any]] | None = None
    unknown: frozenset[str] = frozenset()
    outdated_crd: bool = False
    next_id: int = 0
    failing: Failing | None = None
    creates_at_once: int = 1

    def read(self, wire: dict[str, Any]) -> FlameClusterStatus:
        """What a status means, worked out anew only when it says something else than the last one."""
        if self.status is None or self.status[0] != wire:
            self.status = (wire, FlameClusterStatus.from_wire(wire))
        return self.status[1]


@dataclass
class Context:
    """What a pass over one FlameCluster works with.

    Args:
        cluster: The FlameCluster as the store had it when the pass began, or as we last wrote it.
        owner: Who it is.
        desired: What should exist; None when the spec is invalid.
        problem: What is wrong with the spec; empty when nothing is.
        status: The status as it was last stored.
        lock_identity: Who this operator is in Leases of FlameClusters.
        intent: What is wanted right now; set by the opening UpdateStatus.
        issues: What the steps so far reported.
        interrupted: Whether a request failed, so that the steps need not have found out all that there is to report.
        lock_hold: Why the lock cannot be had in this pass, as far as is known.
        writes: How many requests that change something the pass has sent.
        conflicts: How many of them found that the object had changed since it was looked at.
    """

    cluster: FlameClusterView
    owner: Identity
    desired: DesiredCluster | None
    problem: str
    status: FlameClusterStatus
    stores: Stores
    client: Client
    clock: Clock
    events: EventRecorder
    config: OperatorConfig
    memory: Memory
    lock_identity: str
    intent: Intent | None = None
    issues: list[Issue] = field(default_factory=list)
    interrupted: bool = False
    lock_hold: Outcome | None = None
    writes: int = 0
    conflicts: int = 0

    def __post_init__(self) -> None:
        """Notes when the pass begins."""
        self.begun = self.clock.now()

    def observe(self) -> ObservedCluster:
        """A snapshot of the children, our own writes of this pass included."""
        owner, stores = self.owner, self.stores
        service_names = (names.session_manager(owner.name), names.object_cache(owner.name))
        found = (stores.services.get(owner.namespace, name) for name in service_names)
        views = Views(
            config_map=stores.config_maps.get(owner.namespace, names.config_map(owner.name)),
            services=tuple(service for service in found if service is not None),
            labelled_pods=stores.pods.by_index(owner.key),
        )
        self.memory.observed = ObservedCluster.of(owner, views, self.clock.boottime(), self.memory.observed)
        return self.memory.observed

    def wanted(self) -> Intent:
        """What is wanted right now.

        Raises:
            RuntimeError: The opening UpdateStatus has not run or has stopped the pass.
        """
        if self.intent is None:
            raise RuntimeError("the opening UpdateStatus must come before every other subreconciler")
        return self.intent

    @property
    def next_executor_name(self) -> str:
        """A name that no executor has had, as long as there is one, for a rehearsal."""
        return names.executor(self.owner.name, min(self.memory.next_id, names.MAX_ID))

    @property
    def overtaken(self) -> bool:
        """Whether it is known by now that the FlameCluster asks for something else, or is gone."""
        newest, metadata = self.stores.flame_clusters.get(*self.owner.key), self.cluster.metadata
        return newest is None or (newest.uid, newest.metadata.generation) != (metadata.uid, metadata.generation)

    @property
    def ids_left(self) -> bool:
        """Whether there are ids for executors that are made anew."""
        return bool(self.memory.reserved_ids) or self.memory.next_id <= names.MAX_ID

    def turn(self) -> Callable[[], bool]:
        """Begins a batch of requests; the answer tells whether it may still go on."""
        end = self.clock.monotonic() + TURN
        return lambda: self.clock.monotonic() < end

    @property
    def lock_options(self) -> LockOptions:
        """What the spec says about the lock."""
        return self.wanted().desired.spec.lock_options

    def check_lock(self) -> None:
        """Be the guard of a request that deletes a Pod: it is called right before that is sent.

        Raises:
            LockLostError: This operator does not hold the lock (any more).
        """
        if self.lock_options.disabled:
            return
        grip, denied = self.memory.lock.grip, self.lock_identity in self.lock_options.deny_list
        if grip is None or denied or not grip.informed or self.clock.boottime() >= grip.until:
            raise LockLostError("not sent: the lock on this FlameCluster's Pods is not held (any more)")

    def waiting(self, hold: Hold) -> Outcome:
        """The outcome that puts something off."""
        return wait(hold.reason, hold.message, self.delay(hold.until))

    def moment(self) -> Moment:
        """Now."""
        return Moment(self.clock.now(), self.clock.boottime())

    def delay(self, until: datetime | None) -> float | None:
        """Seconds until then; None when an event will tell."""
        return None if until is None else max(0.0, (until - self.clock.now()).total_seconds())

    @property
    def about(self) -> ObjectReference:
        """The FlameCluster, as events refer to it."""
        return ObjectReference(API_VERSION, KIND, self.owner.namespace, self.owner.name, self.owner.uid)

    def normal(self, reason: str, message: str) -> None:
        """Records an event about something the operator did."""
        self.events.event(self.about, "Normal", reason, message)
