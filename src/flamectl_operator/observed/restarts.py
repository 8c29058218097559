"""How the kubelet restarted a container of a Pod last: after a failure, or because the container was resized."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from flamectl_operator.kube.pod_views import ContainerStatus, PodView
from flamectl_operator.observed.pod_problem import CONTAINER_LOST, PodProblem, crash_loop


def last_restart(pod: PodView) -> tuple[PodProblem, datetime] | None:
    """Return how the container ended that the kubelet restarted last, and when; None when it restarted none.

    A restart by a resize, for which a container's resizePolicy asks, is no failure.
    """
    restarted = [
        (status, ended, ended.finished_at)
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        for ended in (status.last_state.terminated,)
        if status.restart_count > 0 and ended is not None and not _restarted_by_resize(pod, status)
    ]
    known = [(at, status, ended) for status, ended, at in restarted if at is not None]
    if not known:
        return None
    at, status, ended = max(known, key=lambda each: each[0])
    problem = crash_loop(status.name, ended)
    return (problem if problem.reason == CONTAINER_LOST else replace(problem, reason=ended.reason or "Error")), at


def _restarted_by_resize(pod: PodView, status: ContainerStatus) -> bool:
    """Return whether resizes explain all restarts of a container: each one adds one to the generation of the Pod."""
    ended = status.last_state.terminated
    names = (each.name for each in (*pod.spec.init_containers, *pod.spec.containers) if each.restarts_on_resize)
    killed = ended is not None and ended.reason in {"Error", "Completed"}
    return killed and status.restart_count < pod.metadata.generation and status.name in names
