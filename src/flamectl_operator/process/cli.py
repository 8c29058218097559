"""The command line: `flamectl-operator run`, `plan`, `config`, `crd`, `graph` and `version`."""

import asyncio
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from flamectl_operator import __version__
from flamectl_operator.kube.errors import ConfigurationError
from flamectl_operator.process import main as process
from flamectl_operator.process.main import CannotStartError
from flamectl_operator.process.monitoring.http import CannotListenError
from flamectl_operator.process.options import (
    ConfigMapOption,
    ConfigOption,
    ContextOption,
    FileOption,
    FlameClusterArgument,
    FlameClusterNamespaceOption,
    HealthProbeBindAddressOption,
    KubeconfigOption,
    LeaderElectOption,
    LogFormatOption,
    LogLevelOption,
    MetricsBindAddressOption,
    NamespaceOption,
    WorkersOption,
    config_locations,
)
from flamectl_operator.runtime.log_writer import STDERR, LogWriter, can_write
from flamectl_operator.runtime.tasks import TaskDiedError
from flamectl_operator.runtime.workflow_graph import as_mermaid, as_text
from flamectl_operator.settings.document import show, show_json
from flamectl_operator.settings.layers import SettingsError
from flamectl_operator.subreconcilers import PIPELINE


class PlanCommand(TyperCommand):
    """The command `plan`, which exits with 1 for a wrong command line, because 2 says that there are changes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, or raise click.UsageError."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # `--help` ends with an error whose code is 0.
            if hasattr(error, "exit_code") and error.exit_code:
                error.exit_code = 1
            raise


app = typer.Typer(
    help="Run Flame clusters on Kubernetes from FlameCluster resources.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Its tables cut the names of options on a terminal of 80 columns.
    rich_markup_mode=None,
)


@app.command()
def run(  # noqa: PLR0913 - one parameter per option
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
    """Run the operator until it is told to stop (SIGTERM, SIGINT)."""
    options = locals()
    with _complaining(), LogWriter(STDERR) as log:
        asyncio.run(process.run(config_locations(os.environ, **options), log))


def _with_options_of_run(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command options of `run` in place of its `**options`; all of them by default."""
    of_run = inspect.signature(run, eval_str=True).parameters

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        parameters = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
        parameters += [of_run[name] for name in names or of_run]
        vars(command)["__signature__"] = own.replace(parameters=parameters)
        return command

    return decorate


@app.command(name="config")
@_with_options_of_run()
def show_config(
    *,
    output_format: Annotated[
        Literal["yaml", "json"], typer.Option("--format", help="Output for people or for machines.")
    ] = "yaml",
    **options: Any,
) -> None:
    """Print the settings that `run` would use with the same options, with the origin of each."""
    with _complaining():
        effective = asyncio.run(process.effective(config_locations(os.environ, **options)))
        _write(show(effective) if output_format == "yaml" else show_json(effective))


@app.command(cls=PlanCommand)
@_with_options_of_run("kubeconfig", "context", "config", "config_map")
def plan(
    name: FlameClusterArgument = None,
    *,
    file: FileOption = None,
    namespace: FlameClusterNamespaceOption = None,
    output: Annotated[
        Literal["text", "json", "yaml"], typer.Option("--output", "-o", help="Output for people or for machines.")
    ] = "text",
    **options: Any,
) -> None:
    """Print what the operator would do next for a FlameCluster, and send nothing.

    Exit code 0: nothing to do; 2: changes; 1: an error.
    """
    from flamectl_operator.process.plan import plan as planned  # noqa: PLC0415 - `run` plans without it

    with _complaining():
        result = asyncio.run(planned(config_locations(os.environ, **options), name, file, namespace))
        _write(result.rendered(output))
    raise typer.Exit(result.exit_code)


@app.command()
def crd() -> None:
    """Print the CustomResourceDefinition: `flamectl-operator crd | kubectl apply --server-side --force-conflicts -f -`."""
    from flamectl_operator.api.crd import render  # noqa: PLC0415 - `run` generates no schema

    with _complaining():
        _write(render())


@app.command()
def graph(
    output_format: Annotated[
        Literal["text", "mermaid"], typer.Option("--format", help="Output for a terminal or for documentation.")
    ] = "text",
) -> None:
    """Print the stages and parts of a pass in their order."""
    draw = as_text if output_format == "text" else as_mermaid
    with _complaining():
        _write(f"{draw(PIPELINE)}\n")


@app.command()
def version() -> None:
    """Print the version."""
    with _complaining():
        _write(f"{__version__}\n")


def main() -> None:
    """Run the command line."""
    app()


class _CannotWriteError(Exception):
    """The output of a command cannot be written, such as to a disk that is full."""


def _write(text: str) -> None:
    """Write the output of a command, or fail: somebody may apply the output, and a part of it would not do."""
    if not sys.stdout:
        raise _CannotWriteError("the output cannot be written: it is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # the reader has read enough
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes the rest at its end
        raise _CannotWriteError(f"the output cannot be written: {error.strerror}") from error


@contextmanager
def _complaining() -> Iterator[None]:
    """Print an error as one line and exit with 1."""
    try:
        yield
    except (
        CannotListenError,
        CannotStartError,
        ConfigurationError,
        SettingsError,
        TaskDiedError,
        _CannotWriteError,
    ) as error:
        if can_write(STDERR):  # a full pipe would keep the process from ending
            print(f"flamectl-operator: {error}", file=sys.stderr)  # noqa: T201 - for the user, at any log level
        raise typer.Exit(1) from None
