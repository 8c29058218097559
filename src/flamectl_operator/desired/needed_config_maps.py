"""Finds the ConfigMaps without which a Pod cannot start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flamectl_operator.desired.unvalidated import as_object, entries


def needed_config_maps(spec: dict[str, Any]) -> dict[str, set[str]]:
    """Return the ConfigMaps that a Pod's spec refers to, by name, each with the keys that it must have.

    References that are optional are left out.
    """
    needed: dict[str, set[str]] = {}
    for reference, keys in _references(spec):
        name = str(reference.get("name") or "")
        if name and reference.get("optional") is not True:
            needed.setdefault(name, set()).update(str(key) for key in keys if key)
    return needed


def _references(spec: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    for volume in entries(spec, "volumes"):
        projected = entries(as_object(volume.get("projected")), "sources")
        for source in (volume, *projected):
            reference = as_object(source.get("configMap"))
            yield reference, [item.get("key") for item in entries(reference, "items")]
    for container in (*entries(spec, "initContainers"), *entries(spec, "containers")):
        for source in entries(container, "envFrom"):
            yield as_object(source.get("configMapRef")), []
        for variable in entries(container, "env"):
            reference = as_object(as_object(variable.get("valueFrom")).get("configMapKeyRef"))
            yield reference, [reference.get("key")]
