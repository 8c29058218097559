"""An executor manager's Pod."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from flamectl_operator.api.constants import (
    DRAINING_ANNOTATION,
    DRAINING_SINCE_ANNOTATION,
    EXECUTOR_MANAGER,
    PROTECTION_ANNOTATION,
    REBOUND_ANNOTATION,
    SESSION_MANAGER_ANNOTATION,
)
from flamectl_operator.kube.views import parse_time
from flamectl_operator.observed import pods
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.pod_problem import PodProblem


@dataclass(frozen=True)
class Executor(Component):
    """An executor manager's Pod."""

    executor_id: int = -1

    @cached_property
    def session_manager_incarnation(self) -> str:
        """The incarnation of the session manager that it belongs to."""
        return self.pod.annotations.get(SESSION_MANAGER_ANNOTATION, "")

    @cached_property
    def rebound(self) -> bool:
        """Whether it was bound to that incarnation after its creation."""
        return REBOUND_ANNOTATION in self.pod.annotations

    @cached_property
    def rebound_at(self) -> datetime | None:
        """When it was bound to that incarnation; None when the annotation holds no valid time, as that of earlier versions."""
        return parse_time(self.pod.annotations.get(REBOUND_ANNOTATION, ""))

    @cached_property
    def draining(self) -> bool:
        """Whether it will be deleted when nothing runs on it any more. A drain is never cancelled."""
        return DRAINING_ANNOTATION in self.pod.annotations

    @property
    def drain_reason(self) -> str:
        """Why it is being drained."""
        return self.pod.annotations.get(DRAINING_ANNOTATION, "")

    @cached_property
    def draining_since(self) -> datetime | None:
        """Since when it is being drained; None when the annotation holds no valid time."""
        return parse_time(self.pod.annotations.get(DRAINING_SINCE_ANNOTATION, ""))

    @cached_property
    def protected(self) -> tuple[str, ...]:
        """The annotations that the operator set because it has work."""
        keys = self.pod.annotations.get(PROTECTION_ANNOTATION, "").partition(" ")[2]
        return tuple(key for key in keys.split(",") if key)

    @cached_property
    def protection_changed(self) -> datetime | None:
        """When the operator last changed these annotations; None when it never did."""
        return parse_time(self.pod.annotations.get(PROTECTION_ANNOTATION, "").partition(" ")[0])

    @cached_property
    def live(self) -> bool:
        """Whether it counts: neither terminating, nor terminal, nor being drained."""
        return not self.terminating and not self.terminal and not self.draining

    @cached_property
    def last_failure(self) -> tuple[PodProblem, datetime] | None:
        """As of any component; the end of an executor that is being drained is no failure."""
        return None if self.draining else super().last_failure

    @cached_property
    def started(self) -> bool:
        """Whether its main container has run, so that it is bound to one session manager."""
        return pods.has_started(self.pod, EXECUTOR_MANAGER)

    @cached_property
    def running_since(self) -> datetime | None:
        """Since when its main container has been running, by the clock of its node; None when it is not."""
        return pods.running_since(self.pod, EXECUTOR_MANAGER)
