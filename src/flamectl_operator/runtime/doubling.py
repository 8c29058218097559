"""The part of a backoff that is the same in each: the delay doubles with each failure, up to a limit."""


def doubled(base: float, limit: float, failures: int) -> float:
    """Return the seconds after so many consecutive failures: `base` after the first, doubled with each other, up to `limit`."""
    # A float overflows after some thousand failures, long after the delay has reached the limit.
    return min(limit, base * 2.0 ** min(max(0, failures - 1), 64))
