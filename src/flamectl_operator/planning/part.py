"""The common base of all parts of a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from flamectl_operator.observed.component import Component
from flamectl_operator.observed.executor import Executor
from flamectl_operator.runtime.outcome import Outcome

Why = TypeVar("Why", bound=str)

#: The most names in an event.
_MAX_NAMES = 3


@dataclass(frozen=True)
class Part:
    """A part of a plan."""

    waits: tuple[Outcome, ...] = field(default=(), kw_only=True)

    @property
    def removes(self) -> tuple[Component, ...]:
        """The Pods that the part deletes, or marks so that they are deleted later."""
        return ()

    @property
    def locked(self) -> bool:
        """Whether the part deletes something, which needs the deletion lock."""
        return bool(self.removes)

    def lines(self) -> Iterator[str]:
        """Iterate over what the part does, in the words of the events."""
        yield from ()


def by_reason(removals: Sequence[tuple[Executor, Why]], removed: Collection[str]) -> dict[Why, list[Executor]]:
    """Return the executors that were removed, by their names, for each reason in the order of the plan."""
    found: dict[Why, list[Executor]] = {}
    for executor, why in removals:
        if executor.name in removed:
            found.setdefault(why, []).append(executor)
    return found


def removing(verb: str, removals: Sequence[tuple[Executor, str]]) -> Iterator[str]:
    """Iterate over what a part removes: a line for each reason."""
    for why, executors in by_reason(removals, {executor.name for executor, _ in removals}).items():
        yield f"{verb} {listed(executors)}: {why}"


def listed(executors: Sequence[Executor]) -> str:
    """Return the names of the first executors, for an event."""
    few = ", ".join(f'"{executor.name}"' for executor in executors[:_MAX_NAMES])
    return few if len(executors) <= _MAX_NAMES else f"{len(executors)} executors ({few}, ...)"
