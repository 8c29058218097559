"""Lets requests pass for as long as this process leads."""

from __future__ import annotations

from flamectl_operator.kube.errors import NotLeadingError
from flamectl_operator.runtime.clock import Clock


class Fence:
    """Allows writes until a deadline, which is a `boottime`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = float("-inf")

    @property
    def remaining(self) -> float:
        """Seconds until the fence closes; zero or less when it is closed."""
        return self._until - self._clock.boottime()

    @property
    def open(self) -> bool:
        """Whether writes may be sent."""
        return self.remaining > 0

    def check(self) -> None:
        """Check that the fence is open; the guard of a client.

        Raises:
            NotLeadingError: The fence is closed.
        """
        if not self.open:
            raise NotLeadingError("not sent, because this process is not the leader")

    def extend(self, until: float) -> None:
        """Keep the fence open until this `boottime`."""
        self._until = until

    def close(self) -> None:
        """Close the fence now."""
        self._until = float("-inf")
