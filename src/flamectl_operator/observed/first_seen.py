"""The times at which this process first saw what it observes: clocks of two machines are never compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed import scheduling
from flamectl_operator.observed.executor import Executor


@dataclass(frozen=True)
class FirstSeen:
    """Times as `boottime`, by the uid of the Pod.

    Args:
        terminating: When each Pod was first seen to terminate.
        running: When each executor was first seen to run.
        drain_changed: When a drain was seen to begin, or the time in an executor's mark to change.
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
    ) -> FirstSeen:
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
        marks = {each.pod.uid: each.draining_since if each.draining else None for each in before}
        found = {}
        for each in draining:
            uid = each.pod.uid
            if uid in marks and marks[uid] != each.draining_since:
                found[uid] = boottime
            elif uid in self.drain_changed:
                found[uid] = self.drain_changed[uid]
        return found


def _kept(uids: Sequence[str], known: Mapping[str, float], boottime: float) -> Mapping[str, float]:
    """Return the known times of these uids, and this time for the others; it costs no call for each of them."""
    found = dict.fromkeys(uids, boottime)
    return found | {uid: since for uid, since in known.items() if uid in found}
