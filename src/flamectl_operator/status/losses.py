"""Pods that vanished or terminate although the operator did not delete them."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from flamectl_operator.api.constants import EXECUTOR_MANAGER, OBJECT_CACHE, SESSION_MANAGER
from flamectl_operator.observed import pods
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.ownership import lost_metadata
from flamectl_operator.observed.pod_problem import MAX_CAUSE_LENGTH
from flamectl_operator.runtime.text import listing, one_line

#: The reason for each component.
_REASONS = {
    SESSION_MANAGER: "SessionManagerLost",
    OBJECT_CACHE: "ObjectCacheLost",
    EXECUTOR_MANAGER: "ExecutorsLost",
}

#: The cause in words, by the reason of the condition DisruptionTarget.
_DISRUPTIONS = {
    "EvictionByEvictionAPI": "evicted through the API",
    "DeletionByTaintManager": "a taint of the node is not tolerated",
    "DeletionByDeviceTaintManager": "a taint of a device is not tolerated",
    "DeletionByPodGC": "the node is gone",
    "PreemptionByScheduler": "a Pod of higher priority took the place",
    "TerminationByKubelet": "ended by the kubelet of the node",
}
#: The consequence of the loss, after which nobody has to act.
_REPLACED = ". The operator replaces what is still wanted"
_FOLLOWS = {
    SESSION_MANAGER: ". The operator creates another one. Executors are replaced when it is ready, unless sessions persist"
}
#: The same where the watch shows the Pod no more, because it lost its label or is gone.
_FOLLOW_IF_GONE = {
    SESSION_MANAGER: ". The operator restores its labels if it still runs. Otherwise it creates another one, and replaces"
    " executors when that is ready, unless sessions persist",
    OBJECT_CACHE: ". The operator restores the labels of one that still runs, and replaces what is still wanted",
}


@dataclass(frozen=True)
class Loss:
    """An event about Pods of one component that vanished or terminate."""

    reason: str
    message: str


def loss_events(earlier: ObservedCluster, observed: ObservedCluster, deleted: Collection[str]) -> Iterator[Loss]:
    """Yield an event for the Pods of each component that vanished since the pass before, and one for those that terminate."""
    # A snapshot keeps the components whose Pods have not changed.
    before, after = set(map(id, earlier.components)), set(map(id, observed.components))
    now = {each.pod.uid: each for each in observed.components if id(each) not in before}
    left = [each for each in earlier.components if id(each) not in after and each.live]
    lost = [(each, now.get(each.pod.uid)) for each in left if each.pod.uid not in deleted]
    lost = [(each, current) for each, current in lost if current is None or current.terminating]
    for kind, reason in _REASONS.items():
        for gone in (True, False):
            some = [(each, current) for each, current in lost if each.kind == kind and (current is None) is gone]
            if not some:
                continue
            several = len(some) > 1
            lacks = {pod.uid: lost_metadata(pod, observed.owner) for pod in observed.detached} if gone else {}
            causes = (_why(each, current, lacks.get(each.pod.uid, ""), several=several) for each, current in some)
            why = "; ".join(dict.fromkeys(causes))
            names = listing([f'"{each.name}"' for each, _ in some])
            them = "them" if several else "it"
            follow = (_FOLLOW_IF_GONE if gone else _FOLLOWS).get(kind, _REPLACED)
            verb = "vanished" if gone else "are being deleted" if several else "is being deleted"
            yield Loss(
                reason, f"Pod{'s' * several} {names} {verb}. This operator did not delete {them}. Cause: {why}{follow}"
            )


def _why(earlier: Component, current: Component | None, lacks: str, *, several: bool) -> str:
    if lacks:
        return f"somebody removed {lacks}, and the Pod{'s run' if several else ' runs'} on"
    disruption = pods.condition(current.pod, "DisruptionTarget") if current is not None else None
    if disruption is not None and disruption.status == "True":
        cause = _DISRUPTIONS.get(disruption.reason) or one_line(disruption.message, MAX_CAUSE_LENGTH)
        if cause:
            return cause
    if pods.unreported(earlier.pod):
        return f'spec.nodeName names node "{earlier.pod.spec.node_name}", which may not exist'
    them, their = ("them", "their") if several else ("it", "its")
    unlabelled = f", or removed {their} labels or {their} owner reference" if current is None else ""
    return f"somebody deleted {them}{unlabelled}"
