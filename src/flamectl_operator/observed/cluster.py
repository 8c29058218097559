"""A snapshot of a FlameCluster's children, taken from the stores; decisions look at nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING

from flamectl_operator.api.constants import (
    EXECUTOR_MANAGER,
    REBOUND_ANNOTATION,
    RENDERED_ANNOTATION,
    REVISION_ANNOTATION,
    SESSION_MANAGER,
    SESSION_MANAGER_ANNOTATION,
)
from flamectl_operator.desired import names
from flamectl_operator.observed import pods

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from flamectl_operator.desired.metadata import Identity
    from flamectl_operator.kube.views import ConfigMapView, KubernetesObject, PodView, ServiceView


@dataclass(frozen=True)
class Component:
    """A Pod that is ours, read as a component of Flame.

    Args:
        pod: The Pod.
        main: Name of the container whose end is the end of the Pod; empty where it is restarted in place.
    """

    pod: PodView
    main: str = ""

    @property
    def name(self) -> str:
        """Name of the Pod."""
        return self.pod.name

    @property
    def revision(self) -> str:
        """Hash of what the author asked for when it was made."""
        return self.pod.annotations.get(REVISION_ANNOTATION, "")

    @property
    def rendered(self) -> str:
        """Hash of the manifest it was made from."""
        return self.pod.annotations.get(RENDERED_ANNOTATION, "")

    @cached_property
    def terminating(self) -> bool:
        """Whether it is on its way out."""
        return self.pod.terminating

    @cached_property
    def terminal(self) -> bool:
        """Whether it is over and stays so: it has to be replaced."""
        return pods.is_terminal(self.pod, self.main)

    @cached_property
    def live(self) -> bool:
        """Whether it counts: neither on its way out nor over."""
        return not self.terminating and not self.terminal

    @cached_property
    def ready(self) -> bool:
        """Whether it serves."""
        return self.live and pods.is_ready(self.pod)

    @cached_property
    def trouble(self) -> pods.Trouble | None:
        """Why it has failed, if it has."""
        return pods.trouble(self.pod)

    @cached_property
    def ailment(self) -> pods.Trouble | None:
        """Why it has failed or finds no node; on its way out that does not matter any more."""
        return None if self.terminating else self.trouble or pods.unschedulable(self.pod)


@dataclass(frozen=True)
class Executor(Component):
    """An executor manager's Pod.

    Args:
        executor_id: The id in its name.
    """

    executor_id: int = -1

    @property
    def session_manager_life(self) -> str:
        """The life of the session manager that it belongs to."""
        return self.pod.annotations.get(SESSION_MANAGER_ANNOTATION, "")

    @property
    def rebound(self) -> bool:
        """Whether it was bound to that life later than it was made."""
        return REBOUND_ANNOTATION in self.pod.annotations

    @cached_property
    def started(self) -> bool:
        """Whether its main container has run: from then on it is bound to the session manager it found."""
        return pods.has_started(self.pod, EXECUTOR_MANAGER)


@dataclass(frozen=True)
class Views:
    """What the stores show of a FlameCluster's children, whoever's they are.

    Args:
        config_map: What has the ConfigMap's name.
        services: What has the Services' names.
        labelled_pods: All Pods with the FlameCluster's label, in its namespace.
    """

    config_map: ConfigMapView | None
    services: tuple[ServiceView, ...]
    labelled_pods: tuple[PodView, ...]

    def same(self, other: Views) -> bool:
        """Whether these are the very same objects. The stores never change one in place."""
        return (
            self.labelled_pods is other.labelled_pods
            and self.config_map is other.config_map
            and len(self.services) == len(other.services)
            and all(map(is_, self.services, other.services))
        )


@dataclass(frozen=True)
class ObservedCluster:
    """What is there.

    Args:
        owner: The FlameCluster.
        views: What it was read from.
        services: What has the Services' names, whoever's it is.
        session_manager_pod: What has the session manager's name, likewise.
        executors: The executors that are ours, by id.
        highest_executor_id: The highest id in any Pod's name, whoever's it is; -1 when there is none.
        departures: When this process first saw each Pod that is on its way out as such, by uid, by the clock's `boottime`.
        homeless: When it first saw that the scheduler finds no node for the session manager, likewise; None if it has one.
    """

    owner: Identity
    views: Views
    services: dict[str, ServiceView]
    session_manager_pod: PodView | None
    executors: tuple[Executor, ...]
    highest_executor_id: int
    departures: Mapping[str, float]
    homeless: float | None

    @classmethod
    def of(
        cls, owner: Identity, views: Views, boottime: float, earlier: ObservedCluster | None = None
    ) -> ObservedCluster:
        """Takes the snapshot.

        Args:
            owner: The FlameCluster.
            views: What the stores show.
            boottime: The time, by the clock's `boottime`.
            earlier: An earlier snapshot of the same FlameCluster. It is taken again if nothing has changed since, and else what
                was found out about Pods that have not changed.
        """
        if earlier is not None and earlier.views.same(views):
            return earlier
        known = {executor.name: executor for executor in earlier.executors} if earlier is not None else {}
        manager: PodView | None = None
        executors: list[Executor] = []
        highest = -1
        manager_name, selector = names.session_manager(owner.name), owner.selector(EXECUTOR_MANAGER).items()
        for pod in views.labelled_pods:
            if pod.name == manager_name:
                manager = pod
            executor = known.get(pod.name)
            if executor is not None and executor.pod is pod:
                highest = max(highest, executor.executor_id)
                executors.append(executor)
                continue
            executor_id = names.executor_id(owner.name, pod.name)
            if executor_id is None:
                continue
            highest = max(highest, executor_id)
            # As with ReplicaSets: an executor whose labels were taken off has left the cluster.
            if pod.controlled_by(owner.uid) and selector <= pod.labels.items():
                executors.append(Executor(pod, EXECUTOR_MANAGER, executor_id))
        executors.sort(key=lambda executor: executor.executor_id)
        services = {each.name: each for each in views.services}
        departures = _departures(views.labelled_pods, boottime, {} if earlier is None else earlier.departures)
        homeless = _homeless(manager, boottime, earlier)
        return cls(owner, views, services, manager, tuple(executors), highest, departures, homeless)

    @property
    def config_map(self) -> ConfigMapView | None:
        """What has the ConfigMap's name, whoever's it is."""
        return self.views.config_map

    def owns(self, child: KubernetesObject | None) -> bool:
        """Whether something is there and is this FlameCluster's."""
        return child is not None and child.controlled_by(self.owner.uid)

    @cached_property
    def session_manager(self) -> Component | None:
        """The session manager, if it is there and ours, be it on its way out."""
        pod = self.session_manager_pod
        return Component(pod) if pod is not None and pod.controlled_by(self.owner.uid) else None

    @cached_property
    def session_manager_life(self) -> str:
        """Which life of the session manager this is: its Pod's uid and how often its container restarted; or empty."""
        manager = self.session_manager
        if manager is None or not manager.live:
            return ""
        status = pods.container(manager.pod, SESSION_MANAGER)
        return f"{manager.pod.uid}.{status.restart_count if status is not None else 0}"

    def follows(self, executor: Executor) -> bool:
        """Whether an executor belongs to the present life of the session manager.

        One that was rebound seemed not to have started; a kubelet that could not be heard may have told so too late. Then the
        times tell that it started before this session manager did, or in the same second. (Times of two nodes are compared for
        these alone: an executor made in place of one that was judged wrongly is not rebound, so a node's clock that is behind
        costs one Pod and no more. One that is ahead hides that an executor started too early.)
        """
        if executor.session_manager_life != self.session_manager_life:
            return False
        manager = self.session_manager
        if not executor.rebound or manager is None:
            return True
        started = pods.running_since(executor.pod, EXECUTOR_MANAGER)
        since = pods.running_since(manager.pod, SESSION_MANAGER)
        return started is None or since is None or started > since

    @cached_property
    def session_manager_ready(self) -> bool:
        """Whether the session manager serves."""
        return self.session_manager is not None and self.session_manager.ready

    @cached_property
    def live_executors(self) -> tuple[Executor, ...]:
        """The executors that count."""
        return tuple(executor for executor in self.executors if executor.live)

    @cached_property
    def ready_executors(self) -> tuple[Executor, ...]:
        """The executors that serve."""
        return tuple(executor for executor in self.executors if executor.ready)

    @cached_property
    def terminal_executors(self) -> tuple[Executor, ...]:
        """The executors that are over and not yet deleted."""
        return tuple(executor for executor in self.executors if executor.terminal and not executor.terminating)

    @cached_property
    def terminating(self) -> tuple[Component, ...]:
        """All Pods of ours that are on their way out."""
        manager = self.session_manager
        gone = tuple(executor for executor in self.executors if executor.terminating)
        return (manager, *gone) if manager is not None and manager.terminating else gone

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """All Pods of ours."""
        return (self.session_manager, *self.executors) if self.session_manager is not None else self.executors

    @cached_property
    def unhealthy(self) -> tuple[tuple[Component, pods.Trouble], ...]:
        """Pods that have failed or find no node, by name, each with what is wrong."""
        found = [(component, component.ailment) for component in self.components if component.ailment is not None]
        return tuple(sorted(found, key=lambda entry: entry[0].name))


def _departures(labelled: Iterable[PodView], boottime: float, known: Mapping[str, float]) -> Mapping[str, float]:
    return {pod.uid: known.get(pod.uid, boottime) for pod in labelled if pod.terminating}


def _homeless(manager: PodView | None, boottime: float, earlier: ObservedCluster | None) -> float | None:
    if manager is None or pods.unschedulable_since(manager) is None:
        return None
    if earlier is None or earlier.homeless is None or earlier.session_manager_pod is None:
        return boottime
    return earlier.homeless if earlier.session_manager_pod.uid == manager.uid else boottime


def worked_for(executor: Executor) -> timedelta | None:
    """For how long an executor that is over had worked, as well as its status tells; None when it does not.

    Its main container's own times say it best, for it may have waited long for a node, an image or the session manager. Where
    they are lost, as in an eviction, it counts from when it was made.
    """
    born, over = executor.pod.metadata.creation_timestamp, terminal_since(executor)
    status = pods.container(executor.pod, EXECUTOR_MANAGER)
    ended = status.state.terminated if status is not None else None
    if ended is not None and ended.started_at is not None and ended.finished_at is not None:
        # One that could not be started has "started" in 1970.
        return ended.finished_at - max(ended.started_at, born or ended.started_at)
    if pods.init_container_failed(executor.pod):
        return timedelta()
    return over - born if born is not None and over is not None else None


def terminal_since(component: Component) -> datetime | None:
    """When a terminal Pod ended, as well as its status tells: its last container's end, else the last write to it.

    Its node says the one by its own clock, which may be ahead of the API server's; that records the other.
    """
    finished, metadata = pods.finished_at(component.pod), component.pod.metadata
    written = metadata.last_written
    if finished is None or (metadata.managed_fields and written is not None and written < finished):
        return written
    return finished
