"""Steps that carry out a part of the plan."""

from dataclasses import dataclass
from typing import Any, cast

from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.sub_plans import SubPlan
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.steps.base import PlannedStep
from flamectl_operator.runtime.outcome import wait


@dataclass(frozen=True)
class _SubPlan(SubPlan):
    deletes: bool = False

    @property
    def locked(self) -> bool:
        return self.deletes


class _Step(PlannedStep[_SubPlan]):
    def sub_plan(self, plan: ClusterPlan, /) -> _SubPlan:
        return cast("_SubPlan", plan)


class _SlowLock:
    """A pass in which a plan is out of date by the time that the lock is taken."""

    def __init__(self, before: _SubPlan, after: _SubPlan) -> None:
        self.plan: Any = before
        self._after = after

    async def confirm_lock(self) -> None:
        self.plan = self._after


async def test_step_waits_for_what_the_plan_waits_for_after_the_lock_was_taken() -> None:
    asking = wait("AskingSessionManager", "", 0.5)
    slow = _SlowLock(_SubPlan(deletes=True), _SubPlan(waits=(asking,)))

    assert await _Step().run(cast("Pass", slow)) == asking
