"""How many executors there should be, and which ones go."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamectl_operator.api.constants import DELETION_COST_ANNOTATION
from flamectl_operator.desired.executor_annotations import DrainReason, drain_annotations
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed.executor import Executor
from flamectl_operator.planning.deletion_order import deletion_order
from flamectl_operator.planning.effective.effective_group import Budget
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff
from flamectl_operator.planning.planners.scale import wait_before_reserving
from flamectl_operator.planning.sub_plans import ScalePlan
from flamectl_operator.settings.model import FlameSettings
from tests.unit.builders import (
    MOMENT,
    NOW,
    SETTINGS,
    PodState,
    ago,
    cluster_plan,
    condition,
    config_map_view,
    desired,
    effective,
    executor,
    executor_pod,
    later,
    observed,
    replicas,
    rolling,
    session_manager,
    spec,
    terminating,
)

GRACE = SETTINGS.termination_grace_period_seconds


def _ids(executors: Iterable[Executor]) -> list[int]:
    return [each.executor_id for each in executors]


def _plan(wanted: EffectiveSpec, *pods: PodView) -> ScalePlan:
    return cluster_plan(observed(session_manager(), *pods, wanted=wanted), wanted, MOMENT).scale


def _pods(count: int, state: Any = "ready", **changes: Any) -> list[PodView]:
    return [executor_pod(number, state, **changes) for number in range(count)]


# --- Numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "pods", "create", "delete"),
    [
        pytest.param(3, [], 3, [], id="none there"),
        pytest.param(3, _pods(1), 2, [], id="some missing"),
        pytest.param(3, _pods(3), 0, [], id="enough"),
        pytest.param(0, [], 0, [], id="none wanted"),
        pytest.param(3, _pods(5), 0, [4, 3], id="too many"),
        pytest.param(0, _pods(2), 0, [1, 0], id="down to none"),
        pytest.param(2, [*_pods(1), terminating(executor_pod(1))], 1, [], id="terminating ones do not count"),
        pytest.param(1, [*_pods(1), terminating(executor_pod(1))], 0, [], id="terminating ones are not deleted again"),
        pytest.param(2, [*_pods(1), executor_pod(1, "failed", since=ago(1))], 1, [], id="failed ones do not count"),
        pytest.param(
            2, [*_pods(1), executor_pod(1, "succeeded", since=ago(1))], 1, [], id="completed ones do not count"
        ),
        pytest.param(2, [*_pods(1), executor_pod(1, "half", since=ago(1))], 1, [], id="half dead ones do not count"),
        pytest.param(2, _pods(2, "crashing"), 0, [], id="those that the kubelet retries do count"),
    ],
)
def test_missing_executors_are_created_and_surplus_ones_deleted(
    wanted: int, pods: list[PodView], create: int, delete: list[int]
) -> None:
    plan = _plan(effective(replicas(wanted)), *pods)

    assert (plan.create, _ids(plan.delete), plan.target) == (create, delete, wanted)


def test_a_suspended_cluster_loses_all_executors() -> None:
    plan = _plan(effective(replicas(3), suspended=True), *_pods(2, "ready"), executor_pod(9, "failed", since=ago(1)))

    assert _ids(plan.delete) == [1, 0]
    assert _ids(plan.delete_terminal) == [9]
    assert plan.create == 0


@pytest.mark.parametrize(
    "config_map",
    [
        pytest.param(None, id="missing"),
        pytest.param(config_map_view(ownerReferences=[]), id="somebody else's"),
        pytest.param(config_map_view(deletionTimestamp=NOW), id="terminating"),
        pytest.param(config_map_view(effective({"objectCache": {"storage": "/data/x"}})), id="out of date"),
    ],
)
def test_no_executor_is_created_before_the_config_map_is_current(config_map: Any) -> None:
    wanted = effective(replicas(3))
    plan = cluster_plan(observed(session_manager(), wanted=wanted, config_map=config_map), wanted).scale

    assert plan.create == 0
    assert [deferral.reason for deferral in plan.waits] == ["ConfigMapNotReady"]


def test_replacements_wait_while_they_keep_failing() -> None:
    backoff = ReplacementBackoff(desired().group.template.revision, failures=3, next_attempt=later(20))
    wanted = effective(replicas(3), executor_backoff=backoff)
    plan = _plan(wanted, *_pods(1))

    assert plan.create == 0
    [deferral] = plan.waits
    assert (deferral.reason, deferral.delay) == ("BackOff", 20)
    assert "3 times" in deferral.message
    assert cluster_plan(observed(wanted=wanted), wanted).ids_needed == 0


OF_GROUP = condition("PodScheduled", "False", "Unschedulable", "pod group is not ready, 1 Pending, 4 minAvailable")


def _managers_attempts(until: datetime) -> ReplacementBackoff:
    return ReplacementBackoff(desired().session_manager.revision, failures=2, next_attempt=until)


@pytest.mark.parametrize(
    ("manager", "next_attempt", "made", "look_again"),
    [
        pytest.param(None, later(20), 0, 20, id="absent during the backoff"),
        pytest.param(None, NOW, 3, None, id="absent after the backoff"),
        pytest.param(session_manager("starting"), later(20), 3, None, id="starting"),
        pytest.param(session_manager("unscheduled"), NOW, 3, None, id="not scheduled yet"),
        pytest.param(session_manager("unschedulable"), NOW, 0, None, id="unschedulable"),
        pytest.param(session_manager("unschedulable", conditions=[OF_GROUP]), NOW, 3, None, id="waits for its group"),
        pytest.param(session_manager("failed"), NOW, 0, None, id="failed"),
        pytest.param(terminating(session_manager("failed")), NOW, 0, None, id="failed and terminating"),
        pytest.param(terminating(session_manager()), NOW, 3, None, id="live and terminating"),
    ],
)
def test_executors_leave_quota_for_the_session_manager(
    manager: PodView | None, next_attempt: datetime, made: int, look_again: float | None
) -> None:
    wanted = effective(replicas(3), session_manager_backoff=_managers_attempts(next_attempt))
    pods = [manager] if manager is not None else []
    plan = cluster_plan(observed(*pods, wanted=wanted), wanted).scale

    assert plan.create == made
    assert [deferral.delay for deferral in plan.waits] == ([] if made else [look_again])


@pytest.mark.parametrize(
    ("count", "there", "limit", "reserved"), [(3, 0, 500, 3), (3, 1, 500, 2), (3, 5, 500, 0), (100, 0, 10, 10)]
)
def test_ids_are_reserved_for_missing_executors(count: int, there: int, limit: int, reserved: int) -> None:
    wanted = effective(replicas(count))
    found = observed(*_pods(there), wanted=wanted, config_map=None)

    assert cluster_plan(found, wanted, MOMENT, max_creates=limit).ids_needed == reserved


# --- What is over ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["failed", "succeeded", "half"])
def test_a_terminal_executor_is_kept_for_thirty_seconds(state: Any) -> None:
    early = _plan(effective(replicas(0)), executor_pod(0, state, since=ago(29)))
    due = _plan(effective(replicas(0)), executor_pod(0, state, since=ago(30)))

    assert (early.delete_terminal, [deferral.delay for deferral in early.waits]) == ((), [1])
    assert _ids(due.delete_terminal) == [0]
    assert due.waits == ()


@pytest.mark.parametrize(
    ("states", "why"),
    [
        pytest.param(["failed", "failed"], "ended (Error)", id="all alike"),
        pytest.param(["failed", "succeeded"], "failed or completed", id="each in its way"),
    ],
)
def test_plan_says_how_executors_ended_in_the_words_of_their_event(states: list[Any], why: str) -> None:
    pods = [executor_pod(number, state, since=ago(60)) for number, state in enumerate(states)]

    lines = list(_plan(effective(replicas(0)), *pods).lines())

    assert lines == [f'remove "{pods[0].name}", "{pods[1].name}": {why}']


def test_executor_with_uncounted_failure_is_neither_deleted_nor_replaced() -> None:
    wanted = effective(replicas(1), settings=FlameSettings(terminal_pod_retention_seconds=0))
    plan = _plan(wanted, executor_pod(0, "failed", since=NOW, created=ago(5)))
    group = wanted.group
    counted = replace(wanted, group=replace(group, backoff=replace(group.backoff, attempt_id=1)))

    assert (plan.delete_terminal, plan.create) == ((), 0)
    assert {deferral.delay for deferral in plan.waits} == {0}
    assert _ids(_plan(counted, executor_pod(0, "failed", since=NOW, created=ago(5))).delete_terminal) == [0]


def test_plan_waits_for_the_next_deletion_of_a_terminal_executor() -> None:
    pods = [executor_pod(number, "failed", since=ago(seconds)) for number, seconds in enumerate((5, 25, 40))]
    plan = _plan(effective(replicas(0)), *pods)

    assert _ids(plan.delete_terminal) == [2]
    assert [deferral.delay for deferral in plan.waits] == [5]


# --- Who goes first ----------------------------------------------------------------------------------------------------


def _cost(value: str) -> dict[str, str]:
    return {DELETION_COST_ANNOTATION: value}


STATES: list[PodState] = ["unscheduled", "unschedulable", "pending", "waiting", "starting", "ready", "crashing"]


@st.composite
def executors(draw: st.DrawFn) -> Executor:
    cost = draw(st.none() | st.integers(-2, 2))
    return executor(
        draw(st.integers(0, 30)),
        draw(st.sampled_from(STATES)),
        revision=draw(st.sampled_from([None, "old"])),
        annotations={} if cost is None else _cost(str(cost)),
    )


def _goes_before(one: Executor, other: Executor) -> int:
    """The rules one after the other, as the documentation lists them."""
    current = desired().group.template.revision

    def cost(each: Executor) -> int:
        return int(each.pod.annotations.get(DELETION_COST_ANNOTATION, "0"))

    for rule in (
        lambda each: each.pod.spec.node_name == "",
        lambda each: each.pod.status.phase == "Pending",
        lambda each: not each.ready,
    ):
        if rule(one) != rule(other):
            return -1 if rule(one) else 1
    if cost(one) != cost(other):
        return cost(one) - cost(other)
    if (one.revision == current) != (other.revision == current):
        return 1 if one.revision == current else -1
    return other.executor_id - one.executor_id


@given(st.lists(executors(), max_size=8, unique_by=lambda each: each.executor_id))
def test_deletion_order_is_the_documented_one(given_: Sequence[Executor]) -> None:
    assert deletion_order(given_, effective().group) == sorted(given_, key=functools.cmp_to_key(_goes_before))


@given(st.lists(executors(), max_size=8, unique_by=lambda each: each.executor_id), st.integers(0, 8))
def test_scaling_down_never_costs_a_ready_executor_while_another_could_go(
    given_: Sequence[Executor], count: int
) -> None:
    wanted = effective(replicas(count, type="OnDelete"))
    plan = cluster_plan(observed(*(each.pod for each in given_), wanted=wanted), wanted).scale
    kept = [each for each in given_ if each.executor_id not in _ids(plan.delete)]

    assert len(kept) == min(count, len(given_))
    assert all(not victim.ready for victim in plan.delete) or all(each.ready for each in kept)


# --- Surge and budgets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "unavailable", "surge", "budget"),
    [
        (4, "25%", 0, (1, 0)),
        (3, "25%", 0, (1, 0)),
        (7, "25%", 0, (1, 0)),
        (8, "25%", 0, (2, 0)),
        (3, "25%", "25%", (0, 1)),
        (10, "0%", "1%", (0, 1)),
        (10, "100%", 0, (10, 0)),
        (10, 3, 2, (3, 2)),
        (2, 5, 0, (2, 0)),
        (1, "99%", 0, (1, 0)),
        (3, "33%", "34%", (0, 2)),
        (0, "25%", 0, (1, 0)),
        (1000, "25%", "150%", (250, 1500)),
    ],
)
def test_percentages_round_as_those_of_deployments(
    count: int, unavailable: int | str, surge: int | str, budget: tuple[int, int]
) -> None:
    strategy = spec(rolling(count, unavailable, surge)).executor_manager.update_strategy

    assert Budget.of(strategy, count) == Budget(*budget)


@given(st.integers(1, 1000), st.integers(0, 100), st.integers(0, 300))
def test_budget_always_allows_progress(count: int, unavailable: int, surge: int) -> None:
    if unavailable == surge == 0:
        return
    strategy = spec(rolling(count, f"{unavailable}%", f"{surge}%")).executor_manager.update_strategy
    budget = Budget.of(strategy, count)

    assert budget.unavailable + budget.surge > 0
    assert 0 <= budget.unavailable <= count


@pytest.mark.parametrize(
    ("changes", "stale", "manager", "target"),
    [
        pytest.param(rolling(4, 0, 2), 4, session_manager(), 6, id="surge"),
        pytest.param(rolling(4, 0, 2), 1, session_manager(), 5, id="no more than are stale"),
        pytest.param(rolling(4, 0, 2), 0, session_manager(), 4, id="nothing is stale"),
        pytest.param(rolling(4, 1, 0), 4, session_manager(), 4, id="no surge"),
        pytest.param(rolling(4, 0, 2), 4, session_manager("starting"), 4, id="the session manager is not ready"),
        pytest.param(rolling(4, 0, 2), 4, session_manager(revision="old"), 4, id="the session manager is stale"),
        pytest.param(rolling(4, 0, 2), 4, terminating(session_manager()), 4, id="the session manager goes"),
        pytest.param(rolling(0, 0, 2), 4, session_manager(), 0, id="none wanted"),
        pytest.param(replicas(4, type="Recreate"), 4, session_manager(), 4, id="Recreate"),
        pytest.param(replicas(4, type="OnDelete"), 4, session_manager(), 4, id="OnDelete"),
    ],
)
def test_target_includes_the_surge_of_a_rolling_update(
    changes: dict[str, Any], stale: int, manager: PodView, target: int
) -> None:
    wanted = effective(changes)
    pods = [executor_pod(number, revision="old" if number < stale else None) for number in range(4)]

    assert cluster_plan(observed(manager, *pods, wanted=wanted), wanted).scale.target == target


@pytest.mark.parametrize(
    ("changes", "stale", "fresh", "created"),
    [
        pytest.param(rolling(2, 0, 1), 0, 2, 0, id="all are there"),
        pytest.param(rolling(2, 0, 1), 0, 1, 1, id="a new one has failed"),
        pytest.param(rolling(2, 0, 1), 1, 1, 0, id="another stale one takes the surge"),
        pytest.param(rolling(2, 0, 1), 1, 0, 1, id="another stale one takes the surge and a new one has failed"),
        pytest.param(rolling(2, 1, 0), 0, 1, 0, id="no surge"),
        pytest.param(replicas(2, type="OnDelete"), 0, 1, 0, id="OnDelete"),
    ],
)
def test_executor_that_fails_while_the_last_stale_ones_are_drained_is_replaced_within_the_surge(
    changes: dict[str, Any], stale: int, fresh: int, created: int
) -> None:
    marks = drain_annotations(DrainReason.STALE, NOW)
    drained = executor_pod(0, revision="old", annotations=marks)
    others = [executor_pod(1 + each, revision="old" if each < stale else None) for each in range(stale + fresh)]

    assert _plan(effective(changes), drained, *others).create == created


def test_surplus_executor_is_drained_beside_a_stale_one() -> None:
    drained = executor_pod(0, revision="old", annotations=drain_annotations(DrainReason.STALE, NOW))
    plan = _plan(effective(rolling(2, 0, 1)), drained, *(executor_pod(1 + each) for each in range(3)))

    assert len(plan.removes) == 1


# --- Recreate ----------------------------------------------------------------------------------------------------------

RECREATE = replicas(3, type="Recreate")


def test_recreate_waits_until_old_executors_are_gone() -> None:
    wanted = effective(RECREATE)
    leaving = [terminating(executor_pod(number, revision="old")) for number in range(2)]
    plan = _plan(wanted, *leaving)

    assert plan.create == 0
    [deferral] = plan.waits
    assert (deferral.reason, deferral.delay) == ("Recreate", GRACE + 60)
    assert "2 executors" in deferral.message


def test_recreate_does_not_wait_for_ever_for_a_lost_node() -> None:
    wanted = effective(RECREATE)
    found = observed(
        session_manager(), terminating(executor_pod(0, revision="old")), wanted=wanted, first_seen_ago=GRACE + 60
    )

    assert cluster_plan(found, wanted).scale.create == 3


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(terminating(executor_pod(0)), id="of the current revision"),
        pytest.param(executor_pod(0, "failed", revision="old", since=ago(1)), id="terminal and old"),
    ],
)
def test_recreate_waits_for_no_executor_that_cannot_run_beside_new_ones(pod: PodView) -> None:
    assert _plan(effective(RECREATE), pod).create == 3


def test_other_strategies_do_not_wait_for_old_executors() -> None:
    wanted = effective(rolling(3, 1, 0))
    seen = observed(terminating(executor_pod(0, revision="old")), wanted=wanted)

    assert wait_before_reserving(cluster_plan(seen, wanted).group) is None


@pytest.mark.parametrize(
    "manager",
    [session_manager(), session_manager("starting")],
    ids=["session manager ready", "session manager starting"],
)
def test_recreate_creates_no_executor_beside_an_old_one(manager: PodView) -> None:
    """An edit changes the image and scales up, or an old executor dies during the rollout."""
    wanted = effective(RECREATE)
    plan = cluster_plan(observed(manager, *_pods(1, revision="old"), wanted=wanted), wanted).scale

    assert plan.create == 0
