"""The QoS class of an executor's Pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flamectl_operator.api.constants import WAIT_CONTAINER
from flamectl_operator.api.quantity import parse_quantity
from flamectl_operator.desired.shapes import as_object, entries, entry

if TYPE_CHECKING:
    from decimal import Decimal


def keep_guaranteed(pod_spec: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """Keeps the QoS class Guaranteed, and so processors of its own, for a Pod whose other containers all have it.

    Args:
        pod_spec: The Pod, with all that is merged into it.
        asked: What the author asks for; `requests` of the waiting container there are left as they are.
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
    """Whether a container asks for just as much processor time and memory as it may have."""
    resources = as_object(container.get("resources"))
    limits, requests = (as_object(resources.get(part)) for part in ("limits", "requests"))
    amounts = [(_amount(limits.get(each)), _amount(requests.get(each, limits.get(each)))) for each in ("cpu", "memory")]
    return all(limit is not None and request == limit > 0 for limit, request in amounts)


def _amount(quantity: Any) -> Decimal | None:
    """The value of a quantity however it is written; None for what is none, which the API server refuses."""
    if isinstance(quantity, bool) or not isinstance(quantity, int | str):
        return None
    try:
        return parse_quantity(quantity)
    except ValueError:
        return None
