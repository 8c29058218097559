"""The ConfigMap `<name>-client`: flame.yaml, which Flame's clients read from `~/.flame`."""

from __future__ import annotations

from typing import Any

from flamectl_operator.api.constants import CLIENT_CONFIG_FILE
from flamectl_operator.api.fields.client_config import ClientConfigSpec
from flamectl_operator.desired import names
from flamectl_operator.desired.flame_config import render
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.desired.unvalidated import as_object


def client_config_map(owner: Identity, wanted: ClientConfigSpec, config: dict[str, Any]) -> dict[str, Any]:
    """Return the desired ConfigMap, with endpoints and certificates of `config`, the content of flame-cluster.yaml."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": owner.metadata(names.client_config(owner.name), "client"),
        "data": {CLIENT_CONFIG_FILE: render(client_config(owner.name, wanted, config))},
    }


def client_config(name: str, wanted: ClientConfigSpec, config: dict[str, Any]) -> dict[str, Any]:
    """Return the content of flame.yaml: one context, which is current."""
    context: dict[str, Any] = {"name": name, "cluster": _service(config, "cluster")}
    if cache := _service(config, "cache"):
        context["cache"] = cache
    if wanted.package.excludes:
        context["package"] = {"excludes": list(wanted.package.excludes)}
    return {"current-context": name, "contexts": [context]}


def _service(config: dict[str, Any], section: str) -> dict[str, Any]:
    """Return the client settings of a service; empty when flame-cluster.yaml does not have it."""
    service = as_object(config.get(section))
    known = {"endpoint": service["endpoint"]} if "endpoint" in service else {}
    shared = as_object(as_object(config.get("security")).get("tls"))  # of Flame 0.7
    authority = (as_object(service.get("tls")) or shared).get("ca_file")
    return known | ({"tls": {"ca_file": authority}} if known and authority else {})
