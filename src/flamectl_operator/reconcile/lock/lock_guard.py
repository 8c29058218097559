"""The check right before a deletion is sent that this process holds the deletion lock."""

from flamectl_operator.api.flamecluster import LockOptions
from flamectl_operator.kube.errors import LockLostError
from flamectl_operator.reconcile.lock.lock_state import HeldLease
from flamectl_operator.runtime.clock import Clock


class LockGuard:
    """Whether this process may delete. All processes of a deployment have the same lock identity."""

    def __init__(self, identity: str, clock: Clock) -> None:
        self.identity = identity
        self._clock = clock
        self.options = LockOptions()
        #: The Lease as this process last wrote it; None while it does not hold the lock, or does not know.
        self.held: HeldLease | None = None

    @property
    def denied(self) -> bool:
        """Whether the spec denies this operator the lock."""
        return self.identity in self.options.deny_list

    def check(self) -> None:
        """Raise LockLostError unless this operator holds the lock, right before the deletion of a Pod or a claim is sent."""
        if self.options.disabled:
            return
        held = self.held
        if held is None or self.denied or not held.view_is_new or self._clock.boottime() >= held.until:
            raise LockLostError("not sent: this operator does not hold the deletion lock of the FlameCluster")
