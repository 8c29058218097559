"""What a Pod's status says, in the words that decisions use: ready, failed, terminal, started, unschedulable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from flamectl_operator.kube.views import ContainerStatus, PodCondition, PodView

#: Reasons with which a container waits that mean failure rather than progress.
FAILING_REASONS = frozenset(
    {
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)
TERMINAL_PHASES = frozenset({"Failed", "Succeeded"})


@dataclass(frozen=True)
class Trouble:
    """What is wrong with a Pod, in Kubernetes' own words.

    Args:
        reason: One CamelCase word, such as `ImagePullBackOff`.
        message: The server's or kubelet's message; may be empty.
    """

    reason: str
    message: str = ""

    def __str__(self) -> str:
        """For messages: the reason, and the message if there is one."""
        return f"{self.reason}: {self.message}" if self.message else self.reason


def condition(pod: PodView, kind: str) -> PodCondition | None:
    """A condition of a Pod by its type."""
    return next((each for each in pod.status.conditions if each.type == kind), None)


def is_terminal(pod: PodView, main: str) -> bool:
    """Whether the Pod is over and has to be replaced: the kubelet does not bring it back.

    So is an executor whose main container ended while a sidecar lives on. A main container that is restarted in place
    (restartPolicy Always) is the kubelet's business.

    Args:
        pod: A Pod.
        main: Name of the container whose end is the end of the Pod; empty where it is restarted in place.
    """
    if pod.status.phase in TERMINAL_PHASES:
        return True
    status = container(pod, main)
    return status is not None and status.state.terminated is not None


def is_ready(pod: PodView) -> bool:
    """Whether the Pod counts as ready: the condition says so, it is neither terminating nor over.

    A Pod whose phase was set to Failed may keep `Ready=True`, so the phase comes first.
    """
    ready = condition(pod, "Ready")
    return (
        not pod.terminating
        and pod.status.phase not in TERMINAL_PHASES
        and ready is not None
        and ready.status == "True"
        and trouble(pod) is None
    )


def ready_since(pod: PodView) -> datetime | None:
    """Since when the Pod has been ready, or None when it is not."""
    ready = condition(pod, "Ready")
    return ready.last_transition_time if ready is not None and is_ready(pod) else None


def has_started(pod: PodView, main: str) -> bool:
    """Whether the main container has ever run, that is, the init containers are through."""
    status = container(pod, main)
    return status is not None and (
        status.state.running is not None or status.state.terminated is not None or status.restart_count > 0
    )


def running_since(pod: PodView, main: str) -> datetime | None:
    """Since when a container has been running, or None when it is not."""
    status = container(pod, main)
    return status.state.running.started_at if status is not None and status.state.running is not None else None


def trouble(pod: PodView) -> Trouble | None:
    """Why the Pod has failed, or None when it has not.

    A Pod has failed when its phase is Failed, a container waits with one of `FAILING_REASONS`, or a container that should
    run is in `state.terminated`, exit code 0 included: Flame's fatal errors exit with 0. `lastState` does not count.
    """
    if pod.status.phase in TERMINAL_PHASES:
        return _phase_trouble(pod)
    for status in pod.status.init_container_statuses:
        waiting = status.state.waiting
        if waiting is not None and waiting.reason in FAILING_REASONS:
            return Trouble(waiting.reason, waiting.message)
        if (failure := _init_failure(status)) is not None:
            return failure
    for status in pod.status.container_statuses:
        waiting, ended = status.state.waiting, status.state.terminated
        if waiting is not None and waiting.reason in FAILING_REASONS:
            return Trouble(waiting.reason, waiting.message)
        if ended is not None:
            return Trouble(
                ended.reason or "Terminated", ended.message or f"{status.name} exited with {ended.exit_code}"
            )
    return None


def orphaned(pod: PodView) -> bool:
    """Whether a Pod was ended since its Node is gone: it is called failed for a moment, before it is deleted."""
    return _collection(pod) is not None


def _collection(pod: PodView) -> PodCondition | None:
    """What the Pod garbage collector says of a Pod that it is about to delete."""
    disruption = condition(pod, "DisruptionTarget")
    collected = disruption is not None and disruption.status == "True" and disruption.reason == "DeletionByPodGC"
    return disruption if collected else None


def init_container_failed(pod: PodView) -> bool:
    """Whether an init container ended with an error, so that the others never ran."""
    return any(_init_failure(status) is not None for status in pod.status.init_container_statuses)


def unschedulable(pod: PodView) -> Trouble | None:
    """Why the scheduler finds no node for the Pod, or None."""
    scheduled = condition(pod, "PodScheduled")
    if scheduled is None or scheduled.status != "False" or pod.spec.node_name:
        return None
    return Trouble(scheduled.reason or "Unschedulable", scheduled.message)


def unschedulable_since(pod: PodView) -> datetime | None:
    """Since when the scheduler has found no node for the Pod, or None. One that is held back by a gate is none of its concern."""
    scheduled, trouble = condition(pod, "PodScheduled"), unschedulable(pod)
    if scheduled is None or trouble is None or trouble.reason != "Unschedulable":
        return None
    return scheduled.last_transition_time or pod.metadata.creation_timestamp


def finished_at(pod: PodView) -> datetime | None:
    """When the last of the Pod's containers ended, as far as its status tells."""
    ended = [
        status.state.terminated.finished_at
        for status in pod.status.container_statuses
        if status.state.terminated is not None and status.state.terminated.finished_at is not None
    ]
    return max(ended, default=None)


def container(pod: PodView, name: str) -> ContainerStatus | None:
    """The status of a container by its name."""
    return next((status for status in pod.status.container_statuses if status.name == name), None)


def _phase_trouble(pod: PodView) -> Trouble:
    if pod.status.reason:
        return Trouble(pod.status.reason, pod.status.message)
    for status in pod.status.container_statuses:
        ended = status.state.terminated
        if ended is not None:
            return Trouble(
                ended.reason or pod.status.phase, ended.message or f"{status.name} exited with {ended.exit_code}"
            )
    # Last, for among them are sidecars, which are ended after the others.
    for status in pod.status.init_container_statuses:
        if (failure := _init_failure(status)) is not None:
            return failure
    if (collection := _collection(pod)) is not None:
        return Trouble(collection.reason, collection.message)
    return Trouble(pod.status.phase, pod.status.message)


def _init_failure(status: ContainerStatus) -> Trouble | None:
    ended = status.state.terminated
    if ended is None or ended.exit_code == 0:
        return None
    return Trouble(ended.reason or "Error", ended.message or f"{status.name} exited with {ended.exit_code}")
