"""Reads a Pod's status in the terms of decisions: ready, failed, terminal, started."""

import re
from datetime import datetime
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from flamectl_operator.api.constants import EXECUTOR_MANAGER, GRACE_ANNOTATION, OBJECT_CACHE, SESSION_MANAGER
from flamectl_operator.kube.pod_views import ContainerStatus, PodCondition, PodView
from flamectl_operator.observed.pod_problem import (
    OOM_KILLED,
    PodProblem,
    ended_problem,
    phase_problem,
    waiting_problem,
)
from flamectl_operator.runtime.text import date_and_time

#: Reason for a Pod whose node does not report.
NODE_NOT_REPORTING = "NodeNotReporting"
#: Reason for an executor whose main container started more than once.
RESTARTED_IN_PLACE = "RestartedInPlace"

#: A grace period as the operator writes it.
_SECONDS = re.compile(r"[0-9]{1,9}")
#: Reasons in the status of a Pod that ends because its node shuts down.
_SHUTDOWN = frozenset({"Terminated", "NodeShutdown"})

TERMINAL_PHASES = frozenset({"Failed", "Succeeded"})
#: The main containers of all components.
_MAIN = frozenset({SESSION_MANAGER, EXECUTOR_MANAGER, OBJECT_CACHE})


def condition(pod: PodView, kind: str) -> PodCondition | None:
    """Return a condition of a Pod by its type."""
    for each in pod.status.conditions:
        if each.type == kind:
            return each
    return None


def is_terminal(pod: PodView, main: str) -> bool:
    """Return whether the Pod has ended for good and must be replaced, because the kubelet does not restart it.

    An executor is also terminal when its main container ended while a sidecar still runs, and when it was started again in place:
    Flame has lost the node then. `main` is empty for a Pod whose containers the kubelet restarts in place (restartPolicy Always).
    """
    if pod.status.phase in TERMINAL_PHASES:
        return True
    status = container(pod, main)
    return status is not None and (status.state.terminated is not None or restarted_in_place(pod, main) is not None)


def restarted_in_place(pod: PodView, main: str) -> PodProblem | None:
    """Return the problem that the main container was or will be restarted in place; None when it was not, or when it may be.

    A kubelet restarts the containers of a Pod with restartPolicy Never when a restart rule says so, or after it lost them.
    `main` is empty for a Pod whose containers the kubelet restarts in place.
    """
    status = container(pod, main)
    if status is None:
        return None
    restarting = condition(pod, "AllContainersRestarting")
    again = status.restart_count > 0 or status.last_state.terminated is not None
    if not again and (restarting is None or restarting.status != "True"):
        return None
    return PodProblem(RESTARTED_IN_PLACE, "it restarted in place, so Flame has lost its node", f'container "{main}"')


def container_identity(pod: PodView, name: str) -> str:
    """Return what tells a container from the next one of its name: its id, else the time of its start; empty before its start.

    The count of restarts does not, because a kubelet that lost a container counts from zero again.
    """
    status = container(pod, name)
    if status is None:
        return ""
    last, state = status.last_state.terminated, status.state
    runs = (state.running, state.terminated, last)
    return status.container_id or next((each.started for each in runs if each is not None and each.started), "")


def is_ready(pod: PodView) -> bool:
    """Return whether the Pod is ready: its condition is true, and it is neither terminating nor terminal.

    A Pod whose phase was set to Failed may keep `Ready=True`, so the phase comes first.
    """
    ready = condition(pod, "Ready")
    return (
        not pod.terminating
        and pod.status.phase not in TERMINAL_PHASES
        and ready is not None
        and ready.status == "True"
        and failure(pod) is None
    )


def address(pod: PodView) -> str:
    """Return the IP address at which only the containers of a running and ready Pod answer; empty where there is none.

    Only the kubelet writes `status.podIP`. A Pod on its node's network has the address of the node, where others may answer.
    """
    if not is_ready(pod) or pod.status.phase != "Running" or pod.spec.host_network:
        return ""
    return _own_address(pod.status.pod_ip)


@lru_cache
def _own_address(text: str) -> str:
    """Return an IP address that can be that of one Pod; empty for another text."""
    try:
        ip = ip_address(text)
    except ValueError:
        return ""
    shared = ip.is_unspecified or ip.is_multicast or ip.is_link_local
    indirect = isinstance(ip, IPv6Address) and (ip.scope_id is not None or ip.ipv4_mapped is not None)
    return "" if shared or indirect else str(ip)


def grace_without_hook(pod: PodView) -> int | None:
    """Return the grace period in seconds of a Pod with a hook for its end, without the time of the hook; None of other Pods."""
    text = pod.annotations.get(GRACE_ANNOTATION, "")
    return max(1, int(text)) if _SECONDS.fullmatch(text) else None


def answers_elsewhere(before: PodView, now: PodView | None) -> bool:
    """Return whether a Pod, or its successor under its name, does not answer where it did, or not for the same owner."""
    if now is None or now.uid != before.uid or now.controller != before.controller:
        return True
    return address(now) != address(before)


def ready_since(pod: PodView) -> datetime | None:
    """Return since when the Pod has been ready; None when it is not."""
    ready = condition(pod, "Ready")
    return ready.last_transition_time if ready is not None and is_ready(pod) else None


def has_started(pod: PodView, main: str) -> bool:
    """Return whether the main container has ever run, that is, all init containers have finished."""
    status = container(pod, main)
    return status is not None and (
        status.state.running is not None or status.state.terminated is not None or status.restart_count > 0
    )


def restarts(pod: PodView, name: str) -> int:
    """Return how often a container has been restarted."""
    status = container(pod, name)
    return status.restart_count if status is not None else 0


def running_since(pod: PodView, main: str) -> datetime | None:
    """Return since when a container has been running; None when it is not."""
    status = container(pod, main)
    return status.state.running.started_at if status is not None and status.state.running is not None else None


def failure(pod: PodView) -> PodProblem | None:
    """Return why the Pod has failed; None when it has not.

    A Pod has failed when its phase is Failed, a container waits with one of `pod_problem.FAILING_REASONS`, or a container that
    should run is in `state.terminated`, exit code 0 included: Flame's fatal errors exit with 0. `lastState` does not count. The
    end of the main container comes first, because sidecars end after it, and kubelets report containers in the order of names.
    """
    if pod.status.phase in TERMINAL_PHASES:
        return _phase_problem(pod)
    main = _ended_main(pod)
    if main is not None:
        return ended_problem(main, "Terminated")
    for status in pod.status.init_container_statuses:
        if (failure := waiting_problem(status) or _init_failure(status)) is not None:
            return failure
    for status in pod.status.container_statuses:
        if (failure := waiting_problem(status) or ended_problem(status, "Terminated")) is not None:
            return failure
    return None


def disrupted(pod: PodView) -> bool:
    """Return whether a Pod ended because its node is gone or needed its place, so that its end says nothing about the Pod.

    These ends do not count:

    - an eviction by the kubelet, because the Pod may have used too much memory or disk itself;
    - the end of a Pod that somebody is about to delete (the scheduler, a taint, the eviction API), because it ended by itself
      before anybody stopped it;
    - a refusal by the kubelet, because the next Pod may be refused too, and at once;
    - the end of a Pod that was created for a node that does not exist.
    """
    return _disruption(pod) is not None and not unreported(pod)


def unreported(pod: PodView) -> bool:
    """Return whether a Pod was created with the name of its node, and no kubelet has reported it: the node may not exist.

    A scheduler that chooses a node says so in the condition PodScheduled. The Pod garbage collector sets another one.
    """
    status = pod.status
    if not pod.spec.node_name or status.init_container_statuses or status.container_statuses:
        return False
    return all(each.type == "DisruptionTarget" for each in status.conditions)


def _disruption(pod: PodView) -> PodProblem | None:
    target = condition(pod, "DisruptionTarget")
    if target is None or target.status != "True":
        return None
    if target.reason == "DeletionByPodGC":
        # The phase is Failed for a moment before the garbage collector deletes the Pod.
        remedy = "correct {template}.nodeName" if unreported(pod) else ""
        return PodProblem(target.reason, target.message, remedy=remedy)
    return _end_by_kubelet(pod) if target.reason == "TerminationByKubelet" else None


def _end_by_kubelet(pod: PodView) -> PodProblem | None:
    """Return why a kubelet ended a Pod, where that is no failure of the Pod."""
    if pod.status.reason in _SHUTDOWN:
        return PodProblem("NodeShutdown", "its node shuts down, so this is no failure of the Pod")
    if pod.status.reason == "Preempting":
        return PodProblem("Preempting", "its node made room for a critical Pod, so this is no failure of the Pod")
    return None


def init_container_failed(pod: PodView) -> bool:
    """Return whether an init container failed, so that the other containers never ran. Sidecars end after the others."""
    return any(
        _init_failure(each) is not None and not is_sidecar(pod, each) for each in pod.status.init_container_statuses
    )


def is_sidecar(pod: PodView, status: ContainerStatus) -> bool:
    """Return whether an init container runs beside the other containers, and is restarted in place."""
    return any(each.name == status.name and each.restart_policy == "Always" for each in pod.spec.init_containers)


def not_reporting(pod: PodView) -> PodProblem | None:
    """Return what is wrong with a Pod whose node does not report; None when it does, or when that is not known.

    The node lifecycle controller then sets the condition `Ready` to false and changes nothing else. A readiness gate sets it with
    a reason.
    """
    ready, containers = condition(pod, "Ready"), condition(pod, "ContainersReady")
    if pod.terminating or ready is None or containers is None or pod.status.phase in TERMINAL_PHASES:
        return None
    silent = ready.status != "True" and not ready.reason and containers.status == "True" and failure(pod) is None
    since = ready.last_transition_time if silent else None
    if since is None:
        return None
    return PodProblem(
        NODE_NOT_REPORTING,
        f"it has not reported since {date_and_time(since)}",
        f'node "{pod.spec.node_name}"',
        remedy="if it is gone for good, delete its Node object",
    )


def failed_at(pod: PodView) -> datetime | None:
    """Return when a terminal Pod ended. Later writes to the Pod do not change the time."""
    ready = condition(pod, "Ready")
    turned = ready.last_transition_time if ready is not None else None
    return finished_at(pod) or turned or pod.metadata.creation_timestamp


def finished_at(pod: PodView) -> datetime | None:
    """Return when the last of the Pod's containers ended, as far as its status shows."""
    ended = [
        status.state.terminated.finished_at
        for status in pod.status.container_statuses
        if status.state.terminated is not None and status.state.terminated.finished_at is not None
    ]
    return max(ended, default=None)


def container(pod: PodView, name: str) -> ContainerStatus | None:
    """Return the status of a container by its name."""
    for status in pod.status.container_statuses:
        if status.name == name:
            return status
    return None


def _ended_main(pod: PodView) -> ContainerStatus | None:
    for status in pod.status.container_statuses:
        if status.state.terminated is not None and status.name in _MAIN:
            return status
    return None


def _phase_problem(pod: PodView) -> PodProblem:
    if (disruption := _end_by_kubelet(pod)) is not None and disrupted(pod):
        return disruption
    if pod.status.reason:
        return phase_problem(pod.status.reason, pod.status.message)
    main = _ended_main(pod)
    for status in pod.status.container_statuses if main is None else (main,):
        if (failure := ended_problem(status, pod.status.phase)) is not None:
            return failure
    # Last, because some of them are sidecars, which end after the others.
    for status in pod.status.init_container_statuses:
        if (failure := _init_failure(status)) is not None:
            return failure
    if (disruption := _disruption(pod)) is not None:
        return disruption
    return PodProblem(pod.status.phase, pod.status.message)


def _init_failure(status: ContainerStatus) -> PodProblem | None:
    ended = status.state.terminated
    # A process of the container that the kernel killed may leave exit code 0, and the kubelet counts that as a failure.
    failed = ended is not None and (ended.exit_code != 0 or ended.reason == OOM_KILLED)
    return ended_problem(status, "Error") if failed else None
