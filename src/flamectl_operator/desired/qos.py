"""The QoS class of an executor's Pod."""

from __future__ import annotations

from typing import Any

from flamectl_operator.api.constants import WAIT_CONTAINER
from flamectl_operator.api.quantity import quantity_or_none
from flamectl_operator.desired.unvalidated import as_object, entries, entry


def keep_guaranteed(pod_spec: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """Keep the QoS class Guaranteed, and with it exclusive CPUs, for a Pod whose other containers all qualify for it.

    Args:
        pod_spec: The merged Pod spec.
        asked: The author's Pod spec; its `requests` for the waiting container stay unchanged.
    """
    inits = entries(pod_spec, "initContainers")
    others = [*entries(pod_spec, "containers"), *(each for each in inits if each.get("name") != WAIT_CONTAINER)]
    authored = entry(asked, "initContainers", WAIT_CONTAINER)
    if "requests" in as_object(authored.get("resources")) or not all(map(_guaranteed, others)):
        return pod_spec
    fitted = [
        each | {"resources": each["resources"] | {"requests": each["resources"]["limits"]}}
        if each.get("name") == WAIT_CONTAINER
        else each
        for each in inits
    ]
    return pod_spec | {"initContainers": fitted}


def _guaranteed(container: dict[str, Any]) -> bool:
    """Return whether a container's requests for CPU and memory equal its limits."""
    resources = as_object(container.get("resources"))
    limits, requests = (as_object(resources.get(part)) for part in ("limits", "requests"))
    amounts = [
        (quantity_or_none(limits.get(each)), quantity_or_none(requests.get(each, limits.get(each))))
        for each in ("cpu", "memory")
    ]
    return all(limit is not None and request == limit > 0 for limit, request in amounts)
