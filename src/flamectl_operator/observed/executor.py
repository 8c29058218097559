"""An executor manager's Pod, its binding to a session manager's incarnation, and the times at which this process saw it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from flamectl_operator.api.constants import (
    DRAINING_ANNOTATION,
    EXECUTOR_MANAGER,
    REBOUND_ANNOTATION,
    SESSION_MANAGER,
    SESSION_MANAGER_ANNOTATION,
)
from flamectl_operator.desired import executor_annotations
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed import pods, scheduling
from flamectl_operator.observed.component import Component
from flamectl_operator.observed.incarnation import other_names
from flamectl_operator.observed.pod_problem import PodProblem
from flamectl_operator.runtime.lazy import cached_property


@dataclass(frozen=True)
class Executor(Component):
    """An executor manager's Pod."""

    kind = EXECUTOR_MANAGER

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
        return executor_annotations.rebound_at(self.pod.annotations)

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
        return executor_annotations.draining_since(self.pod.annotations)

    @cached_property
    def protected(self) -> tuple[str, ...]:
        """The annotations that the operator set because it has work."""
        return executor_annotations.protection(self.pod.annotations)[1]

    @cached_property
    def protection_changed(self) -> datetime | None:
        """When the operator last changed these annotations; None when it never did."""
        return executor_annotations.protection(self.pod.annotations)[0]

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


#: A uid as the API server gives it.
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

#: Digits of the largest count of restarts that the API server stores.
_MAX_DIGITS = 10


@dataclass(frozen=True)
class Bindings:
    """Compares the bindings of executors with the present incarnation of the session manager, and tells which can be true.

    A binding is an annotation, and anybody who may write Pods may edit or remove it.

    Args:
        incarnation: The incarnation; empty without a session manager.
        session_store: The identity of the storage that keeps the sessions; empty when they do not persist.
    """

    manager: Component | None
    incarnation: str
    session_store: str

    @cached_property
    def _present(self) -> tuple[str, ...]:
        return (self.incarnation, *other_names(self.manager, self.session_store))

    def follows(self, executor: Executor) -> bool:
        """Return whether an executor belongs to the present incarnation of the session manager.

        An executor is rebound when it seems not to have started, but its kubelet may report the start too late. Then the times
        show that it started before this session manager, or in the same second. If the incarnation is that of a storage, which
        may have outlived session managers since, the times show that it started before it was rebound. Times of two clocks are
        compared only for rebound executors. Clock skew costs at most one extra replacement, because the replacement is not
        rebound. A node clock that is ahead may hide an executor that started too early.
        """
        if executor.session_manager_incarnation not in self._present:
            return self.is_invalid(executor) and _started_since(executor, self.manager)
        if not executor.rebound or self.manager is None:
            return True
        started = executor.running_since
        since = executor.rebound_at if self.session_store else pods.running_since(self.manager.pod, SESSION_MANAGER)
        return started is None or since is None or started > since

    def was_there_before(self, executor: Executor) -> bool:
        """Return whether an executor started before the session manager's container, as far as the clocks of their nodes tell."""
        return not _started_since(executor, self.manager)

    def is_invalid(self, executor: Executor) -> bool:
        """Return whether an executor's binding is not valid, because the operator cannot have written it.

        It has no form of an incarnation, counts restarts that have not happened, or names another Pod although the executor was
        created when the present one existed. Creation times are both by the API server's clock.
        """
        manager, incarnation = self.manager, executor.session_manager_incarnation
        if manager is None or not manager.live or incarnation in self._present:
            return False
        of, _, number = incarnation.partition(".")
        if not of or not number:
            return True
        present = manager.pod
        if of == present.uid:
            if not number.isdecimal():
                return False
            written = len(number) <= _MAX_DIGITS and number == str(int(number))
            return not written or int(number) > pods.restarts(present, SESSION_MANAGER)
        if _is_uid(present.uid) and not _is_uid(of) and not _is_uid(incarnation.rpartition(".")[2]):
            return True
        born, there = executor.pod.metadata.creation_timestamp, present.metadata.creation_timestamp
        return born is not None and there is not None and born > there


def _started_since(executor: Executor, manager: Component | None) -> bool:
    """Return whether an executor started when the session manager's container ran already."""
    started = pods.running_since(executor.pod, EXECUTOR_MANAGER)
    since = None if manager is None else pods.running_since(manager.pod, SESSION_MANAGER)
    return started is not None and since is not None and started >= since


def _is_uid(text: str) -> bool:
    return _UID.fullmatch(text) is not None


@dataclass(frozen=True)
class FirstSeen:
    """The times at which this process first saw states of Pods: `boottime` by the uid of the Pod.

    The process counts from these times, because clocks of two machines are never compared.

    Args:
        terminating: When each Pod was first seen to terminate.
        running: When each executor was first seen to run.
        drain_changed: When a drain was seen to begin, or the recorded time of one to change.
        unschedulable: When the session manager was first seen unschedulable; empty when it is not.
    """

    terminating: Mapping[str, float] = field(default_factory=dict)
    running: Mapping[str, float] = field(default_factory=dict)
    drain_changed: Mapping[str, float] = field(default_factory=dict)
    unschedulable: Mapping[str, float] = field(default_factory=dict)

    def after(
        self,
        labelled: Sequence[PodView],
        executors: Sequence[Executor],
        manager: PodView | None,
        before: Sequence[Executor],
        boottime: float,
    ) -> "FirstSeen":
        """Return the times after another look."""
        stuck = {manager.uid} if manager is not None and scheduling.unschedulable_since(manager) is not None else set()
        return FirstSeen(
            {pod.uid: self.terminating.get(pod.uid, boottime) for pod in labelled if pod.terminating},
            _kept([each.pod.uid for each in executors if each.running_since is not None], self.running, boottime),
            self._drains(executors, before, boottime),
            {uid: self.unschedulable.get(uid, boottime) for uid in stuck},
        )

    def _drains(
        self, executors: Sequence[Executor], before: Sequence[Executor], boottime: float
    ) -> Mapping[str, float]:
        draining = [each for each in executors if each.draining]
        if not draining:
            return {}
        since = {each.pod.uid: each.draining_since if each.draining else None for each in before}
        found = {}
        for each in draining:
            uid = each.pod.uid
            if uid in since and since[uid] != each.draining_since:
                found[uid] = boottime
            elif uid in self.drain_changed:
                found[uid] = self.drain_changed[uid]
        return found


def _kept(uids: Sequence[str], known: Mapping[str, float], boottime: float) -> Mapping[str, float]:
    """Return the known times of these uids, and this time for the others; it costs no call for each of them."""
    found = dict.fromkeys(uids, boottime)
    return found | {uid: since for uid, since in known.items() if uid in found}
