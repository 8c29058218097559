"""The delay after the n-th consecutive failure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Exponential backoff with jitter.

    Jitter only lengthens a delay, as in client-go's `wait.Jitter`. No retry comes sooner than the base delay, and callers that
    failed together do not retry together.

    Args:
        base: Seconds after the first failure, before jitter.
        factor: Multiplier for each further failure, at least 1.
        limit: The longest delay in seconds, before jitter.
        jitter: The largest share of a delay that is added to it; 0.5 means up to half as long again.
        random: The source of randomness.
    """

    base: float
    factor: float
    limit: float
    jitter: float
    random: Random

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after `failures` consecutive failures, counted from 1."""
        # A float overflows after some thousand failures, long after the delay has reached the limit, so bound the exponent.
        steps = max(0, failures - 1)
        if self.factor > 1 and self.base > 0:
            steps = min(steps, math.ceil(math.log(max(1.0, self.limit / self.base), self.factor)))
        delay = min(self.limit, self.base * self.factor**steps)
        return delay * (1 + self.jitter * self.random.random())
