"""The Pods that are ours, read as components of Flame: the object caches by ordinal, and the time for which a Pod worked."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import ClassVar

from flamectl_operator.api.constants import OBJECT_CACHE, RENDERED_ANNOTATION, REVISION_ANNOTATION, SESSION_MANAGER
from flamectl_operator.desired import names
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.pod_views import ContainerStateTerminated, ContainerStatus, PodView
from flamectl_operator.observed import pods, scheduling
from flamectl_operator.observed.pod_problem import CONTAINER_LOST, PodProblem, crash_loop
from flamectl_operator.observed.waiting import (
    INIT_CONTAINER_WAITING,
    POD_NOT_READY,
    READY_TIMEOUT_SECONDS,
    waiting_since,
)
from flamectl_operator.runtime.lazy import cached_property


@dataclass(frozen=True)
class Component:
    """A Pod of this FlameCluster, read as a component of Flame.

    Args:
        main: The container whose end ends the Pod; empty where the kubelet restarts containers in place.
        known_revision: Its revision where more than its own annotation tells it.
    """

    #: Which component it is, in the words of its label. A Pod of no narrower class is a session manager.
    kind: ClassVar[str] = SESSION_MANAGER

    pod: PodView
    main: str = ""
    known_revision: str = field(default="", kw_only=True)

    @cached_property
    def name(self) -> str:
        """Name of the Pod."""
        return self.pod.name

    @cached_property
    def revision(self) -> str:
        """The revision hash of the spec that it was created from."""
        return self.known_revision or self.pod.annotations.get(REVISION_ANNOTATION, "")

    @cached_property
    def rendered(self) -> str:
        """The hash of the manifest that it was created from."""
        return self.pod.annotations.get(RENDERED_ANNOTATION, "")

    @cached_property
    def terminating(self) -> bool:
        """Whether its deletion has begun."""
        return self.pod.terminating

    @cached_property
    def terminal(self) -> bool:
        """Whether it has ended for good, so that it must be replaced."""
        return pods.is_terminal(self.pod, self.main)

    @cached_property
    def live(self) -> bool:
        """Whether it is neither terminating nor terminal."""
        return not self.terminating and not self.terminal

    @cached_property
    def ready(self) -> bool:
        """Whether it is ready."""
        return self.live and pods.is_ready(self.pod)

    @cached_property
    def failure(self) -> PodProblem | None:
        """The failure of the Pod, if any."""
        return pods.failure(self.pod) or pods.restarted_in_place(self.pod, self.main)

    @cached_property
    def last_failure(self) -> tuple[PodProblem, datetime] | None:
        """How it ended, or how a container ended that was restarted since, and when; None while it is being deleted."""
        if self.terminating or pods.disrupted(self.pod):
            return None
        if not self.terminal:
            return _last_restart(self.pod)
        at = pods.failed_at(self.pod)
        return None if self.failure is None or at is None else (self.failure, at)

    @cached_property
    def missing_reports(self) -> PodProblem | None:
        """The missing reports of its node, if its node does not report."""
        return pods.not_reporting(self.pod)

    @property
    def failed(self) -> bool:
        """Whether the Pod has failed, or its node does not report and Services no longer lead to it."""
        return self.failure is not None or self.missing_reports is not None

    @cached_property
    def problem(self) -> PodProblem | None:
        """Its failure, its node that does not report, or its failed scheduling; None while it terminates."""
        return None if self.terminating else self.failure or self.missing_reports or scheduling.unschedulable(self.pod)

    @cached_property
    def waiting(self) -> tuple[PodProblem, datetime] | None:
        """The reason why it is not ready yet, and since when."""
        return waiting_since(self.pod)

    @property
    def begun(self) -> bool:
        """Whether it waits only for containers that run, each for the first time."""
        statuses = (*self.pod.status.init_container_statuses, *self.pod.status.container_statuses)
        running = self.waiting is not None and self.waiting[0].reason in {INIT_CONTAINER_WAITING, POD_NOT_READY}
        return running and not any(each.restart_count for each in statuses)

    def lacks_node(self, now: datetime) -> bool:
        """Return whether it was created for a node that has not reported it in time: a failure before the Pod ends.

        The garbage collector deletes a Pod of a missing node within a minute, and the end of that Pod may not be seen.
        """
        born = self.pod.metadata.creation_timestamp
        patience = timedelta(seconds=READY_TIMEOUT_SECONDS)
        return self.live and pods.unreported(self.pod) and born is not None and born + patience <= now


def worked_for(component: Component, main: str) -> timedelta | None:
    """Return how long a terminal Pod had worked, as far as its status shows; None when it is unknown.

    The times of its main container are best, because the Pod may have waited long for a node, an image or the session manager. If
    they are lost, as after an eviction, the time since its creation counts.
    """
    born, over = component.pod.metadata.creation_timestamp, terminal_since(component)
    status = pods.container(component.pod, main)
    ended = (status.state.terminated or status.last_state.terminated) if status is not None else None
    if ended is not None and ended.started_at is not None and ended.finished_at is not None:
        # A container that could not be started has a start time in 1970.
        return ended.finished_at - max(ended.started_at, born or ended.started_at)
    if pods.init_container_failed(component.pod):
        return timedelta()
    return over - born if born is not None and over is not None else None


def terminal_since(component: Component) -> datetime | None:
    """Return when a terminal Pod ended: the end of its last container, else the last write to the Pod.

    The first time is by the node's clock, which may be ahead of the API server's; the second is by the API server's clock.
    """
    finished, metadata = pods.finished_at(component.pod), component.pod.metadata
    written = metadata.last_written
    if finished is None or (metadata.managed_fields and written is not None and written < finished):
        return written
    return finished


@dataclass(frozen=True)
class ObjectCache(Component):
    """An object cache's Pod, and the number in its name, under which it finds its data again."""

    kind = OBJECT_CACHE

    ordinal: int = -1


@dataclass(frozen=True)
class ObjectCaches:
    """The Pods that have names of object caches, ours and foreign ones, by ordinal."""

    ours: dict[int, ObjectCache]
    foreign: dict[int, PodView]

    def first(self, replicas: int) -> tuple[ObjectCache, ...]:
        """Return those of ours that are wanted, by ordinal."""
        return tuple(cache for ordinal, cache in self.ours.items() if ordinal < replicas)

    @classmethod
    def of(cls, owner: Identity, pods: Iterable[PodView]) -> "ObjectCaches":
        """Return the object caches among Pods with the FlameCluster's label."""
        prefix = f"{names.object_cache(owner.name)}-"
        ours: dict[int, ObjectCache] = {}
        foreign: dict[int, PodView] = {}
        for pod in pods:
            if not pod.name.startswith(prefix) or (ordinal := names.object_cache_ordinal(owner.name, pod.name)) is None:
                continue
            if pod.controlled_by(owner.uid):
                ours[ordinal] = ObjectCache(pod, ordinal=ordinal)
            else:
                foreign[ordinal] = pod
        return cls(dict(sorted(ours.items())), foreign)


def _last_restart(pod: PodView) -> tuple[PodProblem, datetime] | None:
    """Return how the container ended that the kubelet restarted last, and when; None when it restarted none.

    A restart by a resize, for which a container's resizePolicy asks, is no failure.
    """
    restarted = [
        (at, status, ended)
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        if (ended := status.last_state.terminated) is not None and (at := ended.finished_at) is not None
        if status.restart_count > 0 and not _resized(pod, status, ended)
    ]
    if not restarted:
        return None
    at, status, ended = max(restarted, key=itemgetter(0))
    problem = crash_loop(status.name, ended)
    return (problem if problem.reason == CONTAINER_LOST else replace(problem, reason=ended.reason or "Error")), at


def _resized(pod: PodView, status: ContainerStatus, ended: ContainerStateTerminated) -> bool:
    """Return whether resizes explain all restarts of a container: each one adds one to the generation of the Pod."""
    names = (each.name for each in (*pod.spec.init_containers, *pod.spec.containers) if each.restarts_on_resize)
    killed = ended.reason in {"Error", "Completed"} and status.restart_count < pod.metadata.generation
    return killed and status.name in names
