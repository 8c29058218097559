"""A Pod that is ours, read as a component of Flame."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from flamectl_operator.api.constants import RENDERED_ANNOTATION, REVISION_ANNOTATION
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed import pods, scheduling
from flamectl_operator.observed.pod_problem import PodProblem
from flamectl_operator.observed.waiting import READY_TIMEOUT_SECONDS, waiting_since


@dataclass(frozen=True)
class Component:
    """A Pod of this FlameCluster, read as a component of Flame.

    Args:
        main: The container whose end ends the Pod; empty where the kubelet restarts containers in place.
        known_revision: Its revision where more than its own annotation tells it.
    """

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
            return pods.last_restart(self.pod)
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

    def lacks_node(self, now: datetime) -> bool:
        """Return whether it was created for a node that has not reported it in time: a failure before the Pod ends.

        The garbage collector deletes a Pod of a missing node within a minute, and the end of that Pod may not be seen.
        """
        born = self.pod.metadata.creation_timestamp
        patience = timedelta(seconds=READY_TIMEOUT_SECONDS)
        return self.live and pods.unreported(self.pod) and born is not None and born + patience <= now
