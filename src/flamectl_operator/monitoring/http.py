"""A small HTTP server for those who look after the process: the kubelet, and Prometheus."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import structlog
from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler

from flamectl_operator.runtime import health

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from aiohttp.typedefs import Handler
    from prometheus_client import CollectorRegistry

    from flamectl_operator.runtime.health import Check, Health

Routes = dict[str, "Handler"]

#: Seconds that a connection is kept open for the next request, more than between two probes of the kubelet.
KEEP_ALIVE = 75.0

#: Seconds that a request under way gets when the server ends.
STOP_PATIENCE = 1.0


class CannotListenError(Exception):
    """Nothing can be served there: the address is taken, or none of this machine's."""


@asynccontextmanager
async def serving(what: str, address: tuple[str, int] | None, routes: Routes) -> AsyncIterator[None]:
    """Serves for as long as it is entered.

    Args:
        what: What is served, for the log and the error.
        address: Host and port; an empty host for all interfaces, port 0 for any that is free; None to serve nothing.
        routes: The handler of each path.

    Raises:
        CannotListenError: Nothing can be served there.
    """
    if address is None:
        yield
        return
    application = web.Application()
    for path, handler in routes.items():
        application.router.add_get(path, handler)
    runner = web.AppRunner(application, access_log=None, keepalive_timeout=KEEP_ALIVE, shutdown_timeout=STOP_PATIENCE)
    await runner.setup()
    try:
        await _listen(runner, what, *address)
        yield
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, what: str, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host or None, port).start()
    except OSError as error:
        # asyncio puts a sentence of its own in the place of the system's; names that are not known have negative numbers.
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
        raise CannotListenError(f"cannot serve {what} at {_shown(host, port)}: {why}") from error
    addresses = [_shown(*address[:2]) for address in runner.addresses]
    structlog.get_logger(component="http").info("serving", what=what, addresses=addresses)


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def health_routes(checks: Health) -> Routes:
    """`/healthz` and `/readyz`, each with `?verbose`, and single checks below them."""
    return _checks_routes("healthz", checks.live) | _checks_routes("readyz", checks.ready)


def metrics_routes(registry: CollectorRegistry) -> Routes:
    """`/metrics`, in the text format of Prometheus or of OpenMetrics, as the client likes it."""
    # Compressing a large answer would take a thread.
    return {"/metrics": make_aiohttp_handler(registry, disable_compression=True)}


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
