"""Builds the process from its parts, runs it from start to end, and stops it when a signal asks for that.

Health starts first, so that probes get an answer while the rest starts; then the settings, which set the limits of the
connection; then the replica, which works or stands by.
"""

import asyncio
import os
import random
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, TypeVar

import structlog

from flamectl_operator import __version__
from flamectl_operator.flame.session_manager import SessionManager
from flamectl_operator.flame.watcher import Target
from flamectl_operator.kube.api_server_client import ApiServerClient
from flamectl_operator.kube.errors import KubernetesError
from flamectl_operator.kube.http.connection import connect
from flamectl_operator.kube.http.limiting import LimitedTransport
from flamectl_operator.kube.http.retrying import RetryingTransport
from flamectl_operator.kube.http.transport import Transport
from flamectl_operator.operator import Environment
from flamectl_operator.process.live_settings import LiveConfig
from flamectl_operator.process.memory import (
    collect_rarely,
    raise_descriptor_limit,
    return_large_blocks,
    shrink_tls_buffers,
)
from flamectl_operator.process.monitoring import Monitor
from flamectl_operator.process.options import ConfigLocations
from flamectl_operator.process.replica import Host, Replica, restarted_pod_uid
from flamectl_operator.process.signals import stop_on_signals
from flamectl_operator.process.startup import StartUp, access_checks
from flamectl_operator.runtime.clock import Clock, SystemClock
from flamectl_operator.runtime.log_writer import LogWriter
from flamectl_operator.runtime.logs import configure_logging, set_level
from flamectl_operator.runtime.server_clock import ServerClock
from flamectl_operator.runtime.tasks import racing, while_running
from flamectl_operator.runtime.telemetry import Telemetry
from flamectl_operator.settings.layers import Effective, SettingsError, merge
from flamectl_operator.settings.model import OperatorConfig

T = TypeVar("T")


class _StoppedError(Exception):
    """The process was asked to stop while it started."""


class CannotStartError(Exception):
    """The operator cannot start; the text says what to do about it."""


async def run(where: ConfigLocations, log: LogWriter) -> None:
    """Run the operator until the process is told to stop (SIGTERM, SIGINT).

    Raises:
        ConfigurationError: There are no credentials, or they cannot be used.
        SettingsError: The settings cannot be used.
        CannotListenError: Health or metrics cannot be served at the address in the settings.
        TaskDiedError: A part of the operator failed for good; the process should end and be restarted.
    """
    stop = asyncio.Event()
    stop_on_signals(stop)
    raise_descriptor_limit()
    collect_rarely()
    shrink_tls_buffers()
    return_large_blocks()
    await _serve(where, stop, log)


async def effective(where: ConfigLocations) -> Effective:
    """Return the settings that `run` would start with, changing nothing.

    Raises:
        ConfigurationError: There are no credentials, or they cannot be used.
        SettingsError: The settings cannot be used.
        CannotStartError: The settings cannot be read.
    """
    try:
        async with loaded_settings(where) as (settings, _):
            return settings
    except KubernetesError as error:
        raise CannotStartError(f"the settings cannot be read: {error}") from None


@asynccontextmanager
async def loaded_settings(
    where: ConfigLocations, *, connect_always: bool = False
) -> AsyncIterator[tuple[Effective, Transport | None]]:
    """Yield the settings that `run` would start with, and the connection that their source needs; log errors alone.

    Raises:
        ConfigurationError: There are no credentials, or they cannot be used.
        SettingsError: The settings cannot be used.
        KubernetesError: The settings cannot be read.
    """
    clock = SystemClock()
    configure_logging("console", "error")
    async with AsyncExitStack() as stack:
        transport = client = None
        if connect_always or where.config_map is not None:
            connected = await connect(where.kubeconfig, where.context)
            stack.push_async_callback(connected.close)
            transport = RetryingTransport(connected, clock, random.SystemRandom())
            client = ApiServerClient(transport)
        live = LiveConfig(where.source(client), where.overrides, clock)
        await live.load(prepare=False)
        yield live.started, transport


async def _serve(where: ConfigLocations, stop: asyncio.Event, output: LogWriter) -> None:
    clock, entropy = ServerClock(SystemClock()), random.SystemRandom()
    startup = StartUp(clock, entropy)
    first = _first_settings(where)
    configure_logging(first.logging.format, first.logging.level, output, preliminary=True)
    async with AsyncExitStack() as stack:
        monitor = await stack.enter_async_context(Monitor(first, clock, stop))

        async def connected() -> Transport:
            connecting = connect(where.kubeconfig, where.context, telemetry=monitor.metrics, server_clock=clock)
            return await _unless_stopped(connecting, stop)

        with suppress(_StoppedError):
            monitor.watch_start(startup)
            if where.config_map is not None:
                # The final address may be in a ConfigMap, and reading that may take a while.
                await monitor.serve(first, provisional=True)
            # The Lease and the settings use their own connections, which the work cannot exhaust, without rate limit and without
            # retries, because both repeat their requests anyway.
            unlimited = await connected()
            stack.push_async_callback(unlimited.close)
            live = LiveConfig(where.source(ApiServerClient(unlimited)), where.overrides, clock)
            await _unless_stopped(startup.run(live.load), stop)
            settings = live.config
            configure_logging(settings.logging.format, settings.logging.level, output)
            await monitor.serve(settings)
            monitor.metrics.watch_config(lambda: live.last_error, lambda: live.restart_needed)
            limits = settings.client_connection.model_dump()
            limited = LimitedTransport(await connected(), clock, **limits, telemetry=monitor.metrics)
            stack.push_async_callback(limited.close)
            retrying = RetryingTransport(limited, clock, entropy)
            replica = _replica(settings, unlimited, retrying, clock, monitor.metrics)
            monitor.watch(replica)
            clock.subscribe(replica.clock_jumped)
            namespaces = list(settings.controller.namespaces)
            await _unless_stopped(startup.run(*access_checks(ApiServerClient(retrying), namespaces)), stop)
            log = structlog.get_logger(component="process")
            log.info("starting", version=__version__, pid=os.getpid(), namespaces=namespaces or "all")
            live.subscribe(lambda config: limited.resize(**config.client_connection.model_dump()))
            live.subscribe(lambda config: set_level(config.logging.level))
            live.subscribe(replica.reconfigure)
            await while_running({"settings": live.run(replica.record_event)}, replica.run(stop))
            log.info("stopped")


def _replica(
    settings: OperatorConfig, unlimited: Transport, limited: Transport, clock: Clock, telemetry: Telemetry
) -> Replica:
    """Return the replica of this process; its Lease goes by the unlimited transport, all else by the limited one."""
    return Replica(
        lambda guard: ApiServerClient(limited, guard=guard),
        ApiServerClient(unlimited, timeout=settings.leader_election.renew_deadline_seconds / 2),
        settings,
        Environment(clock, random.SystemRandom(), telemetry, _session_manager),
        Host(socket.gethostname(), restarted_pod_uid(os.environ, os.getpid())),
    )


def _session_manager(target: Target) -> SessionManager:
    from flamectl_operator.flame.client import GrpcSessionManager, verified_by  # noqa: PLC0415 - 6 MB, at first use

    return GrpcSessionManager(
        target.host,
        target.port,
        verified_by(target.authority),
        certified_name=target.certified_name,
        namespace=target.namespace,
        began=target.began,
    )


def _first_settings(where: ConfigLocations) -> OperatorConfig:
    """Return the settings in force until the document has been read."""
    try:
        return merge(where.overrides).config
    except SettingsError:
        # The document may resolve the conflict; reading it will show.
        return OperatorConfig()


async def _unless_stopped(work: Coroutine[Any, Any, T], stop: asyncio.Event) -> T:
    """Return the result of the work, or cancel it and raise _StoppedError when the process is asked to stop."""
    working = asyncio.create_task(work)
    async with racing(working, asyncio.create_task(stop.wait())) as ended:
        if working not in ended:
            raise _StoppedError
        return await working
