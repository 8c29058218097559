"""The options of the commands, and the settings that they set."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from flamectl_operator.kube.client import Client
from flamectl_operator.kube.http.credentials import in_cluster, own_namespace
from flamectl_operator.process.settings_sources import CONFIG_MAP, ConfigMapSource, FileSource, Source
from flamectl_operator.settings.layers import Layer, SettingsError, check, environment_layer, layer_of
from flamectl_operator.settings.model import ControllerSettings, LogFormat, LogLevel
from flamectl_operator.settings.names import is_namespace, is_subdomain

KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        help="Kubeconfig to use. Default: the Pod's service account, else $KUBECONFIG, else ~/.kube/config.",
        show_default=False,
    ),
]
ContextOption = Annotated[
    str | None, typer.Option(help="Context of the kubeconfig. Default: its current one.", show_default=False)
]
ConfigOption = Annotated[
    Path | None, typer.Option(help="File with the operator's settings (docs/settings.md).", show_default=False)
]
ConfigMapOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAMESPACE/NAME",
        help=f"ConfigMap with the operator's settings. Default in a cluster: {CONFIG_MAP} in the Pod's namespace.",
        show_default=False,
    ),
]
NamespaceOption = Annotated[
    list[str] | None, typer.Option(help="Namespace to watch; repeat for several. Default: all.", show_default=False)
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1, max=256, help="FlameClusters reconciled in parallel.", show_default=str(ControllerSettings().workers)
    ),
]
LeaderElectOption = Annotated[
    bool | None,
    typer.Option(
        "--leader-elect/--no-leader-elect", help="Work only while holding a lease.", show_default="no-leader-elect"
    ),
]
MetricsBindAddressOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Address of the metrics; 0 serves none.", show_default=":8080")
]
HealthProbeBindAddressOption = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Address of the health checks; 0 serves none.", show_default=":8081"),
]
LogFormatOption = Annotated[
    LogFormat | None,
    typer.Option(help="Format of the log; auto: console on a terminal, else json.", show_default="auto"),
]
LogLevelOption = Annotated[LogLevel | None, typer.Option(help="Lowest level that is logged.", show_default="info")]
FlameClusterArgument = Annotated[str | None, typer.Argument(help="Name of a FlameCluster.", show_default=False)]
FileOption = Annotated[
    Path | None,
    typer.Option("--filename", "-f", help="File with a FlameCluster as it would be applied.", show_default=False),
]
FlameClusterNamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace of the FlameCluster.", show_default="default")
]

#: The setting that an option sets, by the name of its parameter.
_SETTINGS = {
    "namespace": "controller.namespaces",
    "workers": "controller.workers",
    "leader_elect": "leaderElection.leaderElect",
    "metrics_bind_address": "metrics.bindAddress",
    "health_probe_bind_address": "health.bindAddress",
    "log_format": "logging.format",
    "log_level": "logging.level",
}


@dataclass(frozen=True)
class ConfigLocations:
    """The locations of the API server and of the settings, and overrides of these, of which the last takes precedence."""

    kubeconfig: Path | None
    context: str | None
    config: Path | None
    config_map: tuple[str, str] | None
    overrides: tuple[Layer, ...]

    def source(self, client: Client | None) -> Source | None:
        """Return the source of the document, which may need the client; None when there are only environment and command line."""
        if self.config is not None:
            return FileSource(self.config)
        if self.config_map is None or client is None:
            return None
        return ConfigMapSource(client, *self.config_map)


def config_locations(
    environ: Mapping[str, str],
    *,
    kubeconfig: Path | None,
    context: str | None,
    config: Path | None,
    config_map: str | None,
    **settings: object,
) -> ConfigLocations:
    """Interpret the command line and the environment; raise SettingsError if the options cannot be used.

    `settings` are the other options by parameter name; None or empty for options that were not given.
    """
    overrides = (environment_layer(environ), _command_line(settings))
    for layer in overrides:
        check(layer)
    return ConfigLocations(
        kubeconfig, context, config, _config_map(environ, kubeconfig, context, config, config_map), overrides
    )


def _command_line(settings: Mapping[str, object]) -> Layer:
    """Return the options that were given; a repeatable option that was not given is an empty list."""
    return layer_of(
        "command line",
        {
            _SETTINGS[name]: (f"option --{name.replace('_', '-')}", value)
            for name, value in settings.items()
            if value is not None and value != []
        },
    )


def _config_map(
    environ: Mapping[str, str], kubeconfig: Path | None, context: str | None, config: Path | None, option: str | None
) -> tuple[str, str] | None:
    if option is not None:
        namespace, _, name = option.partition("/")
        if config is not None or not is_namespace(namespace) or not is_subdomain(name):
            raise SettingsError("--config-map: must be NAMESPACE/NAME and cannot be combined with --config")
        return namespace, name
    if config is None and in_cluster(kubeconfig, context, environ):
        own = own_namespace()
        if own is None:
            raise SettingsError("--config-map: is required because the namespace of this Pod is unknown")
        return own, CONFIG_MAP
    return None
