"""Notices for a person although no Pod fails.

They tell of paused sessions, a session manager that does not answer, foreign Pods, and unhealthy devices.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from flamectl_operator.api.constants import APP_LABEL, EXECUTOR_MANAGER, KIND, OBJECT_CACHE, SESSION_MANAGER
from flamectl_operator.api.flamecluster import FlameClusterSpec
from flamectl_operator.api.status import Condition, ConditionType
from flamectl_operator.desired import names
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed import devices
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.ownership import is_predecessors
from flamectl_operator.observed.pods import TERMINAL_PHASES
from flamectl_operator.planning.effective.autoscaling import LONGEST_SESSION_NAME
from flamectl_operator.planning.effective.effective_group import EffectiveGroup
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.runtime.text import date_and_time, joined, listing, one_line
from flamectl_operator.status.reason import (
    DEVICE_UNHEALTHY,
    FOREIGN_PODS,
    SESSION_MANAGER_NOT_REACHABLE,
    SESSION_PAUSED,
)

#: Seconds after which the status reports a session manager that has answered before. The operator believes its last answer for
#: longer, and one answer ends the silence, so that single requests that fail are not reported.
SILENT_AFTER_SECONDS = 60.0
#: The same for a session manager that has never answered: perhaps this operator is not meant to reach it.
FIRST_ANSWER_TIMEOUT_SECONDS = 300.0
#: The labels of a foreign Pod that a Service finds, and what comes of it.
_OF_SERVICE = 'the labels by which Service "{}" finds its Pods, so clients may reach it'
#: The most characters of the kind and of the name of an owner, which anybody may write.
_MAX_OWNER = 63
#: The same of the texts about a device, which its driver writes.
_MAX_DEVICE = 100
_AT_ONCE = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Notice:
    """A message for a person, and the time from which it is reported."""

    #: No Pods of any component fail.
    kind: ClassVar[str] = ""

    reason: str
    message: str
    due: datetime = _AT_ONCE

    def __str__(self) -> str:
        """Return the text for messages."""
        return self.message


def paused_sessions(observed: ObservedCluster) -> Notice | None:
    """Return the notice about the paused sessions of the last answer; None when there are none."""
    answer = observed.flame.answer
    if answer is None or not answer.paused:
        return None
    [first, *others] = answer.paused
    # Only the first is named, and an answer may have thousands, whose names take long to make safe.
    names = [f'"{one_line(first.name, LONGEST_SESSION_NAME)}"', *(each.name for each in others)]
    verb, them = ("are", "them") if others else ("is", "it")
    advice = f"see the log of an executor for the cause, correct it, close {them} and open another"
    return Notice(SESSION_PAUSED, f"session {listing(names, 1)} {verb} paused: {first.paused.rstrip('.')} ({advice})")


def foreign_pod(observed: ObservedCluster) -> Notice | None:
    """Return the notice about Pods with the labels of a component that are none of the operator's, by the first of them.

    It may be a copy of a Pod, or an executor of an earlier FlameCluster that lost its owner by `kubectl delete --cascade=orphan`
    or came from a backup. The garbage collector deletes the Pods of an earlier FlameCluster of this name.
    """
    owner = observed.owner
    effects = {
        SESSION_MANAGER: _OF_SERVICE.format(names.session_manager(owner.name)),
        OBJECT_CACHE: _OF_SERVICE.format(names.object_cache(owner.name)),
        EXECUTOR_MANAGER: "the labels of an executor, so it may take work",
    }
    # Of a Pod with a name that the operator gives, another message tells whose it is.
    others = [
        pod
        for pod in observed.other_pods
        if pod.name != names.session_manager(owner.name) and names.object_cache_ordinal(owner.name, pod.name) is None
        if not is_predecessors(pod, owner)
    ]
    running = [pod for pod in others if not pod.terminating and pod.status.phase not in TERMINAL_PHASES]
    for component, effect in effects.items() if running else ():
        selector = owner.selector(component).items()
        if found := [pod for pod in running if selector <= pod.labels.items()]:
            return _foreign(found, effect)
    return None


def _foreign(pods: Sequence[PodView], effect: str) -> Notice:
    """Return the notice about foreign Pods. Those that somebody else controls would be created again.

    It does not count them, so that it stays the same while a controller creates hundreds.
    """
    pod, several = pods[0], len(pods) > 1
    (them, their), others = ("them", "their") if several else ("it", "its"), ", and so have others" * several
    of, advice, controller = "", f"delete {them}, or remove {their} label {APP_LABEL}", pod.controller
    if controller is not None and controller.kind not in {"", KIND}:
        whose = f'{one_line(controller.kind, _MAX_OWNER)} "{one_line(controller.name, _MAX_OWNER)}"'
        of, advice = f" of {whose}", f"remove {their} label {APP_LABEL}, or correct {whose}, which controls {them}"
    return Notice(FOREIGN_PODS, f'Pod "{pod.name}"{of} is not the operator\'s, but has {effect}{others} ({advice})')


def unhealthy_devices(observed: ObservedCluster) -> Notice | None:
    """Return the notice about Pods with a device that its driver calls unhealthy; None when there are none."""
    # Nearly all containers report no device, and a list costs no call for each of them.
    reports = [
        (each, status)
        for each in observed.components
        for status in (*each.pod.status.container_statuses, *each.pod.status.init_container_statuses)
        if status.allocated_resources_status
    ]
    if not reports:
        return None
    # A container that has ended is told with its device.
    found = {each.name: (each, status) for each, status in reports if each.live and devices.unhealthy(status)}
    if not found:
        return None
    first, status = found[min(found)]
    device = devices.unhealthy(status)[0].resources[0]
    what = f"device {devices.unhealthy_device(status)} of Pod {first.name}"
    said = f": {one_line(device.message, _MAX_DEVICE)}" if device.message else ""
    others = f", and so are devices of {len(found) - 1} more" if len(found) > 1 else ""
    advice = f"an administrator checks node {first.pod.spec.node_name}; delete the Pod to replace it with other devices"
    return Notice(DEVICE_UNHEALTHY, f"{what} is unhealthy{others}{said} ({advice})")


def silence(conditions: Iterable[Condition], effective: EffectiveSpec) -> Notice | None:
    """Return since when the session manager does not answer; None when it does, or when nothing depends on its answers.

    The time is that of the condition `SessionManagerReachable`, which survives a restart of the operator. The notice says what
    the operator leaves undone meanwhile.
    """
    found = {each.type: each for each in conditions}
    reachable = found.get(ConditionType.SESSION_MANAGER_REACHABLE)
    if reachable is None or reachable.status != "False" or not effective.flame_can_be_asked:
        return None
    if not (left_undone := list(_left_undone(effective.desired.spec, effective.group))):
        return None
    # Only an answer brings this condition, or a Pod without an address, which cannot answer.
    patience = SILENT_AFTER_SECONDS if ConditionType.EXECUTORS_REGISTERED in found else FIRST_ANSWER_TIMEOUT_SECONDS
    since = reachable.last_transition_time
    undone = f"Since {date_and_time(since)}, and until it answers, {', '.join(left_undone)}"
    return Notice(
        SESSION_MANAGER_NOT_REACHABLE, joined([reachable.message, undone]), since + timedelta(seconds=patience)
    )


def due_silence(conditions: Iterable[Condition], effective: EffectiveSpec, now: datetime) -> Notice | None:
    """Return the silence that has lasted long enough to be reported; None when there is none. See `silence`."""
    found = silence(conditions, effective)
    return found if found is not None and found.due <= now else None


def _left_undone(spec: FlameClusterSpec, wanted: EffectiveGroup) -> Iterator[str]:
    """Yield what does not happen without answers, as clauses."""
    if wanted.replicas:
        yield "executors that do not register are not replaced"
        if wanted.drain_timeout:
            yield "executors are deleted without a drain"
    if wanted.scaling is not None:
        yield "the number of executors does not follow the demand"
    if spec.idle is not None and not wanted.suspended:
        yield "an idle cluster does not suspend itself"
