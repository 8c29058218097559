"""What a process remembers of a FlameCluster from one pass to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.decisions.contradiction import Voice

if TYPE_CHECKING:
    from flamectl_operator.decisions.failing import Failing
    from flamectl_operator.decisions.lock import Grip, Sighting
    from flamectl_operator.desired.cluster import DesiredCluster
    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.settings import FlameSettings


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
        said: The generation and the message about the lock that this process last put into the status; no message if none.
        hushed: The generation in which another operator wrote over that message. It is not repeated there.
    """

    grip: Grip | None = None
    sighting: Sighting | None = None
    look_again: float = float("-inf")
    claimed_for: int = 0
    said: tuple[int, str] = (0, "")
    hushed: int = 0


@dataclass(frozen=True)
class Altered:
    """Pods of a template are made without something that they are known by.

    Args:
        reason: One CamelCase word for the `Degraded` condition.
        message: What is told of it.
        next_trial: When one may be made again to see whether it is kept, where no dry run tells; by the clock's `monotonic`.
    """

    reason: str
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
        altered: Hashes of Pod templates whose Pods lost something on their way through admission.
        observed: The last snapshot of the children.
        status: The last status that was read or written, as JSON data and as what it means.
        unsettled: Names of Pods of which nobody knows what became: a request was to make or delete them, or a list lacks them,
            or they were not what was to be deleted.
        lock: The lock.
        voice: What it said in the status.
        pruned: A status that could not be stored whole, and what was stored of it.
        unknown: Fields of the status that the installed CRD dropped from what was written.
        outdated_crd: Whether a field that must be stored before it is acted on is among them.
        next_id: The high-water mark of executor ids, should the status lose it.
        failing: Requests that fail in pass after pass.
        creates_at_once: How many executors are made at first, to see whether that works: more when it did in the pass before,
            which had no time for all of them.
    """

    uid: str
    reserved_ids: list[int] = field(default_factory=list)
    plan: Plan | None = None
    accepted: set[str] = field(default_factory=set)
    altered: dict[str, Altered] = field(default_factory=dict)
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
