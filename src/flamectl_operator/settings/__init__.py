"""The operator's settings and their layers. Nothing here reads a file or sends a request.

Modules: `model` (the settings), `names` (their names in Kubernetes), `layers` (merges file, environment and command line and
records the origin of each setting), `environment`, `document` (YAML), `changes` (settings that take effect while the operator
runs).
"""

from flamectl_operator.settings.changes import changed, in_force, restart_needed
from flamectl_operator.settings.document import defaults, parse, show, show_json
from flamectl_operator.settings.environment import environment_layer
from flamectl_operator.settings.layers import Effective, Layer, SettingsError, check, layer_of, merge
from flamectl_operator.settings.model import (
    MAX_LOCK_DURATION,
    POD_IP,
    ClientConnectionSettings,
    ControllerSettings,
    FlameSettings,
    HealthSettings,
    LeaderElectionSettings,
    LogFormat,
    LoggingSettings,
    LogLevel,
    MetricsSettings,
    OperatorConfig,
    PodPolicy,
    Section,
    endpoint,
    listen_on,
)
from flamectl_operator.settings.names import is_namespace, is_subdomain

__all__ = [
    "MAX_LOCK_DURATION",
    "POD_IP",
    "ClientConnectionSettings",
    "ControllerSettings",
    "Effective",
    "FlameSettings",
    "HealthSettings",
    "Layer",
    "LeaderElectionSettings",
    "LogFormat",
    "LogLevel",
    "LoggingSettings",
    "MetricsSettings",
    "OperatorConfig",
    "PodPolicy",
    "Section",
    "SettingsError",
    "changed",
    "check",
    "defaults",
    "endpoint",
    "environment_layer",
    "in_force",
    "is_namespace",
    "is_subdomain",
    "layer_of",
    "listen_on",
    "merge",
    "parse",
    "restart_needed",
    "show",
    "show_json",
]
