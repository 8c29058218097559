"""Executors that should have ended, because they keep their CPU, memory and devices although nobody waits for their end."""

from __future__ import annotations

from datetime import datetime, timedelta
from operator import itemgetter

from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.finalizers import finalizers_in_brackets
from flamectl_operator.runtime.text import date_and_time, listing

#: Seconds after the end of its grace period from which the status names an executor that is still there.
LATE_SECONDS = 60.0


def late_ends(observed: ObservedCluster, now: datetime) -> str:
    """Return which executors should have ended, and what keeps the first of them; empty where all ended in time."""
    late = [each for each in _ends(observed) if each[0] + timedelta(seconds=LATE_SECONDS) <= now]
    if not late:
        return ""
    end, first, pod = late[0]
    names = listing([name for _, name, _ in late], 1)
    node = pod.spec.node_name
    why = finalizers_in_brackets(pod) or f" (see kubectl describe node {node}, and kubectl describe pod {first})"
    return f"{names} should have ended by {date_and_time(end)}{why}"


def next_late_end(observed: ObservedCluster, now: datetime) -> datetime | None:
    """Return when the status must name the next executor that has not ended, because no event reports that time."""
    ends = (end + timedelta(seconds=LATE_SECONDS) for end, _, _ in _ends(observed))
    return min((end for end in ends if end > now), default=None)


def _ends(observed: ObservedCluster) -> list[tuple[datetime, str, PodView]]:
    """Return when the grace periods of terminating executors end, the earliest first."""
    executors = [each for each in observed.terminating if isinstance(each, Executor)]
    ends = [
        (end, each.name, each.pod) for each in executors if (end := each.pod.metadata.deletion_timestamp) is not None
    ]
    return sorted(ends, key=itemgetter(0, 1))
