"""Sessions to which Flame assigns no more executors, told to a person in Flame's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flamectl_operator.runtime.text import one_line
from flamectl_operator.status.reason import SESSION_PAUSED

if TYPE_CHECKING:
    from flamectl_operator.observed.cluster import ObservedCluster

#: The most characters of a session's name in a message.
_LONGEST_NAME = 60


@dataclass(frozen=True)
class PausedSessions:
    """Sessions that get no more executors.

    Args:
        message: Their names and the cause, as sentences.
    """

    message: str

    @property
    def kind(self) -> None:
        """The class of the Pods that fail: none do."""

    @property
    def reason(self) -> str:
        """The reason for the FlameCluster."""
        return SESSION_PAUSED

    def __str__(self) -> str:
        """Return the text for messages."""
        return self.message


def paused_sessions(observed: ObservedCluster) -> tuple[PausedSessions, ...]:
    """Return the paused sessions of the last answer as one thing to tell; nothing when there are none."""
    snapshot = observed.flame.snapshot
    if snapshot is None or not snapshot.paused:
        return ()
    [first, *others] = snapshot.paused
    more = f" and {len(others)} more" * bool(others)
    subject = f'session "{one_line(first.name, _LONGEST_NAME)}"{more}'
    verb, them = ("are", "them") if others else ("is", "it")
    advice = f"correct what keeps executors from binding, close {them} and open another; the log of an executor has the cause"
    return (PausedSessions(f"{subject} {verb} paused: {first.paused.rstrip('.')} ({advice})"),)
