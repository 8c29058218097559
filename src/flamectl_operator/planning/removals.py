"""Why executors are removed, and their names in events."""

from collections.abc import Collection, Sequence
from enum import Enum

from flamectl_operator.observed.executor import Executor
from flamectl_operator.runtime.text import MOST_NAMED


class RemovalReason(Enum):
    """Why an executor is deleted, replaced or drained; the value has the words for an event."""

    SURPLUS = "surplus"
    TERMINAL = "failed or completed"
    UNREGISTERED = "not registered with Flame in time"
    STALE = "no longer as specified"
    EARLIER_SESSION_MANAGER = "started under an earlier session manager"
    MAKE_ROOM = "the session manager needs their room"
    DRAINED = "drained"
    DRAIN_TIMED_OUT = "the drain timed out"
    NOT_REACHABLE = "the session manager does not answer"
    SUSPENDED = "the cluster is suspended"


Removals = Sequence[tuple[Executor, RemovalReason]]


def by_reason(removals: Removals, removed: Collection[str]) -> dict[RemovalReason, list[Executor]]:
    """Return the executors that were removed, by their names, for each reason in the order of the plan."""
    found: dict[RemovalReason, list[Executor]] = {}
    for executor, reason in removals:
        if executor.name in removed:
            found.setdefault(reason, []).append(executor)
    return found


def listed(executors: Sequence[Executor]) -> str:
    """Return the names of the first executors, for an event."""
    few = ", ".join(f'"{executor.name}"' for executor in executors[:MOST_NAMED])
    return few if len(executors) <= MOST_NAMED else f"{len(executors)} executors ({few}, ...)"
