"""The calls about nodes whose executors are gone, as a part of the plan."""

from typing import Any

import pytest

from flamectl_operator.flame.answer import ExecutorState, FlameExecutor, NodeState, SessionManagerAnswer
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.planners.lost_nodes import NODE_REPORT_INTERVAL_SECONDS
from tests.unit.builders import (
    BOOTTIME,
    SETTINGS,
    answer,
    cluster_plan,
    effective,
    executor_pod,
    observed,
    replicas,
    session_manager,
    terminating,
    told,
)
from tests.unit.subreconcilers.harness import executor_name

WANTED = effective(replicas(1))


#: Seconds after which a terminating executor counts as gone: its grace period, and `forceDeleteAfterSeconds`.
GIVEN_UP = SETTINGS.termination_grace_period_seconds + SETTINGS.force_delete_after_seconds


def _plan(
    *pods: PodView, nodes: tuple[int, ...], busy: tuple[int, ...] = (), first_seen_ago: float = 0.0, **facts: Any
) -> ClusterPlan:
    content = SessionManagerAnswer(
        {executor_name(each): NodeState.READY for each in nodes},
        tuple(FlameExecutor(executor_name(each), ExecutorState.BOUND, "s") for each in busy),
    )
    known = answer(content)
    found = observed(session_manager(), *pods, wanted=WANTED, first_seen_ago=first_seen_ago)
    seen = told(found, known)
    return cluster_plan(seen, WANTED, **{"next_id": 5, **facts})


def test_node_of_an_executor_that_is_gone_is_released() -> None:
    plan = _plan(executor_pod(1), nodes=(0, 1)).lost_nodes

    assert (plan.release, plan.report, plan.cordon) == ((executor_name(0),), (), ())
    assert list(plan.lines()) == [f"release node {executor_name(0)}"]


def test_node_with_work_is_reported_as_lost_so_that_its_tasks_run_elsewhere() -> None:
    plan = _plan(executor_pod(1), nodes=(0, 1), busy=(0,)).lost_nodes

    assert (plan.release, plan.report) == ((), (executor_name(0),))


@pytest.mark.parametrize(
    ("seconds", "due"),
    [(NODE_REPORT_INTERVAL_SECONDS - 1, False), (NODE_REPORT_INTERVAL_SECONDS, True)],
    ids=["early", "due"],
)
def test_node_with_work_is_reported_again_after_a_while(seconds: float, *, due: bool) -> None:
    reported = {executor_name(0): BOOTTIME - seconds}

    plan = _plan(executor_pod(1), nodes=(0, 1), busy=(0,), reported_at=reported).lost_nodes

    assert plan.report == ((executor_name(0),) if due else ())
    assert plan.report_again == (None if due else 1.0)


def test_node_of_a_terminating_executor_is_cordoned_and_keeps_its_work() -> None:
    plan = _plan(terminating(executor_pod(0)), executor_pod(1), nodes=(0, 1), busy=(0,)).lost_nodes

    assert (plan.cordon, plan.release, plan.report) == ((executor_name(0),), (), ())


@pytest.mark.parametrize(
    ("seconds", "due"), [(GIVEN_UP - 1, False), (GIVEN_UP, True)], ids=["may end yet", "should have ended"]
)
def test_work_of_an_executor_that_does_not_end_with_its_grace_period_is_given_to_others(
    seconds: float, *, due: bool
) -> None:
    leaving = terminating(executor_pod(0))

    plan = _plan(leaving, executor_pod(1), nodes=(1,), busy=(0,), first_seen_ago=seconds).lost_nodes

    assert (plan.report, plan.cordon, plan.release) == ((executor_name(0),) if due else (), (), ())
    assert plan.report_again == (None if due else 1.0)


def test_node_of_an_executor_that_does_not_end_stays_in_the_table_until_its_work_is_given_to_others() -> None:
    leaving, reported = terminating(executor_pod(0)), {executor_name(0): BOOTTIME - 10.0}

    plan = _plan(
        leaving, executor_pod(1), nodes=(0, 1), busy=(0,), first_seen_ago=GIVEN_UP, reported_at=reported
    ).lost_nodes

    assert (plan.report, plan.cordon, plan.release) == ((), (), ())
    assert plan.report_again == NODE_REPORT_INTERVAL_SECONDS - 10.0


def test_node_without_work_of_an_executor_that_does_not_end_is_released() -> None:
    plan = _plan(terminating(executor_pod(0)), executor_pod(1), nodes=(0, 1), first_seen_ago=GIVEN_UP).lost_nodes

    assert (plan.report, plan.cordon, plan.release) == ((), (executor_name(0),), ())


def test_node_with_a_name_that_the_operator_did_not_give_is_left_alone() -> None:
    plan = _plan(executor_pod(1), nodes=(1, 7), next_id=5).lost_nodes

    assert (plan.release, plan.report, plan.cordon) == ((), (), ())


def test_answers_are_needed_soon_while_a_node_is_lost() -> None:
    assert _plan(executor_pod(1), nodes=(0, 1)).answers_needed
    assert not _plan(executor_pod(1), nodes=(1,)).answers_needed
