from typing import Any

import pytest
from msgspec.structs import replace

from flamectl_operator.api.status import FlameClusterStatus, Generations
from flamectl_operator.flame.answer import ExecutorState, FlameExecutor, NodeState, SessionManagerAnswer
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.reconcile.debounce import (
    FIRST_INTERVAL,
    LONGEST_INTERVAL,
    NOTHING_AWAITED,
    Awaited,
    Debounce,
    awaited_executors,
    only_ends,
    only_starts,
)
from flamectl_operator.runtime.outcome import Outcome, Result, blocked, wait
from tests.unit.builders import (
    OWNER,
    PodState,
    answer,
    effective,
    executor_pod,
    object_cache_pod,
    observed,
    replicas,
    session_manager,
    terminating,
    told,
)

DEBOUNCE = Debounce(until=11.0, awaited=Awaited(starts=3), length=FIRST_INTERVAL)
SHRINKING = Debounce(until=11.0, awaited=Awaited(ends=3), length=FIRST_INTERVAL)
STARTING, READY = executor_pod(0, "starting"), executor_pod(0, "ready")
ENDING = terminating(READY)


# --- Which events bring nothing but counts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("unscheduled", "pending"),
        ("pending", "waiting"),
        ("waiting", "starting"),
        ("starting", "ready"),
        ("unscheduled", "ready"),
        ("ready", "ready"),
    ],
)
def test_executor_that_comes_closer_to_being_ready_only_starts(before: PodState, after: PodState) -> None:
    assert only_starts(OWNER, executor_pod(0, before), executor_pod(0, after))


@pytest.mark.parametrize("after", ["unschedulable", "crashing", "failed", "succeeded", "half"])
def test_executor_that_fails_is_news(after: PodState) -> None:
    assert not only_starts(OWNER, STARTING, executor_pod(0, after))


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(executor_pod(0, "starting"), id="not ready any more"),
        pytest.param(terminating(READY), id="terminating"),
        pytest.param(executor_pod(0, "ready", annotations={"a": "b"}), id="annotated"),
        pytest.param(replace(READY, metadata=replace(READY.metadata, labels={})), id="labels taken off"),
        pytest.param(replace(READY, metadata=replace(READY.metadata, owner_references=())), id="owner taken off"),
        pytest.param(replace(READY, metadata=replace(READY.metadata, finalizers=("a/b",))), id="with a finalizer"),
        pytest.param(executor_pod(0, "ready", uid="another"), id="another Pod"),
        pytest.param(executor_pod(0, "ready", node="another"), id="on another node"),
    ],
)
def test_other_change_of_a_ready_executor_is_news(after: PodView) -> None:
    assert not only_starts(OWNER, READY, after)


def test_change_of_another_component_is_news() -> None:
    assert not only_starts(OWNER, session_manager("starting"), session_manager("ready"))


def test_executor_that_was_terminating_and_is_gone_only_ends() -> None:
    assert only_ends(OWNER, ENDING, None)
    assert only_ends(OWNER, ENDING, terminating(executor_pod(0, "failed")))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(READY, None, id="gone without a sign"),
        pytest.param(READY, ENDING, id="begins to terminate"),
        pytest.param(ENDING, executor_pod(0, "ready", uid="another"), id="another Pod"),
        pytest.param(ENDING, replace(ENDING, metadata=replace(ENDING.metadata, labels={})), id="labels taken off"),
        pytest.param(terminating(session_manager()), None, id="session manager"),
        pytest.param(replace(ENDING, metadata=replace(ENDING.metadata, owner_references=())), None, id="foreign"),
    ],
)
def test_other_change_of_an_executor_is_more_than_its_end(old: PodView, new: PodView | None) -> None:
    assert not only_ends(OWNER, old, new)


# --- How long a pass may wait


def test_executor_that_starts_waits_for_the_end_of_the_debounce_interval() -> None:
    after = DEBOUNCE.after_event(OWNER, STARTING, READY)

    assert after.remaining(10.75) == pytest.approx(0.25)
    assert after.remaining(11.5) == 0


def test_executor_that_makes_the_state_turn_does_not_wait() -> None:
    debounce = DEBOUNCE
    waits = []
    for number in range(3):
        debounce = debounce.after_event(OWNER, executor_pod(number, "starting"), executor_pod(number, "ready"))
        waits.append(debounce.remaining(10.0) > 0)

    assert waits == [True, True, False]


def test_last_executor_that_is_gone_does_not_wait() -> None:
    debounce = SHRINKING
    waits = []
    for number in range(3):
        ending = terminating(executor_pod(number, "ready"))
        debounce = debounce.after_event(OWNER, ending, ending)
        debounce = debounce.after_event(OWNER, ending, None)
        waits.append(debounce.remaining(10.0) > 0)

    assert waits == [True, True, False]


def test_executors_that_start_and_end_at_a_time_wait_together() -> None:
    both = Debounce(until=11.0, awaited=Awaited(starts=2, ends=2), length=FIRST_INTERVAL)

    assert both.after_event(OWNER, STARTING, READY).after_event(OWNER, ENDING, None).awaited == Awaited(1, 1)


def test_executor_that_starts_although_none_is_awaited_ends_the_debounce_interval() -> None:
    assert SHRINKING.after_event(OWNER, STARTING, READY).remaining(10.0) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [(None, STARTING), (READY, None), (READY, ENDING), (ENDING, None), (STARTING, executor_pod(0, "failed"))],
)
def test_other_event_ends_the_debounce_interval_for_those_that_follow(old: PodView | None, new: PodView | None) -> None:
    debounce = DEBOUNCE.after_event(OWNER, old, new)
    assert debounce.remaining(10.0) == 0

    assert debounce.after_event(OWNER, executor_pod(1, "starting"), executor_pod(1, "ready")).remaining(10.0) == 0


def test_no_debounce_interval_without_a_pass_that_announces_it() -> None:
    assert Debounce().after_event(OWNER, STARTING, READY).remaining(0.0) == 0
    assert DEBOUNCE.after_pass(NOTHING_AWAITED, counts_due=99.0, now=10.0).remaining(10.0) == 0


def test_debounce_intervals_in_a_row_grow_to_their_limit() -> None:
    debounce, now, lengths = Debounce(), 5.0, []
    for _ in range(8):
        debounce = debounce.after_pass(Awaited(10), counts_due=0.0, now=now)
        lengths.append(debounce.remaining(now))
        now = debounce.until

    assert lengths[:3] == pytest.approx([FIRST_INTERVAL, 2 * FIRST_INTERVAL, 4 * FIRST_INTERVAL])
    assert lengths[-2:] == pytest.approx([LONGEST_INTERVAL, LONGEST_INTERVAL])


def test_debounce_interval_after_a_quiet_time_is_short_again() -> None:
    debounce = Debounce(until=10.0, awaited=Awaited(5), length=LONGEST_INTERVAL).after_pass(
        Awaited(5), counts_due=0.0, now=12.5
    )

    assert debounce.remaining(12.5) == pytest.approx(FIRST_INTERVAL)


def test_debounce_interval_lasts_until_counts_may_be_written() -> None:
    assert Debounce().after_pass(Awaited(5), counts_due=11.5, now=10.0).remaining(10.0) == pytest.approx(1.5)


# --- When there is a debounce interval

CALM = FlameClusterStatus(generations=Generations(reconciled=1))


def _awaited(*pods: PodView, wanted: int = 3, status: FlameClusterStatus = CALM, **given: Any) -> Awaited:
    spec = effective(replicas(wanted), suspended=given.get("suspended", False))
    found = observed(given.get("manager", session_manager()), *pods, wanted=spec)
    flame = answer(given.get("content"))
    found = told(found, flame)
    return awaited_executors(status, found, spec.group, given.get("result", Result()))


def _executors(ready: int, starting: int) -> list[PodView]:
    return [executor_pod(number, "ready" if number < ready else "starting") for number in range(ready + starting)]


def test_first_and_last_ready_executor_turn_the_state() -> None:
    assert _awaited(*_executors(0, 3)) == Awaited(starts=1)
    assert _awaited(*_executors(1, 2)) == Awaited(starts=2)


def test_executors_that_terminate_are_awaited_until_the_last_one_is_gone() -> None:
    removing = CALM.model_copy(update={"generations": Generations(reconciled=1, has_pending_removal=1)})
    ending = [terminating(executor_pod(number)) for number in (4, 5)]

    assert _awaited(*_executors(3, 0), *ending, status=removing) == Awaited(ends=2)
    assert _awaited(*ending, wanted=0, status=removing) == Awaited(ends=2)
    assert _awaited(*_executors(1, 2), *ending, status=removing) == Awaited(starts=2, ends=2)


def test_object_cache_that_terminates_allows_no_debounce_interval() -> None:
    assert _awaited(*_executors(3, 0), terminating(object_cache_pod())) == NOTHING_AWAITED


def test_executor_that_leaves_a_node_in_flames_table_allows_no_debounce_interval() -> None:
    ending = terminating(executor_pod(5))

    def awaited(node: str) -> list[Awaited]:
        nodes = SessionManagerAnswer({node: NodeState.READY})
        busy = SessionManagerAnswer({}, (FlameExecutor(node, ExecutorState.BOUND, "s"),))
        return [_awaited(*_executors(3, 0), ending, content=content) for content in (nodes, busy)]

    assert awaited(ending.name) == [NOTHING_AWAITED, NOTHING_AWAITED]
    assert awaited("another") == [Awaited(ends=1), Awaited(ends=1)]


@pytest.mark.parametrize(
    "outcome",
    [wait("Creating", "", 0), blocked("QuotaExceeded", "no room"), wait("StatusContention", "", 1), wait("Changed")],
)
def test_work_that_is_left_allows_no_debounce_interval(outcome: Outcome) -> None:
    assert _awaited(*_executors(1, 2), result=Result(outcomes=(outcome,))) == NOTHING_AWAITED


@pytest.mark.parametrize(
    "given",
    [
        {"result": Result(errors=(ValueError(),))},
        {"suspended": True},
        {"manager": session_manager("starting")},
        {"status": CALM.model_copy(update={"generations": Generations(reconciled=1, needs_pod_replacement=1)})},
        {"status": CALM.model_copy(update={"generations": Generations(reconciled=1, has_unhealthy_pods=1)})},
    ],
)
def test_anything_else_that_is_awaited_allows_no_debounce_interval(given: dict[str, Any]) -> None:
    assert _awaited(*_executors(1, 2), **given) == NOTHING_AWAITED


@pytest.mark.parametrize("reason", ["StatusThrottled", "PodsStarting", "SessionManagerSilent", "LateDeletion"])
def test_look_at_the_clock_allows_a_debounce_interval(reason: str) -> None:
    assert _awaited(*_executors(1, 2), result=Result(outcomes=(wait(reason, "", 1.0),))) == Awaited(starts=2)
