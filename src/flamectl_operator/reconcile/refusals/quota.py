"""Refusals by a quota: the amounts that they name, and whether the end of other Pods would make room."""

import re
from collections.abc import Mapping
from decimal import Decimal

from flamectl_operator.api.quantity import amount
from flamectl_operator.kube.errors import ApiError
from flamectl_operator.kube.pod_views import ContainerResources, PodView

#: The requests of a Pod, what others use, and the bounds of a quota, as far as it lacks them: `requested: pods=1, used: pods=3,
#: limited: pods=3`.
_AMOUNTS = re.compile(r"requested: (\S+), used: (\S+), limited: (\S+)")
_AMOUNT = re.compile(r"(?<![\w./-])([\w./-]+)=([\w.]+)")


class QuotaRefusals:
    """The Pods of one FlameCluster whose create a quota refused in this pass or the last one.

    The deletion lock is taken by the refusals of the last pass. Earlier ones say nothing about now, because another process may
    have created the Pod meanwhile.
    """

    def __init__(self) -> None:
        #: The names, each with the time since which it has been refused, by `boottime`, if the end of other Pods may help. It is
        #: replaced, not changed, because snapshots have it.
        self.names: Mapping[str, float | None] = {}
        self._of_this_pass: Mapping[str, float | None] = {}
        self._since: dict[str, float] = {}

    def begin_pass(self) -> None:
        """Forget the refusals of the pass before the last one."""
        self.names, self._of_this_pass = self._of_this_pass, {}
        self._since = {name: since for name, since in self._since.items() if name in self.names}

    def forget(self, name: str) -> None:
        """Forget the refusal of a Pod, because it says nothing about another attempt."""
        self.names, self._of_this_pass = _without(self.names, name), _without(self._of_this_pass, name)

    def add(self, name: str, now: float, *, helps: bool) -> None:
        """Remember a refusal at a `boottime`, and whether the end of other Pods may help."""
        refused = {name: self._since.setdefault(name, now) if helps else None}
        self.names, self._of_this_pass = {**self.names, **refused}, {**self._of_this_pass, **refused}


def _without(refused: Mapping[str, float | None], name: str) -> Mapping[str, float | None]:
    return {each: since for each, since in refused.items() if each != name} if name in refused else refused


def never_admits(error: ApiError) -> bool:
    """Return whether a quota refuses a Pod that asks for more than the quota has, whatever else ends."""
    asked, _, most = _amounts(error)
    return any(amount(quantity) > amount(most[name]) for name, quantity in asked.items() if name in most)


def exceeds_without(error: ApiError, pod: PodView) -> bool:
    """Return whether a quota would refuse a Pod even if another one that runs now were gone, as far as that is known."""
    asked, used, most = _amounts(error)
    return not pod.spec.init_containers and any(
        amount(quantity) + amount(used[name]) - _use(pod, name) > amount(most[name])
        for name, quantity in asked.items()
        if name in used and name in most
    )


def _use(pod: PodView, name: str) -> Decimal:
    """Return how much a Pod without init containers uses of what a quota counts, such as `limits.cpu` or `cpu`; at least that."""
    if name in ("pods", "count/pods"):
        return Decimal(1)
    resource = name.removeprefix("limits.").removeprefix("requests.")
    spec = pod.spec
    of_pod = _most(spec.resources, resource) if spec.resources is not None else Decimal(0)
    of_containers = (_most(each.resources, resource) for each in spec.containers if each.resources is not None)
    # A quota counts the containers only where the whole Pod asks for none.
    return (of_pod or sum(of_containers, Decimal(0))) + amount((spec.overhead or {}).get(resource))


def _most(asks: ContainerResources, resource: str) -> Decimal:
    return max(amount((each or {}).get(resource)) for each in (asks.requests, asks.limits))


def room_helps(error: ApiError, executors: int) -> bool:
    """Return whether the end of executors may help against the refusal by a quota.

    A quota with scopes, such as a PriorityClass, may count other Pods alone. Then fewer Pods use it than there are executors.
    """
    _, used, _ = _amounts(error)
    counted = next((amount(used[name]) for name in ("pods", "count/pods") if name in used), executors)
    return counted >= executors and not never_admits(error)


def _amounts(error: ApiError) -> list[dict[str, str]]:
    found = _AMOUNTS.search(str(error))
    return [dict(_AMOUNT.findall(part)) for part in (found.groups() if found is not None else ("", "", ""))]
