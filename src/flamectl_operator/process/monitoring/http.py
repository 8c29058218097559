"""A small HTTP server for the kubelet and Prometheus."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from flamectl_operator.process.monitoring.connections import Connections, middleware
from flamectl_operator.runtime import health
from flamectl_operator.runtime.health import Check, HealthChecks

Routes = dict[str, Handler]

#: Seconds that an idle connection stays open, longer than the kubelet's period between two probes.
KEEP_ALIVE = 75.0

#: The format of metrics that newer clients ask for, beside the plain one.
OPEN_METRICS = "application/openmetrics-text"
#: All who ask get one text of metrics for so many times as long as it took to make it. For a thousand FlameClusters that takes
#: the event loop some tenths of a second, and every Pod of the Kubernetes cluster may ask as often as it likes.
TIMES_AS_LONG = 5.0

#: Seconds that a running request gets when the server ends.
STOP_TIMEOUT_SECONDS = 1.0


class CannotListenError(Exception):
    """The address is taken or does not belong to this machine."""


@asynccontextmanager
async def serving(what: str, address: tuple[str, int] | None, routes: Routes) -> AsyncIterator[None]:
    """Serve while the context is entered.

    Args:
        address: Host and port; an empty host for all interfaces, port 0 for any that is free; None to serve nothing.

    Raises:
        CannotListenError: The address cannot be used.
    """
    if address is None:
        yield
        return
    application = web.Application(middlewares=[middleware()])
    for path, handler in routes.items():
        application.router.add_get(path, handler)
    runner = web.AppRunner(
        application, access_log=None, keepalive_timeout=KEEP_ALIVE, shutdown_timeout=STOP_TIMEOUT_SECONDS
    )
    await runner.setup()
    listeners: list[socket.socket] = []
    assert runner.server is not None  # set by the runner's setup
    connections = Connections(runner.server)
    try:
        listeners += await _bound(what, *address)
        for listener in listeners:
            connections.listen(listener)
        yield
    finally:
        for listener in listeners:
            connections.stop_listening(listener)
        await runner.cleanup()
        connections.close()


async def _bound(what: str, host: str, port: int) -> list[socket.socket]:
    """Return sockets of all addresses of the host, on which nobody listens yet."""
    try:
        server = await asyncio.get_running_loop().create_server(
            asyncio.Protocol, host or None, port, start_serving=False
        )
    except OSError as error:
        # asyncio replaces the system's text by its own; unknown host names have negative numbers.
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
        raise CannotListenError(f"cannot serve {what} at {_shown(host, port)}: {why}") from error
    # asyncio would make a protocol and a transport of each connection before the address of the client can be looked at.
    listeners = [socket.socket(fileno=os.dup(each.fileno())) for each in server.sockets]
    server.close()
    addresses = [_shown(*listener.getsockname()[:2]) for listener in listeners]
    structlog.get_logger(component="http").info("serving", what=what, addresses=addresses)
    return listeners


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def health_routes(checks: HealthChecks) -> Routes:
    """Return `/healthz` and `/readyz`, each with `?verbose`, and single checks below them."""
    return _checks_routes("healthz", checks.live) | _checks_routes("readyz", checks.ready)


def metrics_routes(registry: CollectorRegistry, now: Callable[[], float]) -> Routes:
    """Return `/metrics`, in the format of Prometheus or OpenMetrics, as the client accepts; the clock is monotonic."""
    formats = {each: _Exposition(registry, each, now) for each in ("", OPEN_METRICS)}

    async def metrics(request: web.Request) -> web.Response:
        wanted = OPEN_METRICS if OPEN_METRICS in request.headers.get("Accept", "") else ""
        # Compression of a large response would need a thread.
        return formats[wanted].answer()

    return {"/metrics": metrics}


class _Exposition:
    def __init__(self, registry: CollectorRegistry, accepted: str, now: Callable[[], float]) -> None:
        self._registry = registry
        self._now = now
        self._encode, self._content_type = choose_encoder(accepted)
        self._text = b""
        self._old_at = float("-inf")

    def answer(self) -> web.Response:
        """Return the text, made anew if it is too old."""
        if (begun := self._now()) >= self._old_at:
            self._text = self._encode(self._registry)
            self._old_at = (ended := self._now()) + TIMES_AS_LONG * (ended - begun)
        return web.Response(body=self._text, headers={"Content-Type": self._content_type})


def _checks_routes(title: str, checks: Mapping[str, Check]) -> Routes:
    async def every(request: web.Request) -> web.Response:
        return _answer(*health.report(title, checks, verbose="verbose" in request.query))

    async def single(request: web.Request) -> web.Response:
        check = checks.get(request.match_info["name"])
        if check is None:
            raise web.HTTPNotFound
        problem = check()
        return _answer(not problem, f"internal server error: {problem}\n" if problem else "ok")

    return {f"/{title}": every, f"/{title}/{{name}}": single}


def _answer(passed: bool, text: str) -> web.Response:  # noqa: FBT001 - as the report gives it
    headers = {"Cache-Control": "no-cache, private", "X-Content-Type-Options": "nosniff"}
    return web.Response(text=text, status=200 if passed else 500, headers=headers)
