"""The health checks of the operator: each returns its problem in one line, or an empty text.

`/healthz` fails only where a restart of the process helps. A restart does not help when the API server does not answer, a
FlameCluster fails, or permissions are missing. Many operators that restart again and again would even keep an API server that is
down from recovering.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flamectl_operator.kube.api_server_client import LIST_TIMEOUT
from flamectl_operator.kube.cache.index import Key
from flamectl_operator.kube.cache.reflector import READ_TIMEOUT, Reflector
from flamectl_operator.kube.http.retrying import MAX_ATTEMPTS, MAX_TOTAL_WAIT
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.progress import UnderWay

#: Seconds within which a watch receives something or tries again, whatever the API server does. The longest case: a silence, or a
#: pause between two attempts, and then a page of a list whose attempts all time out.
WATCH_TIMEOUT_SECONDS = READ_TIMEOUT + MAX_ATTEMPTS * LIST_TIMEOUT + MAX_TOTAL_WAIT


#: Seconds, beyond the Lease's duration, within which there is another attempt on the Lease, even with slow responses, because
#: these requests time out after a few seconds.
ELECTION_TIMEOUT_SECONDS = 60.0


def stuck_passes(passes: UnderWay[Key], limit: float, clock: Clock) -> str:
    """Fail when a pass has made no progress for so many seconds: no step ended, and no request, successful or not."""
    longest_idle = passes.longest_idle()
    if longest_idle is None:
        return ""
    (namespace, name), moved = longest_idle
    still = clock.monotonic() - moved
    return "" if still <= limit else f"the pass over {namespace}/{name} has been stuck for {still:.0f} s"


def hanging_watches(reflectors: Iterable[Reflector[Any]], clock: Clock) -> str:
    """Fail when a watch has received nothing and sent nothing for longer than all its timeouts."""
    now = clock.monotonic()
    hanging = []
    for reflector in reflectors:
        signs = [sign for sign in (reflector.last_attempt, reflector.last_contact) if sign is not None]
        if signs and now - max(signs) > WATCH_TIMEOUT_SECONDS:
            hanging.append(f"the watch of {reflector} has hung for {now - max(signs):.0f} s")
    return "; ".join(hanging)


def hanging_election(last_attempt: float | None, duration: float, clock: Clock) -> str:
    """Fail when no attempt on the Lease, successful or not, was made for longer than its duration and `ELECTION_TIMEOUT_SECONDS`.

    Args:
        last_attempt: The monotonic time of the last attempt; None when there was none.
        duration: The Lease's duration in seconds.
    """
    still = 0.0 if last_attempt is None else clock.monotonic() - last_attempt
    return f"the election has hung for {still:.0f} s" if still > duration + ELECTION_TIMEOUT_SECONDS else ""


def missing_caches(reflectors: Iterable[Reflector[Any]]) -> str:
    """Fail until each reflector has listed its objects once, and name the others with their errors."""
    missing = [
        f"{reflector} ({reflector.last_error})" if reflector.last_error else str(reflector)
        for reflector in reflectors
        if not reflector.synced.is_set()
    ]
    return f"not listed yet: {', '.join(missing)}" if missing else ""
