"""A group of executors beside what is wanted of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from flamectl_operator.observed.executor import Executor
from flamectl_operator.observed.group import ObservedGroup
from flamectl_operator.planning.effective.effective_group import EffectiveGroup


@dataclass(frozen=True)
class GroupComparison:
    """The executors of a group that exist, beside the group as it is wanted. Each answer is worked out once."""

    observed: ObservedGroup
    effective: EffectiveGroup

    @cached_property
    def stale(self) -> tuple[Executor, ...]:
        """The live executors that differ from the wanted revision, by id."""
        wanted, found = self.effective.desired.template.revision, self.observed.by_revision
        stale = [executors for revision, executors in found.items() if revision != wanted]
        if len(stale) < 2:  # noqa: PLR2004 - executors of one revision are in order
            return stale[0] if stale else ()
        return tuple(executor for executor in self.observed.live if executor.revision != wanted)

    @cached_property
    def to_replace(self) -> tuple[Executor, ...]:
        """The live executors that are replaced within the budget: the stale ones, and those whose marks are not valid."""
        stale, invalid = self.stale, self.observed.with_invalid_marks
        return (*stale, *(each for each in invalid if each not in stale)) if invalid else stale

    @property
    def up_to_date(self) -> tuple[Executor, ...]:
        """The live executors of the wanted revision, by id."""
        return self.observed.by_revision.get(self.effective.desired.template.revision, ())
