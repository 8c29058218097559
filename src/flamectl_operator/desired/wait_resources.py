"""The resources of the executors' waiting container.

A node sets aside for a Pod what its init containers or its other containers ask for, whichever is more. So the waiting container
asks for as much as the executor's container, up to a bound, which costs nothing. A LimitRange that admits the executor's
container then admits the waiting container too, and the waiting container never keeps a Pod out of the QoS class Guaranteed.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from flamectl_operator.api import quantity
from flamectl_operator.api.constants import EXECUTOR_MANAGER, WAIT_CONTAINER
from flamectl_operator.desired.unvalidated import as_object, entries, entry


class _Amounts(NamedTuple):
    """Amounts of one resource.

    Attributes:
        request: The lowest request, which is what the container needs.
        limit: The limit, unless the request is higher or the executor's container has a lower one.
        bound: The highest request. A fraction of a processor never gets a processor of its own. Where something lowers the
            requests of the executor's container alone, as a vertical autoscaler does, no more than this is lost.
    """

    request: str
    limit: str
    bound: str


_AMOUNTS = {"cpu": _Amounts("10m", "100m", "500m"), "memory": _Amounts("16Mi", "32Mi", "512Mi")}

#: A LimitRange or a quota may demand an amount of each container. The waiting container has that of the executor's container.
_STORAGE = "ephemeral-storage"


def with_wait_resources(pod_spec: dict[str, Any]) -> dict[str, Any]:
    """Return a merged Pod spec with the resources of the waiting container that its author leaves out."""
    inits = entries(pod_spec, "initContainers")
    authored = entry(pod_spec, "initContainers", WAIT_CONTAINER).get("resources", {})
    if not all(isinstance(each, dict) for each in (authored, *_parts(authored))):
        return pod_spec
    requests, limits = (dict(authored.get(part, {})) for part in ("requests", "limits"))
    main = entry(pod_spec, "containers", EXECUTOR_MANAGER).get("resources")
    for name, (lowest, usual, bound) in _AMOUNTS.items():
        whole = pod_spec.get("resources")
        free = _asked(main, name) or _asked(whole, name) or lowest
        limit = _smallest((usual, _limit(main, name) or _limit(whole, name) or usual))
        request = _largest((lowest, _smallest((free, bound))))
        # The author may have set one of the two, and a request must not exceed its limit.
        requests.setdefault(name, _smallest((request, limits.get(name, request))))
        limits.setdefault(name, _largest((limit, requests[name])))
    if main and _STORAGE not in requests and _STORAGE not in limits:
        for part, amounts in (("requests", requests), ("limits", limits)):
            if (asked := _positive(_amount(main, part, _STORAGE))) is not None:
                amounts[_STORAGE] = asked
    resources = {**authored, "requests": requests, "limits": limits}
    fitted = [each | {"resources": resources} if each.get("name") == WAIT_CONTAINER else each for each in inits]
    return pod_spec | {"initContainers": fitted}


def _parts(resources: Any) -> Iterable[Any]:
    return (as_object(resources).get(part, {}) for part in ("requests", "limits"))


def _asked(resources: Any, name: str) -> Any:
    """Return the request for a resource, which is the limit where only that is set; None where it is no quantity above 0."""
    request = _amount(resources, "requests", name)
    return _positive(_amount(resources, "limits", name) if request is None else request)


def _limit(resources: Any, name: str) -> Any:
    return _positive(_amount(resources, "limits", name))


def _amount(resources: Any, part: str, name: str) -> Any:
    return as_object(as_object(resources).get(part)).get(name)


def _positive(amount: Any) -> Any:
    return amount if quantity.amount(amount) > 0 else None


def _smallest(amounts: Iterable[Any]) -> Any:
    return min(amounts, key=quantity.amount)


def _largest(amounts: Iterable[Any]) -> Any:
    return max(amounts, key=quantity.amount)
