"""Health and metrics of a process, from start to end.

`/healthz` fails only where a restart of the process helps. A restart does not help when the API server does not answer, a
FlameCluster fails, or permissions are missing. Many operators that restart again and again would even keep an API server that
is down from recovering.
"""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Any, Self

import structlog

from flamectl_operator import __version__
from flamectl_operator.kube.api_server_client import LIST_TIMEOUT
from flamectl_operator.kube.cache.index import Key
from flamectl_operator.kube.cache.reflector import READ_TIMEOUT, Reflector
from flamectl_operator.kube.http.retrying import MAX_ATTEMPTS, MAX_TOTAL_WAIT
from flamectl_operator.operator import Operator
from flamectl_operator.process.monitoring.collector import OperatorCollector
from flamectl_operator.process.monitoring.http import CannotListenError, Routes, health_routes, metrics_routes, serving
from flamectl_operator.process.monitoring.metrics import Metrics
from flamectl_operator.process.replica import Replica
from flamectl_operator.process.startup import StartUp
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.health import HealthChecks, Heartbeat
from flamectl_operator.runtime.progress import UnderWay
from flamectl_operator.settings.model import OperatorConfig, listen_on


class Monitor:
    """Health and metrics of a process; a context for the life of the process."""

    def __init__(self, config: OperatorConfig, clock: Clock, stop: asyncio.Event) -> None:
        self._config = config
        self._clock = clock
        self._served: dict[str, tuple[str, AsyncExitStack]] = {}  # address and server, by the name of the server
        self._heartbeat = Heartbeat(clock)
        self._replica: Replica | None = None
        self._startup: StartUp | None = None
        self.metrics = Metrics(__version__)
        self.metrics.watch_event_loop(lambda: self._heartbeat.lag)
        self.metrics.registry.register(
            OperatorCollector(self._operator, lambda: self._config.controller.workers, clock)
        )
        self.health = HealthChecks()
        self.health.live |= {
            "event-loop": self._heartbeat.check,
            "workers": self._workers,
            "watches": self._watches,
            "leader-election": self._election,
        }
        self.health.ready |= {
            "start-up": self._waiting,
            "shutdown": lambda: "asked to stop" if stop.is_set() else "",
            "caches": self._caches,
        }

    async def __aenter__(self) -> Self:
        """Start to measure the event loop; nothing is served yet."""
        self._beating = asyncio.create_task(self._heartbeat.run(), name="heartbeat")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all servers."""
        for what in tuple(self._served):
            await self._end(what)
        self._beating.cancel()
        with suppress(asyncio.CancelledError):
            await self._beating

    async def serve(self, config: OperatorConfig, *, provisional: bool = False) -> None:
        """Serve at the addresses in the settings, and stop other servers; raise CannotListenError if a port is taken.

        Other settings may follow provisional ones in a moment, so an address that cannot be used is only logged then.
        """
        self._config = config
        for what, address, routes in (
            ("health", config.health.bind_address, health_routes(self.health)),
            ("metrics", config.metrics.bind_address, metrics_routes(self.metrics.registry, self._clock.monotonic)),
        ):
            try:
                await self._serve(what, address, routes)
            except CannotListenError as error:
                if not provisional:
                    raise
                structlog.get_logger(component="monitor").warning("not served for now", what=what, error=str(error))

    async def _serve(self, what: str, address: str, routes: Routes) -> None:
        if what in self._served:
            if self._served[what][0] == address:
                return
            await self._end(what)
        server = AsyncExitStack()
        await server.enter_async_context(serving(what, listen_on(address), routes))
        self._served[what] = (address, server)

    async def _end(self, what: str) -> None:
        await self._served.pop(what)[1].aclose()

    def watch_start(self, startup: StartUp) -> None:
        """Add a check of the start's prerequisites."""
        self._startup = startup

    def watch(self, replica: Replica) -> None:
        """Add checks of a replica and of the operator of its term."""
        self._replica = replica
        settings = self._config.leader_election
        if settings.leader_elect:
            self.metrics.watch_election(settings.resource_name, lambda: replica.leading)

    def _waiting(self) -> str:
        return "" if self._startup is None else self._startup.waiting_for

    def _operator(self) -> Operator | None:
        return None if self._replica is None else self._replica.operator

    def _workers(self) -> str:
        operator, limit = self._operator(), self._config.health.stuck_after_seconds
        return "" if operator is None else stuck_passes(operator.passes, limit, self._clock)

    def _watches(self) -> str:
        operator = self._operator()
        return "" if operator is None else hanging_watches(operator.reflectors, self._clock)

    def _election(self) -> str:
        attempt = self._replica.last_attempt if self._replica else None
        return hanging_election(attempt, self._config.leader_election.lease_duration_seconds, self._clock)

    def _caches(self) -> str:
        operator = self._operator()
        if operator is not None:
            return missing_caches(operator.reflectors)
        if self._replica is None or not self._config.leader_election.leader_elect:
            return "not started yet"
        return "" if self._replica.standing_by else "the Lease has not been read yet"


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
    """Fail when the last attempt on the Lease, if any, is older than its duration and `ELECTION_TIMEOUT_SECONDS`."""
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
