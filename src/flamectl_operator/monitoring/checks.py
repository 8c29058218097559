"""The health of the operator: each check says what is wrong, in one line, or nothing.

Only what a restart helps makes `/healthz` fail. An API server that does not answer, a FlameCluster that fails, permissions
that are missing: those it does not, and a fleet that is started again and again while its API server is down would only
keep that from coming back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flamectl_operator.kube.api_server_client import LIST_TIMEOUT
from flamectl_operator.kube.reflector import READ_TIMEOUT
from flamectl_operator.kube.retrying import MAX_ATTEMPTS, MAX_TOTAL_WAIT

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from flamectl_operator.controller import Key
    from flamectl_operator.kube.reflector import Reflector
    from flamectl_operator.runtime.clock import Clock
    from flamectl_operator.runtime.progress import UnderWay

#: Seconds within which a watch hears something or tries again, whatever the API server does: at the longest the pause between
#: two attempts, or a silence, and then a page of a list of which each attempt runs into its timeout.
WATCH_PATIENCE = READ_TIMEOUT + MAX_ATTEMPTS * LIST_TIMEOUT + MAX_TOTAL_WAIT


#: Seconds within which the Lease is asked for again, be the answers as slow as they may: its timeouts are a few seconds.
ELECTION_PATIENCE = 60.0


def stuck_passes(passes: UnderWay[Key], limit: float, clock: Clock) -> str:
    """Fails when nothing at all of a pass has got on for `limit` seconds: no step ended, and no request, be it by its timeout."""
    stillest = passes.stillest()
    if stillest is None:
        return ""
    (namespace, name), moved = stillest
    still = clock.monotonic() - moved
    return "" if still <= limit else f"the pass over {namespace}/{name} has been stuck for {still:.0f} s"


def hanging_watches(reflectors: Iterable[Reflector[Any]], clock: Clock) -> str:
    """Fails when a watch neither heard anything nor tried to, for longer than all its timeouts."""
    now = clock.monotonic()
    hanging = []
    for reflector in reflectors:
        signs = [sign for sign in (reflector.last_attempt, reflector.last_contact) if sign is not None]
        if signs and now - max(signs) > WATCH_PATIENCE:
            hanging.append(f"the watch of {reflector} has hung for {now - max(signs):.0f} s")
    return "; ".join(hanging)


def hanging_election(last_attempt: float | None, duration: float, clock: Clock) -> str:
    """Fails when the Lease was neither renewed nor asked for, in vain or not, for much longer than it lasts.

    Args:
        last_attempt: When it last was; None when it never was.
        duration: How long the Lease lasts, in seconds.
        clock: The time.
    """
    still = 0.0 if last_attempt is None else clock.monotonic() - last_attempt
    return f"the election has hung for {still:.0f} s" if still > duration + ELECTION_PATIENCE else ""


def missing_caches(reflectors: Iterable[Reflector[Any]]) -> str:
    """Fails until all that is there has been listed once; says what is missing, and what is in the way."""
    missing = [
        f"{reflector} ({reflector.last_error})" if reflector.last_error else str(reflector)
        for reflector in reflectors
        if not reflector.synced.is_set()
    ]
    return f"not listed yet: {', '.join(missing)}" if missing else ""


def stopping(stop: asyncio.Event) -> str:
    """Fails from the moment that the process was asked to stop."""
    return "asked to stop" if stop.is_set() else ""
