"""How long to wait after the n-th failure in a row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Exponential backoff with jitter.

    Jitter only ever lengthens a delay, as in client-go's `wait.Jitter`: nobody retries sooner than the base says, and
    many who failed together do not come back together.

    Args:
        base: Seconds after the first failure, before jitter.
        factor: Multiplier for each further failure, at least 1.
        limit: The longest delay in seconds, before jitter.
        jitter: The largest share of a delay that is added to it; 0.5 means up to half as long again.
        random: The source of the jitter.
    """

    base: float
    factor: float
    limit: float
    jitter: float
    random: Random

    def delay(self, failures: int) -> float:
        """Seconds to wait after `failures` failures in a row, counted from 1."""
        # The exponent is bounded because a float overflows after some thousand failures, long after the limit counts.
        steps = max(0, failures - 1)
        if self.factor > 1 and self.base > 0:
            steps = min(steps, math.ceil(math.log(max(1.0, self.limit / self.base), self.factor)))
        delay = min(self.limit, self.base * self.factor**steps)
        return delay * (1 + self.jitter * self.random.random())
