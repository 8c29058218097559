"""The knowledge about one session manager and its age. Decisions treat old or missing answers as unknown."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from sys import getsizeof

from flamectl_operator.flame.answer import NodeState, SessionManagerAnswer
from flamectl_operator.runtime.lazy import cached_property

#: Seconds for which an answer is valid: longer than two of the slow polls.
ANSWER_VALID_SECONDS = 75.0
#: The age in seconds of the oldest answer that a deletion or a new size may rest on. It is shorter than the period of a busy
#: poller, so the answer is usually newer than the change that asks for the decision.
RECENT_ANSWER_SECONDS = 1.0
#: Seconds after which a node that starts nothing counts as Unknown: Flame calls it so when it hears nothing for as long.
START_LIMIT_SECONDS = 15.0
#: Seconds after which executors that wait for a newer answer are chosen again.
ANSWER_RECHECK_SECONDS = 0.5


class Phase(Enum):
    """How much is known.

    OFF: No poller asks, because this Flame cannot be asked, or its session manager is not ready.
    ASKING: The first question has no answer yet. This lasts a few seconds at the most.
    KNOWN: There is an answer that is recent enough.
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
        answer: Its last answer; None unless KNOWN.
        asked_at: When it was asked for this answer.
        answered_at: When it gave this answer.
        known_since: When it first answered in this incarnation, or answered again after nothing was known of it.
        failing: Whether the last question had no answer.
        cause: Why it does not answer, as one CamelCase word; empty unless UNKNOWN.
        problem: Why it does not answer, as a sentence; empty unless UNKNOWN.
        not_ready_since: Since when each node that is not ready in the table has been seen so. A node that has left the table
            counts as well, for as long as an answer is valid.
        unstarted_since: Since when each node has been seen to start nothing of all that is listed on it.
        last_answer: Its last answer before nobody asked any more, for as long as an answer is valid; None unless OFF.
        first_nodes: The names of all nodes in its first answer in this incarnation, whatever came later; None before that.
        asked: Whether this process asks session managers at all.
    """

    phase: Phase = Phase.OFF
    incarnation: str = ""
    since: float = float("-inf")
    answer: SessionManagerAnswer | None = None
    asked_at: float = float("-inf")
    answered_at: float = float("-inf")
    known_since: float = float("inf")
    failing: bool = False
    cause: str = ""
    problem: str = ""
    not_ready_since: Mapping[str, float] = field(default_factory=dict)
    unstarted_since: Mapping[str, float] = field(default_factory=dict)
    last_answer: SessionManagerAnswer | None = None
    first_nodes: frozenset[str] | None = None
    asked: bool = True

    @property
    def fresh(self) -> SessionManagerAnswer | None:
        """The answer, if the session manager answered the last question: for decisions that must not rest on an old one."""
        return None if self.failing else self.answer

    @cached_property
    def size(self) -> int:
        """Bytes that it takes in memory, as an estimate: the answers, and the names that it keeps beside them."""
        answers = sum(each.size for each in (self.answer, self.last_answer) if each is not None)
        return answers + _size(self.first_nodes or ()) + _size(self.not_ready_since) + _size(self.unstarted_since)

    @property
    def unknown_since(self) -> float:
        """Since when nothing is known, for a phase other than KNOWN."""
        return max(self.since, self.answered_at)


def _size(names: Collection[str]) -> int:
    return getsizeof(names) + sum(map(getsizeof, names)) if names else 0


#: No poller asks.
OFF = Knowledge()
#: This process asks no session manager.
NOT_ASKED = Knowledge(since=0.0, asked=False)


def answered(known: Knowledge, answer: SessionManagerAnswer, asked: float, now: float) -> Knowledge:
    """Return the knowledge after an answer.

    Flame calls a node ready that it has read from its storage, although it may hear nothing from the node and never will. It puts
    executors on that node, which start nothing, so their sessions would wait for ever.
    """
    unstarted_since = {name: known.unstarted_since.get(name, now) for name in answer.unstarted}
    silent = {
        name
        for name, since in unstarted_since.items()
        if now - since >= START_LIMIT_SECONDS and answer.registered(name)
    }
    if silent:
        answer = replace(answer, nodes={**answer.nodes, **dict.fromkeys(silent, NodeState.UNKNOWN)})
    listed = known.answer.nodes if known.answer is not None else {}
    gone = {name: since for name, since in known.not_ready_since.items() if now - since <= ANSWER_VALID_SECONDS}
    states = dict.fromkeys((*listed, *gone), NodeState.UNKNOWN) | dict(answer.nodes)
    return Knowledge(
        Phase.KNOWN,
        known.incarnation,
        since=known.since,
        answer=answer,
        asked_at=asked,
        answered_at=now,
        known_since=now if known.answer is None else known.known_since,
        not_ready_since={
            name: known.not_ready_since.get(name, now) for name, state in states.items() if state is not NodeState.READY
        },
        unstarted_since=unstarted_since,
        first_nodes=answer.names if known.first_nodes is None else known.first_nodes,
    )


def unanswered(known: Knowledge, phase: Phase, cause: str, problem: str) -> Knowledge:
    """Return the knowledge after a question without an answer."""
    answer = known.answer if phase is Phase.KNOWN else None
    return replace(known, phase=phase, answer=answer, failing=True, cause=cause, problem=problem)


def forgotten(known: Knowledge, cause: str, problem: str) -> Knowledge:
    """Return the knowledge after all that takes memory was given up."""
    rest = replace(known, not_ready_since={}, unstarted_since={}, last_answer=None, first_nodes=None)
    return rest if known.phase is Phase.OFF else unanswered(rest, Phase.UNKNOWN, cause, problem)


def differ(before: Knowledge, now: Knowledge) -> bool:
    """Return whether a decision may change."""
    if (before.phase, before.failing, before.cause) != (now.phase, now.failing, now.cause):
        return True
    if before.answer is None or now.answer is None:
        return before.answer is not now.answer
    return not now.answer.same_for_decisions(before.answer)
