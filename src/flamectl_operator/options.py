"""The options of the command line that `run` and `config` have in common, and the settings that they set."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flamectl_operator.config_sources import CONFIG_MAP, ConfigMapSource, FileSource
from flamectl_operator.kube.credentials import in_cluster, own_namespace
from flamectl_operator.settings import Layer, SettingsError, check, environment_layer, layer_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flamectl_operator.config_sources import Source
    from flamectl_operator.kube.client import Client


class LogFormat(StrEnum):
    """Values of `--log-format`."""

    JSON = "json"
    CONSOLE = "console"


class LogLevel(StrEnum):
    """Values of `--log-level`."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


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
    list[str] | None,
    typer.Option(help="Namespace to watch; may be given several times. Default: all.", show_default=False),
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, max=256, help="FlameClusters reconciled at a time.", show_default="8")
]
LeaderElectOption = Annotated[
    bool | None,
    typer.Option(
        "--leader-elect/--no-leader-elect", help="Work only while holding a lease.", show_default="no-leader-elect"
    ),
]
MetricsBindAddressOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Where metrics are served; 0 for nowhere.", show_default=":8080")
]
HealthProbeBindAddressOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Where health is served; 0 for nowhere.", show_default=":8081")
]
LogFormatOption = Annotated[LogFormat | None, typer.Option(help="Form of the log.", show_default="json")]
LogLevelOption = Annotated[LogLevel | None, typer.Option(help="Lowest level logged.", show_default="info")]

#: Options that set a setting.
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
class Places:
    """Where the settings come from, and where the API server is.

    Args:
        kubeconfig: The file given by the user, if any.
        context: The context given by the user, if any.
        config: The file with the settings, if one was given.
        config_map: Namespace and name of the ConfigMap with the settings, if there is no file.
        overrides: What environment and command line say, the latter last.
    """

    kubeconfig: Path | None
    context: str | None
    config: Path | None
    config_map: tuple[str, str] | None
    overrides: tuple[Layer, ...]

    def source(self, client: Client | None) -> Source | None:
        """Where the document is; None when there is only environment and command line.

        Args:
            client: Reads the ConfigMap, if it is one.
        """
        if self.config is not None:
            return FileSource(self.config)
        if self.config_map is None or client is None:
            return None
        return ConfigMapSource(client, *self.config_map)


def places(
    environ: Mapping[str, str],
    *,
    kubeconfig: Path | None,
    context: str | None,
    config: Path | None,
    config_map: str | None,
    **settings: object,
) -> Places:
    """Makes sense of the command line and the environment.

    Args:
        environ: The environment.
        kubeconfig: As given.
        context: As given.
        config: As given.
        config_map: As given.
        settings: The other options by their names in Python; None or nothing for those that were not given.

    Raises:
        SettingsError: They cannot be used.
    """
    overrides = (environment_layer(environ), _command_line(settings))
    for layer in overrides:
        check(layer)
    return Places(kubeconfig, context, config, _config_map(environ, kubeconfig, context, config, config_map), overrides)


def _command_line(settings: Mapping[str, object]) -> Layer:
    """What the options say that were given; one that may be given several times is an empty list when it was not."""
    return layer_of(
        "command line",
        {
            _SETTINGS[name]: (
                f"option --{name.replace('_', '-')}",
                value.value if isinstance(value, StrEnum) else value,
            )
            for name, value in settings.items()
            if value is not None and value != []
        },
    )


def _config_map(
    environ: Mapping[str, str], kubeconfig: Path | None, context: str | None, config: Path | None, option: str | None
) -> tuple[str, str] | None:
    if option is not None:
        namespace, _, name = option.partition("/")
        if config is not None or not namespace or not name or "/" in name:
            raise SettingsError("--config-map: takes NAMESPACE/NAME, and not together with --config")
        return namespace, name
    if config is None and in_cluster(kubeconfig, context, environ):
        own = own_namespace()
        if own is None:
            raise SettingsError("--config-map: must be given where a Pod cannot tell in which namespace it is")
        return own, CONFIG_MAP
    return None
