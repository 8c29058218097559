"""The command line: `flamectl-operator run`, `config`, `crd` and `version`."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import sys
from contextlib import AsyncExitStack, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import structlog
import typer

from flamectl_operator import __version__
from flamectl_operator.api import crd as crd_module
from flamectl_operator.kube.api_server_client import ApiServerClient
from flamectl_operator.kube.connection import connect
from flamectl_operator.kube.errors import (
    ConfigurationError,
    KubernetesError,
)
from flamectl_operator.kube.limiting import LimitedTransport
from flamectl_operator.kube.retrying import RetryingTransport
from flamectl_operator.live_config import LiveConfig
from flamectl_operator.monitoring import Monitor
from flamectl_operator.monitoring.http import CannotListenError
from flamectl_operator.options import (
    ConfigMapOption,
    ConfigOption,
    ContextOption,
    HealthProbeBindAddressOption,
    KubeconfigOption,
    LeaderElectOption,
    LogFormatOption,
    LogLevelOption,
    MetricsBindAddressOption,
    NamespaceOption,
    WorkersOption,
    places,
)
from flamectl_operator.replica import Replica
from flamectl_operator.runtime.clock import SystemClock
from flamectl_operator.runtime.logs import configure_logging, set_level
from flamectl_operator.runtime.signals import stop_on_signals
from flamectl_operator.runtime.tasks import TaskDiedError, racing, while_running
from flamectl_operator.settings import OperatorConfig, SettingsError, merge, show, show_json
from flamectl_operator.startup import StartUp, questions

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from flamectl_operator.options import Places
    from flamectl_operator.settings import Effective


app = typer.Typer(
    help="Runs Flame clusters on Kubernetes from FlameCluster resources.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class ConfigFormat(StrEnum):
    """Values of `config --format`."""

    YAML = "yaml"
    JSON = "json"


class CannotStartError(Exception):
    """The operator cannot do its work; the text says what to do about it."""


@app.command()
def run(  # noqa: PLR0913 - one for each option
    *,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    config: ConfigOption = None,
    config_map: ConfigMapOption = None,
    namespace: NamespaceOption = None,
    workers: WorkersOption = None,
    leader_elect: LeaderElectOption = None,
    metrics_bind_address: MetricsBindAddressOption = None,
    health_probe_bind_address: HealthProbeBindAddressOption = None,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
) -> None:
    """Runs the operator until it is told to stop (SIGTERM, SIGINT)."""
    with _complaining():
        asyncio.run(
            _run(
                places(
                    os.environ,
                    kubeconfig=kubeconfig,
                    context=context,
                    config=config,
                    config_map=config_map,
                    namespace=namespace,
                    workers=workers,
                    leader_elect=leader_elect,
                    metrics_bind_address=metrics_bind_address,
                    health_probe_bind_address=health_probe_bind_address,
                    log_format=log_format,
                    log_level=log_level,
                )
            )
        )


@app.command(name="config")
def show_config(  # noqa: PLR0913 - one for each option
    *,
    output_format: Annotated[ConfigFormat, typer.Option("--format", help="For people or for machines.")] = (
        ConfigFormat.YAML
    ),
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    config: ConfigOption = None,
    config_map: ConfigMapOption = None,
    namespace: NamespaceOption = None,
    workers: WorkersOption = None,
    leader_elect: LeaderElectOption = None,
    metrics_bind_address: MetricsBindAddressOption = None,
    health_probe_bind_address: HealthProbeBindAddressOption = None,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
) -> None:
    """Prints the settings that `run` would use with the same options, and where each of them comes from."""
    with _complaining():
        effective = asyncio.run(
            _effective(
                places(
                    os.environ,
                    kubeconfig=kubeconfig,
                    context=context,
                    config=config,
                    config_map=config_map,
                    namespace=namespace,
                    workers=workers,
                    leader_elect=leader_elect,
                    metrics_bind_address=metrics_bind_address,
                    health_probe_bind_address=health_probe_bind_address,
                    log_format=log_format,
                    log_level=log_level,
                )
            )
        )
        sys.stdout.write(show(effective) if output_format is ConfigFormat.YAML else show_json(effective))


@app.command()
def crd() -> None:
    """Prints the CustomResourceDefinition: `flamectl-operator crd | kubectl apply --server-side -f -`."""
    sys.stdout.write(crd_module.render())


@app.command()
def version() -> None:
    """Prints the version."""
    sys.stdout.write(f"{__version__}\n")


def main() -> None:
    """Entry point of the console script."""
    app()


@contextmanager
def _complaining() -> Iterator[None]:
    """Says in one line why it does not work."""
    try:
        yield
    except (CannotListenError, CannotStartError, ConfigurationError, SettingsError, TaskDiedError) as error:
        print(f"flamectl-operator: {error}", file=sys.stderr)  # noqa: T201 - for whoever started it, whatever the log level
        raise typer.Exit(1) from None


async def _run(where: Places) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    await _serve(where, stop)


async def _serve(where: Places, stop: asyncio.Event) -> None:
    clock, entropy = SystemClock(), random.SystemRandom()
    startup = StartUp(clock, entropy)
    first = _first_settings(where)
    configure_logging(first.logging.format, first.logging.level, preliminary=True)
    async with AsyncExitStack() as stack:
        monitor = await stack.enter_async_context(Monitor(first, clock, stop))
        monitor.watch_start(startup)
        if where.config_map is not None:
            # It may take a while until the API server tells where to serve them.
            await monitor.serve(first, provisional=True)
        # For the Lease and the settings: connections that the work cannot use up, no waiting in line, and no retries, for both
        # come back by themselves.
        lifeline = await connect(where.kubeconfig, where.context, observer=monitor.metrics)
        stack.push_async_callback(lifeline.close)
        live = LiveConfig(where.source(ApiServerClient(lifeline)), where.overrides, clock)
        if not await _unless_stopped(startup.take(live.load), stop):
            return
        settings = live.config
        configure_logging(settings.logging.format, settings.logging.level)
        await monitor.serve(settings)
        monitor.metrics.watch_config(lambda: live.last_error, lambda: live.restart_needed)
        log = structlog.get_logger(component="cli")
        transport = await connect(where.kubeconfig, where.context, observer=monitor.metrics)
        limited = LimitedTransport(
            transport, clock, **settings.client_connection.model_dump(), observer=monitor.metrics
        )
        stack.push_async_callback(limited.close)
        retrying = RetryingTransport(limited, clock, entropy)
        replica = Replica(
            lambda guard: ApiServerClient(retrying, guard=guard),
            ApiServerClient(lifeline, timeout=settings.leader_election.renew_deadline_seconds / 2),
            settings,
            clock,
            entropy,
            socket.gethostname(),
            monitor.metrics,
        )
        monitor.watch(replica)
        namespaces = list(settings.controller.namespaces)
        if not await _unless_stopped(startup.take(*questions(ApiServerClient(retrying), namespaces)), stop):
            return
        log.info("starting", version=__version__, pid=os.getpid(), namespaces=namespaces or "all")
        live.subscribe(lambda config: limited.resize(**config.client_connection.model_dump()))
        live.subscribe(lambda config: set_level(config.logging.level))
        live.subscribe(replica.reconfigure)
        await while_running({"settings": live.run(replica.tell)}, replica.run(stop))
        log.info("stopped")


def _first_settings(where: Places) -> OperatorConfig:
    """What holds until the document was read."""
    try:
        return merge(where.overrides).config
    except SettingsError:
        # Something that only the document can make good, or not: reading it will tell.
        return OperatorConfig()


async def _effective(where: Places) -> Effective:
    """What `run` would start with; changes nothing."""
    clock = SystemClock()
    configure_logging("console", "error")
    async with AsyncExitStack() as stack:
        client = None
        if where.config_map is not None:
            transport = await connect(where.kubeconfig, where.context)
            stack.push_async_callback(transport.close)
            client = ApiServerClient(RetryingTransport(transport, clock, random.SystemRandom()))
        live = LiveConfig(where.source(client), where.overrides, clock)
        try:
            await live.load(prepare=False)
        except KubernetesError as error:
            raise CannotStartError(f"the settings cannot be read: {error}") from None
        return live.started


async def _unless_stopped(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> bool:
    """Does the work, but gives it up when asked to stop; False then."""
    working = asyncio.create_task(work)
    async with racing(working, asyncio.create_task(stop.wait())) as ended:
        if working in ended:
            await working
        return working in ended
