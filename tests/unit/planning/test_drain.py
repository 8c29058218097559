"""When drains are looked at again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from flamectl_operator.flame.knowledge import Knowledge, Phase
from flamectl_operator.flame.snapshot import ExecutorState, FlameExecutor, NodeState, Snapshot
from flamectl_operator.planning.drain import CONFIRM_AFTER, Deletion, DrainReason, drain_annotations, plan_drain
from tests.unit.builders import BOOTTIME, LIFE, MOMENT, NOW, ago, effective, executor_pod, observed, session_manager
from tests.unit.subreconcilers.harness import executor_name

if TYPE_CHECKING:
    from flamectl_operator.observed.cluster import ObservedCluster

NODE = executor_name(0)
_BUSY = FlameExecutor(NODE, ExecutorState.BOUND, "s")


def _draining(snapshot: Snapshot, asked: float) -> ObservedCluster:
    marks = drain_annotations(DrainReason.SURPLUS, NOW)
    found = observed(session_manager(), executor_pod(0, annotations=marks))
    flame = Knowledge(Phase.KNOWN, LIFE, snapshot=snapshot, asked_at=asked, said_at=asked)
    return replace(found, views=replace(found.views, flame=flame))


@pytest.mark.parametrize("released_at", [{}, {NODE: BOOTTIME - 1}])
def test_drain_that_lacks_only_a_newer_answer_is_looked_at_again_soon(released_at: dict[str, float]) -> None:
    plan = plan_drain(_draining(Snapshot({}), BOOTTIME - 2), effective(), released_at, MOMENT)
    assert plan.delete == ()
    assert [outcome.delay for outcome in plan.waits] == [CONFIRM_AFTER]


def test_executor_is_deleted_by_an_answer_to_a_question_after_its_release() -> None:
    plan = plan_drain(_draining(Snapshot({}), BOOTTIME), effective(), {NODE: BOOTTIME - 1}, MOMENT)
    assert [executor.name for executor, _ in plan.delete] == [NODE]


@pytest.mark.parametrize("state", [ExecutorState.UNBINDING, ExecutorState.RELEASING])
def test_drain_is_over_when_all_that_is_listed_has_left_its_session(state: ExecutorState) -> None:
    # With SQLite, Flame 0.6 never gets an executor past these states once its node was released.
    left = Snapshot({}, (FlameExecutor(NODE, state),))
    plan = plan_drain(_draining(left, BOOTTIME), effective(), {NODE: BOOTTIME - 1}, MOMENT)
    assert [(executor.name, why) for executor, why in plan.delete] == [(NODE, Deletion.DRAINED)]


@pytest.mark.parametrize(
    "other",
    [_BUSY, FlameExecutor(NODE, ExecutorState.UNBINDING, "s"), FlameExecutor(NODE, ExecutorState.IDLE)],
)
def test_drain_goes_on_while_another_executor_of_the_node_has_not_left(other: FlameExecutor) -> None:
    seen = Snapshot({}, (FlameExecutor(NODE, ExecutorState.UNBINDING), other))
    assert plan_drain(_draining(seen, BOOTTIME), effective(), {NODE: BOOTTIME - 1}, MOMENT).delete == ()


@pytest.mark.parametrize("nodes", [{}, {NODE: NodeState.READY}])
def test_drain_with_work_waits_for_news(nodes: dict[str, NodeState]) -> None:
    seen = _draining(Snapshot(nodes, (_BUSY,)), BOOTTIME - 2)
    wanted = effective()
    plan = plan_drain(seen, wanted, {NODE: BOOTTIME - 1}, MOMENT)
    assert [outcome.delay for outcome in plan.waits] == [wanted.drain_timeout]


def test_executor_whose_time_is_over_is_deleted_though_the_session_manager_is_silent() -> None:
    wanted = effective({"executorManager": {"drain": {"timeoutSeconds": 30}}})
    marks = drain_annotations(DrainReason.SURPLUS, ago(31))
    found = observed(session_manager(), executor_pod(0, annotations=marks), wanted=wanted)
    silent = Knowledge(Phase.UNKNOWN, LIFE, since=BOOTTIME - 5)
    seen = replace(found, views=replace(found.views, flame=silent))
    plan = plan_drain(seen, wanted, {}, MOMENT)
    assert [why for _, why in plan.delete] == [Deletion.TIMED_OUT]
    assert plan.waits == ()
