"""Settings in environment variables, such as `FLAMECTL_CONFIG_CONTROLLER_WORKERS=4`."""

from __future__ import annotations

from collections.abc import Mapping

from flamectl_operator.settings.catalogue import ENVIRONMENT_PREFIX, catalogue, nearest
from flamectl_operator.settings.layers import Layer, SettingsError, layer_of


def environment_layer(environ: Mapping[str, str]) -> Layer:
    """Read settings from environment variables. Lists are separated by commas; an empty value is an empty list.

    Raises:
        SettingsError: A variable has our prefix, but there is no such setting.
    """
    known = {setting.variable: setting for setting in catalogue().values()}
    ours = sorted(name for name in environ if name.startswith(ENVIRONMENT_PREFIX))
    unknown = [name for name in ours if name not in known]
    if unknown:
        raise SettingsError(
            "; ".join(f"environment variable {name}: no such setting{nearest(name, known)}" for name in unknown)
        )
    said: dict[str, tuple[str, object]] = {}
    for name in ours:
        setting, text = known[name], environ[name]
        said[setting.path] = (f"environment variable {name}", _split(text) if setting.many else text)
    return layer_of("environment", said)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []
