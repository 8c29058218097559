"""Reads what the scheduler says of a Pod that has no node."""

import re
from datetime import datetime

from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed.pod_problem import MAX_CAUSE_LENGTH, PodProblem
from flamectl_operator.observed.pods import condition
from flamectl_operator.runtime.text import one_line

#: Reason of the scheduler for a Pod without a node.
UNSCHEDULABLE = "Unschedulable"
#: The scheduler's words about preemption, which say nothing that a person could change.
_PREEMPTION = re.compile(r"(?: no new claims to deallocate,)? preemption: .*|(?<=\.) not found$", re.DOTALL)
#: Devices that ResourceClaims hold are no matter of preemption.
_DEVICES = re.compile(r"allocate|cannot fit resource|extended resource claim")
#: Words of the scheduler, and of known plugins of it, for what other Pods take or keep away.
_LACKS_ROOM = re.compile(
    r"Insufficient |Too many pods|free ports|anti-affinity|topology spread constraints(?! \(missing)|max volume count"
    rf"|ElasticQuota|cannot align|{_DEVICES.pattern}"
)
#: The form in which kube-scheduler and Volcano say what nodes lack. Other causes in this form are no lack of room.
_OF_NODES = re.compile(r"nodes are (?:un)?available: |no nodes available")
#: Words of schedulers that place a group of Pods at once (Volcano, the plugins Coscheduling and GangScheduling) for a Pod that
#: waits for the others of its group.
OF_GROUP = r"(?i:\bgang\b|\bpod ?group\b|sibling pods|\bminCount\b)"
#: The scheduler's words for a Pod that no node can take, whatever other Pods leave: since 1.31 also for one that asks for more
#: than each node has.
_NO_ROOM_HELPS = re.compile(r"preemption: 0/(\d+) nodes are available: \1 Preemption is not helpful for scheduling")
#: Words of the scheduler about claims whose volume, or that themselves, are mostly made within seconds.
_CLAIM_IN_THE_MAKING = re.compile(r"unbound immediate PersistentVolumeClaims|ephemeral volume controller")
#: Reason of the scheduler for a Pod whose scheduling failed by an error, such as a volume that was not made in time.
SCHEDULER_ERROR = "SchedulerError"
#: Reason of the API server for a Pod with scheduling gates.
GATED = "SchedulingGated"


def unschedulable(pod: PodView) -> PodProblem | None:
    """Return why the scheduler finds no node for the Pod; None otherwise."""
    scheduled = condition(pod, "PodScheduled")
    if scheduled is None or scheduled.status != "False" or pod.spec.node_name or gates_lifted(pod):
        return None
    if gates := ", ".join(f'"{gate.name}"' for gate in pod.spec.scheduling_gates):
        return PodProblem(scheduled.reason or GATED, "somebody must remove them", f"scheduling gates {gates}")
    return PodProblem(scheduled.reason or UNSCHEDULABLE, one_line(schedulers_words(pod), MAX_CAUSE_LENGTH))


def schedulers_words(pod: PodView) -> str:
    """Return all that the scheduler says of a Pod without a node, but for preemption; a cause has no room for a long text."""
    scheduled = condition(pod, "PodScheduled")
    return _PREEMPTION.sub("", scheduled.message) if scheduled is not None else ""


def gates_lifted(pod: PodView) -> bool:
    """Return whether a Pod has lost its scheduling gates and no scheduler has looked at it since.

    The API server sets the condition for the gates when it creates the Pod, and only a scheduler changes it.
    """
    scheduled = condition(pod, "PodScheduled")
    return scheduled is not None and scheduled.reason == GATED and not pod.spec.scheduling_gates


def unschedulable_since(pod: PodView) -> datetime | None:
    """Return since when the scheduler has found no node for the Pod; None otherwise, and for a Pod with scheduling gates."""
    scheduled, problem = condition(pod, "PodScheduled"), unschedulable(pod)
    if scheduled is None or problem is None or problem.reason != UNSCHEDULABLE:
        return None
    return scheduled.last_transition_time or pod.metadata.creation_timestamp


def awaits_claim_since(pod: PodView) -> datetime | None:
    """Return since when the scheduler finds no node, because a claim or its volume is being made; None otherwise.

    A claim of `persistence` is made just before the Pod, whose name it has, and the scheduler may hear of the Pod first.
    """
    words = schedulers_words(pod)
    awaited = _CLAIM_IN_THE_MAKING.search(words) is not None or f'persistentvolumeclaim "{pod.name}" not found' in words
    return unschedulable_since(pod) if awaited else None


def room_may_help(pod: PodView) -> bool:
    """Return whether the end of other Pods may give an unschedulable Pod a node, as far as the scheduler's words tell.

    A scheduler that has nominated a node ends the Pods that are in the way there itself, and waits for their grace periods. The
    words of a scheduler that nobody knows may mean anything.
    """
    if pod.status.nominated_node_name:
        return False
    scheduled = condition(pod, "PodScheduled")
    message, words = scheduled.message if scheduled is not None else "", schedulers_words(pod)
    if _NO_ROOM_HELPS.search(message) and not _DEVICES.search(words):
        return False
    return _LACKS_ROOM.search(words) is not None or not (_OF_NODES.search(words) or re.search(OF_GROUP, words))


def waits_for_group(pod: PodView) -> bool:
    """Return whether an unschedulable Pod waits until the other Pods of its group are there, as far as the words tell."""
    scheduled = condition(pod, "PodScheduled")
    return scheduled is not None and re.search(OF_GROUP, scheduled.message) is not None
