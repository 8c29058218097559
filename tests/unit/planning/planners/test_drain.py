"""When drains are looked at again."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from flamectl_operator.api.constants import DRAINING_ANNOTATION, DRAINING_SINCE_ANNOTATION, EXECUTOR_MANAGER
from flamectl_operator.desired.executor_annotations import DrainReason, drain_annotations
from flamectl_operator.flame.answer import ExecutorState, FlameExecutor, NodeState, SessionManagerAnswer
from flamectl_operator.flame.knowledge import Knowledge, Phase
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.planners.drain import CONFIRM_AFTER, RETURN_SECONDS, drainable
from flamectl_operator.planning.removals import RemovalReason
from flamectl_operator.planning.sub_plans import DrainPlan
from flamectl_operator.runtime.clock_reading import ClockReading
from tests.unit.builders import (
    BOOTTIME,
    INCARNATION,
    MOMENT,
    NOW,
    OWNER,
    PodState,
    ago,
    answer,
    cluster_plan,
    effective,
    executor_pod,
    later,
    observed,
    replicas,
    running,
    session_manager,
    told,
)
from tests.unit.subreconcilers.harness import executor_name

NODE = executor_name(0)
_BUSY = FlameExecutor(NODE, ExecutorState.BOUND, "s")


def _plan(seen: ObservedCluster, wanted: EffectiveSpec, released_at: dict[str, float], now: ClockReading) -> DrainPlan:
    return cluster_plan(seen, wanted, now, released_at=released_at).drain


def _draining(content: SessionManagerAnswer, asked: float) -> ObservedCluster:
    marks = drain_annotations(DrainReason.SURPLUS, NOW)
    found = observed(session_manager(), executor_pod(0, annotations=marks))
    flame = answer(content, asked)
    return told(found, flame)


@pytest.mark.parametrize("released_at", [{}, {NODE: BOOTTIME - 1}])
def test_drain_that_lacks_only_a_newer_answer_is_looked_at_again_soon(released_at: dict[str, float]) -> None:
    plan = _plan(_draining(SessionManagerAnswer({}), BOOTTIME - 2), effective(), released_at, MOMENT)
    assert plan.delete == ()
    assert [outcome.delay for outcome in plan.waits] == [CONFIRM_AFTER]


def test_executor_is_deleted_by_an_answer_to_a_question_after_its_release() -> None:
    plan = _plan(_draining(SessionManagerAnswer({}), BOOTTIME), effective(), {NODE: BOOTTIME - 1}, MOMENT)
    assert [executor.name for executor, _ in plan.delete] == [NODE]


@pytest.mark.parametrize("known_for", [5.0, RETURN_SECONDS])
def test_executor_of_an_earlier_session_manager_has_time_to_come_back_to_its_work(known_for: float) -> None:
    marks = drain_annotations(DrainReason.SURPLUS, NOW)
    older = executor_pod(0, annotations=marks, containers=[running(EXECUTOR_MANAGER, since=ago(2000))])
    flame = answer(SessionManagerAnswer({}), known_since=BOOTTIME - known_for)
    found = observed(session_manager(), older)
    seen = told(found, flame)
    plan = _plan(seen, effective(), {NODE: BOOTTIME - 1}, MOMENT)
    if known_for < RETURN_SECONDS:
        assert plan.delete == ()
        assert [outcome.delay for outcome in plan.waits] == [RETURN_SECONDS - known_for]
    else:
        assert [why for _, why in plan.delete] == [RemovalReason.DRAINED]


@pytest.mark.parametrize("asked_after", [-1.0, 0.0])
def test_answer_from_before_executors_have_come_back_deletes_none_of_them(asked_after: float) -> None:
    # Later questions have failed, and meanwhile the executor may have come back to its work.
    marks = drain_annotations(DrainReason.SURPLUS, NOW)
    older = executor_pod(0, annotations=marks, containers=[running(EXECUTOR_MANAGER, since=ago(2000))])
    back = BOOTTIME - 10
    flame = answer(SessionManagerAnswer({}), back + asked_after, known_since=back - RETURN_SECONDS)
    seen = told(observed(session_manager(), older), replace(flame, failing=True))
    plan = _plan(seen, effective(), {NODE: back - 20}, MOMENT)
    assert [why for _, why in plan.delete] == ([RemovalReason.DRAINED] if asked_after >= 0 else [])


def test_executor_with_work_stays_when_the_session_manager_ends_while_a_pass_runs() -> None:
    # The next pass asks it no more, and counts the time without an answer from then on.
    marks = drain_annotations(DrainReason.SURPLUS, NOW)
    found = observed(session_manager(terminating_since=ago(1)), executor_pod(0, annotations=marks))
    flame = answer(SessionManagerAnswer({NODE: NodeState.READY}, (_BUSY,)), BOOTTIME - 2)
    assert _plan(told(found, flame), effective(), {}, MOMENT).delete == ()


@pytest.mark.parametrize("state", [ExecutorState.UNBINDING, ExecutorState.RELEASING, ExecutorState.IDLE])
def test_drain_is_over_when_all_that_is_listed_has_left_its_session(state: ExecutorState) -> None:
    # Flame 0.6 gets no executor past these states once its node was released, except an idle one while no session needs one.
    left = SessionManagerAnswer({}, (FlameExecutor(NODE, state),))
    plan = _plan(_draining(left, BOOTTIME), effective(), {NODE: BOOTTIME - 1}, MOMENT)
    assert [(executor.name, why) for executor, why in plan.delete] == [(NODE, RemovalReason.DRAINED)]


def test_executor_with_work_is_drained_while_its_session_manager_is_not_ready() -> None:
    found = observed(session_manager("starting"), executor_pod(0))
    flame = Knowledge(Phase.OFF, INCARNATION, last_answer=SessionManagerAnswer({NODE: NodeState.READY}, (_BUSY,)))
    executor, spec = found.executors[0], effective()
    assert drainable(executor, told(found, flame), spec.group)
    other = replace(flame, incarnation="another incarnation")
    assert not drainable(executor, told(found, other), spec.group)


@pytest.mark.parametrize(("state", "marked"), [("ready", 0), ("starting", 1)])
def test_answer_from_before_the_session_manager_was_ready_again_chooses_no_executor(
    state: PodState, marked: int
) -> None:
    found = observed(session_manager(state), executor_pod(0), executor_pod(1))
    nodes = dict.fromkeys((executor_name(0), executor_name(1)), NodeState.READY)
    before = SessionManagerAnswer(nodes, (_BUSY,))
    flame = Knowledge(
        Phase.OFF, found.session_manager_incarnation, since=BOOTTIME - 15, answered_at=BOOTTIME - 20, last_answer=before
    )
    plan = cluster_plan(told(found, flame), effective(replicas(1)), MOMENT).scale
    assert len(plan.drain) == marked
    assert ("AskingSessionManager" in [each.reason for each in plan.waits]) == (not marked)


@pytest.mark.parametrize(("asked", "deleted"), [(True, 0), (False, 1)])
def test_executors_stay_until_a_session_manager_that_came_in_the_midst_of_a_pass_is_asked(
    *, asked: bool, deleted: int
) -> None:
    found = observed(session_manager(), executor_pod(0), executor_pod(1))
    plan = cluster_plan(told(found, Knowledge(since=0.0, asked=asked)), effective(replicas(1)), MOMENT).scale
    assert len(plan.delete) == deleted
    assert ("AskingSessionManager" in [each.reason for each in plan.waits]) is asked


@pytest.mark.parametrize(
    ("incarnation", "executors", "drains"), [("", (_BUSY,), True), ("", (), False), ("a.0", (_BUSY,), False)]
)
def test_executor_whose_mark_tells_nothing_is_drained_where_flame_lists_work_on_it(
    incarnation: str, executors: tuple[FlameExecutor, ...], *, drains: bool
) -> None:
    older = executor_pod(0, incarnation=incarnation, containers=[running(EXECUTOR_MANAGER, since=ago(2000))])
    found = observed(session_manager(), older)
    content = SessionManagerAnswer({NODE: NodeState.READY}, executors)
    flame = answer(content)
    seen = told(found, flame)
    assert drainable(seen.executors[0], seen, effective().group) == drains


def test_drain_under_on_delete_ends_in_time_although_none_may_be_unavailable() -> None:
    marks = drain_annotations(DrainReason.STALE, NOW - timedelta(seconds=700))
    older = executor_pod(0, incarnation="", annotations=marks, containers=[running(EXECUTOR_MANAGER, since=ago(2000))])
    content = SessionManagerAnswer({executor_name(each): NodeState.READY for each in range(3)}, (_BUSY,))
    flame = answer(content)
    found = observed(session_manager(), older, executor_pod(1), executor_pod(2))
    seen = told(found, flame)
    none_missing = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    plan = _plan(seen, effective(replicas(3, type="OnDelete", **none_missing)), {}, MOMENT)
    assert [(executor.name, why) for executor, why in plan.delete] == [(NODE, RemovalReason.DRAIN_TIMED_OUT)]


@pytest.mark.parametrize("other", [_BUSY, FlameExecutor(NODE, ExecutorState.UNBINDING, "s")])
def test_drain_goes_on_while_another_executor_of_the_node_has_not_left(other: FlameExecutor) -> None:
    seen = SessionManagerAnswer({}, (FlameExecutor(NODE, ExecutorState.UNBINDING), other))
    assert _plan(_draining(seen, BOOTTIME), effective(), {NODE: BOOTTIME - 1}, MOMENT).delete == ()


@pytest.mark.parametrize("nodes", [{}, {NODE: NodeState.READY}])
def test_drain_with_work_waits_for_news(nodes: dict[str, NodeState]) -> None:
    seen = _draining(SessionManagerAnswer(nodes, (_BUSY,)), BOOTTIME - 2)
    wanted = effective()
    plan = _plan(seen, wanted, {NODE: BOOTTIME - 1}, MOMENT)
    assert [outcome.delay for outcome in plan.waits] == [wanted.group.drain_timeout]


def test_executor_whose_time_is_over_is_deleted_though_the_session_manager_is_silent() -> None:
    wanted = effective({"executorManager": {"drain": {"timeoutSeconds": 30}}})
    marks = drain_annotations(DrainReason.SURPLUS, ago(31))
    found = observed(session_manager(), executor_pod(0, annotations=marks), wanted=wanted)
    silent = Knowledge(Phase.UNKNOWN, INCARNATION, since=BOOTTIME - 5)
    seen = told(found, silent)
    plan = _plan(seen, wanted, {}, MOMENT)
    assert [why for _, why in plan.delete] == [RemovalReason.DRAIN_TIMED_OUT]
    assert plan.waits == ()


def _marked(since: datetime, moment: ClockReading, timeout: int = 600) -> DrainPlan:
    """Return the plan for an executor with work whose drain was recorded to begin at a time."""
    wanted = effective({"executorManager": {"drain": {"timeoutSeconds": timeout}}})
    marks = drain_annotations(DrainReason.SURPLUS, since)
    found = observed(session_manager(), executor_pod(0, annotations=marks), wanted=wanted)
    flame = answer(SessionManagerAnswer({}, (_BUSY,)))
    return _plan(told(found, flame), wanted, {NODE: BOOTTIME - 1}, moment)


def _working(moment: float) -> Knowledge:
    return answer(SessionManagerAnswer({}, (_BUSY,)), moment)


def test_drain_lasts_its_whole_time_again_when_the_clock_has_jumped_ahead() -> None:
    jumped = ClockReading(later(3600), BOOTTIME, steady_since=later(3590))
    plan = _marked(NOW, jumped)
    assert plan.delete == ()
    assert [outcome.delay for outcome in plan.waits] == [590]
    assert plan.record_begin == ((only_executor(plan), later(3590)),)


def test_drain_that_lived_through_its_time_after_a_jump_ends() -> None:
    jumped = ClockReading(later(3600 + 600), BOOTTIME, steady_since=later(3600))
    assert [why for _, why in _marked(NOW, jumped).delete] == [RemovalReason.DRAIN_TIMED_OUT]


@pytest.mark.parametrize("before", ["no mark", "another time"])
def test_drain_lasts_its_whole_time_when_another_operator_records_a_time_that_is_long_over(before: str) -> None:
    annotations = {DRAINING_ANNOTATION: "Stale", DRAINING_SINCE_ANNOTATION: NOW.isoformat()}
    first = observed(session_manager(), executor_pod(annotations=annotations if before == "another time" else None))
    marked = executor_pod(annotations={**annotations, DRAINING_SINCE_ANNOTATION: ago(3600).isoformat()})
    sources = replace(first.sources, labelled_pods=(session_manager(), marked), flame=_working(BOOTTIME + 30))
    seen = ObservedCluster.of(OWNER, replace(sources, flame=_working(BOOTTIME)), BOOTTIME, first)
    later_on = ObservedCluster.of(OWNER, sources, BOOTTIME + 30, seen)

    plan = _plan(later_on, effective(), {NODE: BOOTTIME - 1}, ClockReading(later(30), BOOTTIME + 30))

    assert (plan.delete, plan.record_begin) == ((), ())
    assert [outcome.delay for outcome in plan.waits] == [570]


def test_drain_from_before_a_change_of_the_operator_ends_in_time_when_the_clocks_agree() -> None:
    assert [why for _, why in _marked(ago(600), MOMENT).delete] == [RemovalReason.DRAIN_TIMED_OUT]


@pytest.mark.parametrize("ahead", [60, 3600])
def test_drain_that_begins_in_the_future_counts_from_now_and_says_so(ahead: int) -> None:
    """The clock was set back, or somebody wrote the mark by hand."""
    plan = _marked(later(ahead), MOMENT, timeout=10)
    assert plan.record_begin == ((only_executor(plan), NOW),)
    assert [outcome.delay for outcome in plan.waits] == [10]


def test_drain_without_a_time_counts_from_now_and_says_so() -> None:
    found = _draining(SessionManagerAnswer({}, (_BUSY,)), BOOTTIME)
    [pod] = [pod for pod in found.sources.labelled_pods if pod.name == NODE]
    unsaid = executor_pod(0, annotations={key: pod.annotations[key] for key in (DRAINING_ANNOTATION,)})
    seen = observed(session_manager(), unsaid)
    plan = _plan(told(seen, found.sources.flame), effective(), {}, MOMENT)
    assert [since for _, since in plan.record_begin] == [NOW]


def test_mark_whose_time_is_within_the_accuracy_of_the_clock_stays() -> None:
    assert _marked(later(2), MOMENT).record_begin == ()


def only_executor(plan: DrainPlan) -> Executor:
    [(executor, _)] = plan.record_begin
    return executor
