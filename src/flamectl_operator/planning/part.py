"""The common base of all parts of a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from flamectl_operator.observed.component import Component
from flamectl_operator.observed.executor import Executor
from flamectl_operator.runtime.outcome import Outcome


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


def removing(verb: str, executors: Sequence[Executor], why: str) -> Iterator[str]:
    """Yield a line about executors that are removed, if there are any."""
    if executors:
        yield f"{verb} {listed(executors)}: {why}"


def listed(executors: Sequence[Executor]) -> str:
    """Return the names of the first executors, for an event."""
    few = ", ".join(f'"{executor.name}"' for executor in executors[:3])
    return few if len(executors) <= 3 else f"{len(executors)} executors ({few}, ...)"  # noqa: PLR2004 - the same number as above
