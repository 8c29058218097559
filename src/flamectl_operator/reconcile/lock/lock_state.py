"""The deletion lock: only one of several operators may delete Pods and PersistentVolumeClaims of a FlameCluster.

It is modelled on FoundationDB's locks. A Lease records the holder. The holder counts its time from when it *sent* the request
that acquired or extended the lock, and stops well before the end. The others count from when they first *saw* the present
Lease, which is later. Clocks of two machines are never compared. All times here are `boottime`, which also runs while a process
or its machine is stopped.
"""

from dataclasses import dataclass

from flamectl_operator.api.flamecluster import LockOptions
from flamectl_operator.kube.lease import ObservedLease, observe
from flamectl_operator.kube.views import LeaseView
from flamectl_operator.settings.model import MAX_LOCK_DURATION

#: Shares of the lock's duration. After the first share the holder extends the lock before it continues to delete; after the
#: second it stops deleting. The rest is for requests in flight and for clocks that run at different speeds.
EXTEND_AFTER = 0.5
DELETE_UNTIL = 0.75


@dataclass(frozen=True)
class HeldLease:
    """The lock as this process holds it.

    Args:
        extend_at: The time from which the lock is extended before the next deletion.
        until: The time from which this process deletes nothing more.
        view_is_new: Whether the FlameCluster and its Pods were read after this process took the lock. Only then may it delete.
    """

    lease: LeaseView
    extend_at: float
    until: float
    view_is_new: bool

    @classmethod
    def taken(cls, lease: LeaseView, sent: float, duration: float, *, view_is_new: bool) -> "HeldLease":
        """Return the state after a request, not earlier than `sent`, acquired or extended the lock for `duration` seconds."""
        return cls(lease, sent + duration * EXTEND_AFTER, sent + duration * DELETE_UNTIL, view_is_new)

    @classmethod
    def given_back(cls, lease: LeaseView) -> "HeldLease":
        """Return the state after the lock was released.

        The Lease is kept, so that the lock can be acquired again without a read. The FlameCluster and its Pods must be read
        again, because other operators continue with work that needs no lock, such as finishing a suspension.
        """
        return cls(lease, float("-inf"), float("-inf"), view_is_new=False)

    @property
    def names_us(self) -> bool:
        """Whether the Lease names this operator, even if the lock has expired."""
        return bool(self.lease.spec.holder_identity)


@dataclass(frozen=True)
class HeldByOther:
    """Another operator holds the lock until a time, unless it extends it."""

    by: str
    until: float


@dataclass(frozen=True)
class Foreign:
    """The Lease of that name does not belong to this FlameCluster."""

    lease: LeaseView


def observe_lease(
    lease: LeaseView | None, before: ObservedLease | None, now: float, duration: float
) -> ObservedLease | None:
    """Record since when a Lease has had its present content; the holder of a deleted one may not have noticed the deletion.

    A Lease that gives no sensible duration lasts `duration` seconds.
    """
    return before if lease is None else observe(lease, before, now, default=duration, longest=MAX_LOCK_DURATION)


def check_lease(
    lease: LeaseView | None, observed_lease: ObservedLease | None, owner: str, options: LockOptions, me: str, now: float
) -> HeldByOther | Foreign | None:
    """Return why the lock cannot be acquired; None if it has no holder, or its holder has lost it."""
    if lease is not None and not lease.controlled_by(owner):
        return Foreign(lease)
    if observed_lease is None or observed_lease.holder in {"", me} or observed_lease.holder in options.deny_list:
        return None
    return None if now >= observed_lease.until else HeldByOther(observed_lease.holder, observed_lease.until)
