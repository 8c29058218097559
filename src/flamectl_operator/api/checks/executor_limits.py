"""The limits of an executor: those of its container and, where it has none, those of its Pod, which the kubelet gives it."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from flamectl_operator.api.fields.checked_template import resources
from flamectl_operator.api.flamecluster import ExecutorManagerSpec
from flamectl_operator.api.quantity import parse_quantity, quantity_or_none

CONTAINER_LIMITS = "spec.executorManager.resources.limits"
POD_LIMITS = "spec.executorManager.podTemplate.spec.resources.limits"
#: Resources of a whole Pod that bound a container.
_OF_PODS = ("cpu", "memory")


class Limit(NamedTuple):
    """A limit of an executor in cores, bytes or pieces, and the path of the field that sets it."""

    amount: Decimal
    path: str


def executor_limits(spec: ExecutorManagerSpec) -> dict[str, Limit]:
    """Return the limits of an executor by the name of the resource. A limit of 0 says the same as no limit."""
    found = _pod_limits(spec.pod_template)
    for name, quantity in spec.resources.limits.items():
        found[name] = Limit(parse_quantity(quantity), f"{CONTAINER_LIMITS}.{name}")
    return {name: limit for name, limit in found.items() if limit.amount > 0}


def fields_of(limits: Mapping[str, Limit]) -> str:
    """Return the fields that set limits, for a message."""
    places = (POD_LIMITS if limit.path.startswith(POD_LIMITS) else CONTAINER_LIMITS for limit in limits.values())
    return " or ".join(dict.fromkeys(places)) or CONTAINER_LIMITS


def gpu_limit(limits: Mapping[str, Limit]) -> int | None:
    """Return how many GPUs an executor has; None where its limits do not tell, as with other devices of the same vendor."""
    gpus = {name: limit.amount for name, limit in limits.items() if name.endswith("/gpu")}
    vendors = tuple(name.removesuffix("gpu") for name in gpus)
    others = any(name.startswith(vendors) and name not in gpus for name in limits)
    return int(sum(gpus.values())) if gpus and not others else None


def _pod_limits(template: dict[str, Any] | None) -> dict[str, Limit]:
    limits = resources(template).get("", {}).get("limits")
    amounts = {name: quantity_or_none(limits.get(name)) for name in _OF_PODS} if isinstance(limits, dict) else {}
    return {name: Limit(amount, f"{POD_LIMITS}.{name}") for name, amount in amounts.items() if amount is not None}
