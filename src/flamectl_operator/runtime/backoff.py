"""The delay after the n-th consecutive failure."""

from dataclasses import dataclass
from random import Random

from flamectl_operator.runtime.doubling import doubled


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """A delay that doubles with each failure, with jitter.

    Jitter only lengthens a delay, as in client-go's `wait.Jitter`. No retry comes sooner than the base delay, and callers that
    failed together do not retry together.

    Args:
        base: Seconds after the first failure, before jitter.
        limit: The longest delay in seconds, before jitter.
        jitter: The largest share of a delay that is added to it; 0.5 means up to half as long again.
    """

    base: float
    limit: float
    jitter: float
    random: Random

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after `failures` consecutive failures, counted from 1."""
        return doubled(self.base, self.limit, failures) * (1 + self.jitter * self.random.random())
