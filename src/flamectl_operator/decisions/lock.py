"""Whether this operator may delete Pods of a FlameCluster that another operator may see as well. After FoundationDB's locks.

A Lease says who may. The holder counts its time from when it *sent* the request that took or extended the lock, and stops
well before the end; the others count from when they first *saw* the Lease as it is, which is later. Nobody compares clocks
of two machines. All times here are of the clock's `boottime`, which goes on while a process or its machine stands still.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flamectl_operator.api.flamecluster import LockOptions
    from flamectl_operator.decisions.intent import Intent
    from flamectl_operator.kube.views import LeaseView
    from flamectl_operator.observed.cluster import ObservedCluster

#: Parts of the lock's duration. After the first the holder extends it before it goes on deleting; after the second it
#: deletes nothing more. The rest is for requests on their way and clocks that run at different speeds.
EXTEND_AFTER = 0.5
DELETE_UNTIL = 0.75


@dataclass(frozen=True)
class Grip:
    """What this process has of the lock.

    Args:
        lease: The Lease as this process last wrote it.
        extend_at: From then on it is extended before more is deleted.
        until: From then on nothing more is deleted.
        informed: Whether the FlameCluster and its Pods were read after this process took the lock. Only then may it delete.
    """

    lease: LeaseView
    extend_at: float
    until: float
    informed: bool

    @classmethod
    def taken(cls, lease: LeaseView, sent: float, duration: float, *, informed: bool) -> Grip:
        """The lock is taken or extended.

        Args:
            lease: The answer.
            sent: When the request was sent, at the latest.
            duration: Seconds for which the lock holds.
            informed: See the class.
        """
        return cls(lease, sent + duration * EXTEND_AFTER, sent + duration * DELETE_UNTIL, informed)

    @classmethod
    def given_back(cls, lease: LeaseView) -> Grip:
        """The lock is given back.

        The Lease is remembered, so that the lock can be taken again without reading it first. The FlameCluster and its Pods have
        to be read again all the same: what needs no lock others go on doing, such as to call a suspension finished.
        """
        return cls(lease, float("-inf"), float("-inf"), informed=False)

    @property
    def held(self) -> bool:
        """Whether the Lease says that the lock is ours, be it expired."""
        return bool(self.lease.spec.holder_identity)


@dataclass(frozen=True)
class Sighting:
    """A Lease as this process found it.

    Args:
        version: Its resourceVersion.
        holder: Who holds it; empty when nobody does.
        until: When it will have been as it is for so long that its holder has lost it.
    """

    version: str
    holder: str
    until: float


@dataclass(frozen=True)
class Free:
    """The lock can be taken: nobody else holds it, or its holder does not count any more."""


@dataclass(frozen=True)
class Held:
    """Another operator holds the lock.

    Args:
        by: Its lock identity.
        until: When it loses the lock, if it gives no sign.
    """

    by: str
    until: float


@dataclass(frozen=True)
class Denied:
    """This operator is on the deny list."""


@dataclass(frozen=True)
class Foreign:
    """The Lease of that name is not this FlameCluster's.

    Args:
        lease: The Lease.
    """

    lease: LeaseView


Verdict = Free | Held | Denied | Foreign


def sight(lease: LeaseView | None, before: Sighting | None, now: float, duration: float) -> Sighting | None:
    """Keeps in mind since when a Lease is as it is.

    A Lease that is gone changes nothing: somebody has deleted it, which its holder need not have noticed yet.

    Args:
        lease: The Lease as it is now; None when it is not there.
        before: What was kept in mind until now.
        now: The time.
        duration: Seconds for which a lock holds whose Lease does not say.
    """
    if lease is None or (before is not None and before.version == lease.metadata.resource_version):
        return before
    lasts = lease.spec.lease_duration_seconds or duration
    return Sighting(lease.metadata.resource_version, lease.spec.holder_identity or "", now + lasts)


def judge_lock(
    lease: LeaseView | None, sighting: Sighting | None, owner: str, options: LockOptions, me: str, now: float
) -> Verdict:
    """Whether the lock can be had.

    Args:
        lease: The Lease as it is now; None when it is not there.
        sighting: Since when it is so.
        owner: uid of the FlameCluster.
        options: What its spec says about the lock.
        me: The lock identity of this operator.
        now: The time.
    """
    if me in options.deny_list:
        return Denied()
    if lease is not None and not lease.controlled_by(owner):
        return Foreign(lease)
    if sighting is None or sighting.holder in {"", me} or sighting.holder in options.deny_list:
        return Free()
    return Free() if now >= sighting.until else Held(sighting.holder, sighting.until)


def disruption_ahead(observed: ObservedCluster, intent: Intent) -> bool:
    """Whether Pods are still to be deleted, now or as soon as the update strategy allows it: then the lock is kept.

    While it is kept it is not extended, unless something is deleted. So a rollout that is stuck keeps nobody else away for
    long.
    """
    if intent.suspended:
        return any(not component.terminating for component in observed.components)
    if intent.session_manager_to_replace(observed):
        return True
    executors = observed.live_executors
    if len(executors) > intent.replicas:
        return True
    lost = any(executor.started and not observed.follows(executor) for executor in executors)
    return lost or (intent.update_strategy.type != "OnDelete" and any(map(intent.stale, executors)))
