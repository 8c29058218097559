"""The operator's settings: what they are, and how those in force come about. Nothing here reads a file or asks a server.

Where to look: `model` (the settings), `layers` (file, environment and command line over one another, each setting with its
origin), `environment`, `document` (YAML), `changes` (what takes effect while the operator runs).
"""

from flamectl_operator.settings.changes import changed, in_force, restart_needed
from flamectl_operator.settings.document import defaults, parse, show, show_json
from flamectl_operator.settings.environment import environment_layer
from flamectl_operator.settings.layers import Effective, Layer, SettingsError, check, layer_of, merge
from flamectl_operator.settings.model import (
    ClientConnectionSettings,
    ControllerSettings,
    FlameSettings,
    HealthSettings,
    LeaderElectionSettings,
    LoggingSettings,
    MetricsSettings,
    OperatorConfig,
    PodPolicy,
    Section,
    listen_on,
)

__all__ = [
    "ClientConnectionSettings",
    "ControllerSettings",
    "Effective",
    "FlameSettings",
    "HealthSettings",
    "Layer",
    "LeaderElectionSettings",
    "LoggingSettings",
    "MetricsSettings",
    "OperatorConfig",
    "PodPolicy",
    "Section",
    "SettingsError",
    "changed",
    "check",
    "defaults",
    "environment_layer",
    "in_force",
    "layer_of",
    "listen_on",
    "merge",
    "parse",
    "restart_needed",
    "show",
    "show_json",
]
