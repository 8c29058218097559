"""Sessions to which Flame assigns no more executors, in Flame's words for a person."""

from __future__ import annotations

from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.autoscaling import LONGEST_SESSION_NAME
from flamectl_operator.runtime.text import one_line
from flamectl_operator.status.notice import Notice
from flamectl_operator.status.reason import SESSION_PAUSED


def paused_sessions(observed: ObservedCluster) -> tuple[Notice, ...]:
    """Return the paused sessions of the last answer as one notice; nothing when there are none."""
    snapshot = observed.flame.snapshot
    if snapshot is None or not snapshot.paused:
        return ()
    [first, *others] = snapshot.paused
    more = f" and {len(others)} more" * bool(others)
    subject = f'session "{one_line(first.name, LONGEST_SESSION_NAME)}"{more}'
    verb, them = ("are", "them") if others else ("is", "it")
    advice = f"correct what keeps executors from binding, close {them} and open another; the log of an executor has the cause"
    return (Notice(SESSION_PAUSED, f"{subject} {verb} paused: {first.paused.rstrip('.')} ({advice})"),)
