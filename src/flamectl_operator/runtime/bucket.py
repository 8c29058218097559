"""A limit on rates."""


class Bucket:
    """A token bucket that starts full, with a rate per second; `now` is of a monotonic clock. All limits on rates use it."""

    __slots__ = ("_filled", "_tokens", "rate", "size")

    def __init__(self, rate: float, size: float, now: float) -> None:
        self.rate = rate
        self.size = size
        self._tokens = size
        self._filled = now

    def try_take(self, now: float, keep: float = 0) -> bool:
        """Take a token if at least `keep` tokens remain after it; return whether one was taken."""
        self._fill(now)
        if self._tokens < 1 + keep:
            return False
        self._tokens -= 1
        return True

    def give_back(self) -> None:
        """Put a token back that was taken in vain."""
        self._tokens = min(self.size, self._tokens + 1)

    def delay(self, now: float) -> float:
        """Return the seconds until a token is available."""
        self._fill(now)
        return max(0.0, (1 - self._tokens) / self.rate)

    def _fill(self, now: float) -> None:
        self._tokens = min(self.size, self._tokens + (now - self._filled) * self.rate)
        self._filled = now
