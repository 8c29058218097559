"""The wait of one FlameCluster for its deletion lock, and the words about it."""

import structlog

from flamectl_operator.runtime.outcome import Outcome, blocked, wait
from flamectl_operator.runtime.text import one_line

#: The most characters of a holder that are shown. A writer of Leases can make it as long as the API server allows.
MAX_HOLDER = 100
#: The reason of outcomes for Pods that stay because another operator has the lock.
LOCK_HELD = "LockHeld"
#: Seconds of waiting after which the status reports it. A lock of the default duration whose holder is gone expires before.
REPORT_AFTER = 120.0

_LOG = structlog.get_logger(component="lock")


class LockWait:
    """The wait of one FlameCluster for its deletion lock, over several passes.

    At first the status does not mention the lock, because its holder writes the status. A holder that deletes nothing for minutes
    may be no operator, because everybody who may write Leases in the namespace can hold the lock. A holder that asks for a longer
    time than any operator does is certainly no operator.
    """

    def __init__(self) -> None:
        #: When the wait began, or when a Pod was last seen to be deleted, which shows that the holder works; None without a wait.
        self._since: float | None = None
        #: uids of the Pods that nobody had deleted at the latest look.
        self._pods: frozenset[str] = frozenset()
        #: The obstacle, as a clause after "because", and as first reported: that stays, so that the status does not waver.
        self.obstacle = self._reported = ""
        self._needed = False
        self._logged = False

    def begin(self) -> None:
        """Begin a pass. The wait is over if the last pass did not need the lock."""
        if not self._needed:
            self._since = None
        self._needed = False

    def need(self, obstacle: str) -> None:
        """Note that the pass needs the lock, and what stands in the way unless something else is found."""
        self._needed, self.obstacle = True, obstacle

    def end(self) -> None:
        """Note that the lock was acquired."""
        self._since, self._logged = None, False

    def for_holder(self, holder: str, delay: float) -> Outcome:
        """Return the wait for another operator, which is logged once."""
        shown = one_line(holder, MAX_HOLDER)
        self.obstacle = f'"{shown}" holds the deletion lock'
        if not self._logged:
            self._logged = True
            _LOG.info("another operator holds the deletion lock", holder=shown)
        return wait(LOCK_HELD, "", delay)

    def explained(self, deferral: Outcome, pods: frozenset[str], now: float, *, no_operator: bool) -> Outcome:
        """Return why nothing may be deleted, with a message only after minutes, or at once if the holder is no operator."""
        if deferral.attention:
            return deferral
        if self._since is None:
            self._since, self._pods, self._reported = now, pods, ""
        if not self._pods <= pods:
            self._since, self._reported = now, ""
        elif no_operator or now >= self._since + REPORT_AFTER:
            self._reported = self._reported or self.obstacle
        self._pods = pods
        if not self._reported:
            return deferral
        message = (
            f"nothing can be deleted, because {self._reported}. If only one operator exists, set"
            " spec.lockOptions.disabled; otherwise put a holder that is no operator on spec.lockOptions.denyList"
        )
        return blocked(LOCK_HELD, message, deferral.delay)
