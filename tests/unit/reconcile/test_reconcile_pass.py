"""The plan of a pass is a value: new exactly when the snapshot or the facts are new, and made once."""

import inspect
import sys
from collections import Counter
from typing import Any

import pytest
import structlog

from flamectl_operator.planning import cluster_plan
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.runtime.logs import set_level
from flamectl_operator.runtime.outcome import Result
from tests.unit.builders import executor_template, merged, replicas
from tests.unit.subreconcilers.harness import StepHarness, converged, edited, executor_name

pytestmark = pytest.mark.usefixtures("quiet")

#: The modules of the planners.
PLANNING = {
    "claims", "drain", "lost_nodes", "object_cache", "protection", "registration", "rollout", "scale", "session_manager",
}  # fmt: skip
#: The code of the planners, which only the plan imports, and of the needs.
PLANNERS = {vars(ClusterPlan)["needs"].func.__code__: "needs"} | {
    each.__code__: name
    for name, each in vars(cluster_plan).items()
    if inspect.isfunction(each) and each.__module__.rpartition(".")[2] in PLANNING
}


async def _planned(world: StepHarness) -> tuple[Counter[str], Result]:
    """Run a pass, and count what it plans."""
    calls: Counter[str] = Counter()

    def count(frame: Any, event: str, _arg: Any) -> None:
        if event == "call" and frame.f_code in PLANNERS:
            calls[PLANNERS[frame.f_code]] += 1

    sys.setprofile(count)
    try:
        result = await world.run_pass()
    finally:
        sys.setprofile(None)
    return calls, result


async def test_pass_at_rest_plans_once() -> None:
    world = await converged(replicas(5))

    calls, result = await _planned(world)

    assert world.writes == []
    assert not result.errors
    assert {"plan_scale", "plan_rollout", "plan_claims", "needs"} <= calls.keys()
    assert max(calls.values()) == 1, calls
    assert calls.total() < 15, calls


async def test_plan_is_the_same_value_until_the_snapshot_or_the_facts_change() -> None:
    world = await converged(replicas(2))
    pass_ = await world.recorded()

    plan = pass_.plan
    assert isinstance(plan, ClusterPlan)
    assert pass_.plan is plan

    world.clock.elapsed += 1
    assert pass_.plan is plan, "time alone makes no new plan"

    world.set_executor(0, "failed")
    world.sync()
    after_event = pass_.plan
    assert after_event is not plan
    assert after_event.now.wall > plan.now.wall

    pass_.dry_runs.accepted |= {"another template"}
    assert pass_.plan is not after_event


async def test_own_write_makes_a_new_plan() -> None:
    world = await edited(replicas(2), replicas(3))
    pass_ = await world.recorded()
    plan = pass_.plan
    assert plan.scale.create == 1

    await world.run_pass()

    assert pass_.plan.scale.create == 0


async def test_log_says_at_debug_what_the_pass_will_do_in_the_words_of_the_events() -> None:
    world = await edited(replicas(3), merged(replicas(1), executor_template({"nodeSelector": {"a": "b"}})))
    set_level("debug")
    with structlog.testing.capture_logs() as logs:
        await world.run_pass()

    told = [line["plan"] for line in logs if line["event"] == "plan"]
    assert told[0] == f'ScaleExecutors: remove "{executor_name(2)}", "{executor_name(1)}": 1 wanted'
    assert len(told) == len(set(told))


async def test_plan_at_rest_says_that_there_is_nothing_to_do() -> None:
    world = await converged(replicas(1))
    pass_ = await world.recorded()

    assert str(pass_.plan) == "nothing to do"
