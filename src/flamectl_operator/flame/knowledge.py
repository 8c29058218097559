"""The knowledge about one session manager and its age. Decisions treat old or missing answers as unknown."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from sys import getsizeof

from flamectl_operator.flame.snapshot import NodeState, SessionManagerSnapshot
from flamectl_operator.runtime.lazy import cached_property

#: Seconds for which a snapshot is valid: longer than two of the slow polls.
SNAPSHOT_VALID_SECONDS = 75.0
#: The age in seconds of the oldest snapshot that a deletion or a new size may rest on. It is shorter than the period of a busy
#: poller, so the snapshot is usually newer than the change that asks for the decision.
RECENT_SNAPSHOT_SECONDS = 1.0
#: Seconds after which a node that starts nothing counts as Unknown: Flame calls it so when it hears nothing for as long.
START_LIMIT_SECONDS = 15.0
#: Seconds after which executors that wait for a newer answer are chosen again.
SNAPSHOT_RECHECK_SECONDS = 0.5


class Phase(Enum):
    """How much is known.

    OFF: No poller asks, because this Flame cannot be asked, or its session manager is not ready.
    ASKING: The first question has no answer yet. This lasts a few seconds at the most.
    KNOWN: There is a snapshot that is recent enough.
    UNKNOWN: The session manager does not answer.
    """

    OFF = "off"
    ASKING = "asking"
    KNOWN = "known"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Knowledge:
    """The knowledge about a session manager. All times are of the clock's `boottime`.

    Args:
        incarnation: The incarnation of the session manager that was asked.
        since: When this incarnation was first asked about; for OFF, when nobody asked any more.
        snapshot: What it said last; None unless KNOWN.
        asked_at: When it was asked for that.
        said_at: When it said that.
        known_since: When it first answered in this incarnation, or answered again after nothing was known of it.
        failing: Whether the last question had no answer.
        cause: Why it does not answer, as one CamelCase word; empty unless UNKNOWN.
        problem: Why it does not answer, as a sentence; empty unless UNKNOWN.
        not_ready_since: Since when each node that is not ready in the table has been seen so. A node that has left the table
            counts as well, for as long as a snapshot is valid.
        unstarted_since: Since when each node has been seen to start nothing of all that is listed on it.
        last_snapshot: What it said last before nobody asked any more, for as long as a snapshot is valid; None unless OFF.
        first_nodes: The names of all nodes in its first answer in this incarnation, whatever came later; None before that.
        asked: Whether this process asks session managers at all.
    """

    phase: Phase = Phase.OFF
    incarnation: str = ""
    since: float = float("-inf")
    snapshot: SessionManagerSnapshot | None = None
    asked_at: float = float("-inf")
    said_at: float = float("-inf")
    known_since: float = float("inf")
    failing: bool = False
    cause: str = ""
    problem: str = ""
    not_ready_since: Mapping[str, float] = field(default_factory=dict)
    unstarted_since: Mapping[str, float] = field(default_factory=dict)
    last_snapshot: SessionManagerSnapshot | None = None
    first_nodes: frozenset[str] | None = None
    asked: bool = True

    @property
    def fresh(self) -> SessionManagerSnapshot | None:
        """The snapshot, if the session manager answered the last question: for decisions that must not rest on an old one."""
        return None if self.failing else self.snapshot

    @cached_property
    def size(self) -> int:
        """Bytes that it takes in memory, as an estimate: the answers, and the names that it keeps beside them."""
        answers = sum(each.size for each in (self.snapshot, self.last_snapshot) if each is not None)
        return answers + _size(self.first_nodes or ()) + _size(self.not_ready_since) + _size(self.unstarted_since)

    @property
    def unknown_since(self) -> float:
        """Since when nothing is known, for a phase other than KNOWN."""
        return max(self.since, self.said_at)


def _size(names: Collection[str]) -> int:
    return getsizeof(names) + sum(map(getsizeof, names)) if names else 0


#: No poller asks.
OFF = Knowledge()
#: This process asks no session manager.
NOT_ASKED = Knowledge(since=0.0, asked=False)


def answered(known: Knowledge, snapshot: SessionManagerSnapshot, asked: float, now: float) -> Knowledge:
    """Return the knowledge after an answer.

    Flame calls a node ready that it has read from its storage, although it may hear nothing from the node and never will. It puts
    executors on that node, which start nothing, so their sessions would wait for ever.
    """
    unstarted_since = {name: known.unstarted_since.get(name, now) for name in snapshot.unstarted}
    silent = {
        name
        for name, since in unstarted_since.items()
        if now - since >= START_LIMIT_SECONDS and snapshot.registered(name)
    }
    if silent:
        snapshot = replace(snapshot, nodes={**snapshot.nodes, **dict.fromkeys(silent, NodeState.UNKNOWN)})
    listed = known.snapshot.nodes if known.snapshot is not None else {}
    gone = {name: since for name, since in known.not_ready_since.items() if now - since <= SNAPSHOT_VALID_SECONDS}
    states = dict.fromkeys((*listed, *gone), NodeState.UNKNOWN) | dict(snapshot.nodes)
    return Knowledge(
        Phase.KNOWN,
        known.incarnation,
        since=known.since,
        snapshot=snapshot,
        asked_at=asked,
        said_at=now,
        known_since=now if known.snapshot is None else known.known_since,
        not_ready_since={
            name: known.not_ready_since.get(name, now) for name, state in states.items() if state is not NodeState.READY
        },
        unstarted_since=unstarted_since,
        first_nodes=snapshot.names if known.first_nodes is None else known.first_nodes,
    )


def unanswered(known: Knowledge, phase: Phase, cause: str, problem: str) -> Knowledge:
    """Return the knowledge after a question without an answer."""
    snapshot = known.snapshot if phase is Phase.KNOWN else None
    return replace(known, phase=phase, snapshot=snapshot, failing=True, cause=cause, problem=problem)


def forgotten(known: Knowledge, cause: str, problem: str) -> Knowledge:
    """Return the knowledge after all that takes memory was given up."""
    rest = replace(known, not_ready_since={}, unstarted_since={}, last_snapshot=None, first_nodes=None)
    return rest if known.phase is Phase.OFF else unanswered(rest, Phase.UNKNOWN, cause, problem)


def differ(before: Knowledge, now: Knowledge) -> bool:
    """Return whether a decision may change."""
    if (before.phase, before.failing, before.cause) != (now.phase, now.failing, now.cause):
        return True
    if before.snapshot is None or now.snapshot is None:
        return before.snapshot is not now.snapshot
    return not now.snapshot.same_for_decisions(before.snapshot)
