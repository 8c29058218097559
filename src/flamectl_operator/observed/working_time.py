"""The time for which a Pod worked before it ended."""

from __future__ import annotations

from datetime import datetime, timedelta

from flamectl_operator.observed import pods
from flamectl_operator.observed.component import Component


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
