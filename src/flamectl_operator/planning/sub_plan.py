"""The common base of the sub-plans, and why executors are removed."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from flamectl_operator.observed.component import Component
from flamectl_operator.observed.executor import Executor
from flamectl_operator.runtime.outcome import Outcome
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


@dataclass(frozen=True)
class SubPlan:
    """The part of a plan that one step carries out."""

    waits: tuple[Outcome, ...] = field(default=(), kw_only=True)

    @property
    def removes(self) -> tuple[Component, ...]:
        """The Pods that the step deletes, or marks so that they are deleted later."""
        return ()

    @property
    def locked(self) -> bool:
        """Whether the step deletes something, which needs the deletion lock."""
        return bool(self.removes)

    def lines(self) -> Iterator[str]:
        """Iterate over what the step does, in the words of the events."""
        yield from ()

    def words(self, why: RemovalReason, executors: Sequence[Executor]) -> str:  # noqa: ARG002 - the contract of subclasses
        """Return why executors are removed, in the words of the events."""
        return why.value

    def removing(self, verb: str, removals: Removals) -> Iterator[str]:
        """Iterate over what the step removes: a line for each reason."""
        for reason, executors in by_reason(removals, {executor.name for executor, _ in removals}).items():
            yield f"{verb} {listed(executors)}: {self.words(reason, executors)}"


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
