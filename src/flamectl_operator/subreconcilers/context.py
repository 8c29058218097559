"""What a step gets to work with in a pass over one FlameCluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flamectl_operator.api.constants import API_VERSION, KIND
from flamectl_operator.desired import names
from flamectl_operator.kube.errors import LockLostError
from flamectl_operator.kube.events import ObjectReference
from flamectl_operator.observed.cluster import ObservedCluster, Views
from flamectl_operator.runtime.moment import Moment
from flamectl_operator.runtime.outcome import wait

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from flamectl_operator.api.flamecluster import LockOptions
    from flamectl_operator.api.status import FlameClusterStatus
    from flamectl_operator.decisions.health import Issue
    from flamectl_operator.decisions.hold import Hold
    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.desired.cluster import DesiredCluster
    from flamectl_operator.desired.metadata import Identity
    from flamectl_operator.kube.client import Client
    from flamectl_operator.kube.events import EventRecorder
    from flamectl_operator.kube.views import FlameClusterView
    from flamectl_operator.runtime.clock import Clock
    from flamectl_operator.runtime.outcome import Outcome
    from flamectl_operator.settings import OperatorConfig
    from flamectl_operator.subreconcilers.memory import Memory
    from flamectl_operator.subreconcilers.stores import Stores

#: For how long a batch of requests goes on before the rest is left to the next pass, in seconds: while it lasts, the status is
#: not written, and nothing is done about what happens meanwhile.
TURN = 10.0


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
        crowded_out: Whether a quota had no room for the session manager.
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
    crowded_out: bool = False
    lock_put_off: Outcome | None = None
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
    def generation(self) -> int:
        """`metadata.generation` of the FlameCluster that the pass is about."""
        return self.cluster.metadata.generation

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

    @property
    def lock_denied(self) -> bool:
        """Whether the spec keeps the lock from this operator."""
        return self.lock_identity in self.lock_options.deny_list

    def check_lock(self) -> None:
        """Be the guard of a request that deletes a Pod: it is called right before that is sent.

        Raises:
            LockLostError: This operator does not hold the lock (any more).
        """
        if self.lock_options.disabled:
            return
        grip = self.memory.lock.grip
        if grip is None or self.lock_denied or not grip.informed or self.clock.boottime() >= grip.until:
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
