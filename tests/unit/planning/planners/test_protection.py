"""The executors that carry annotations against autoscalers of nodes, as a part of the plan."""

from datetime import datetime
from typing import Any

import pytest

from flamectl_operator.desired.executor_annotations import AnnotationChanges
from flamectl_operator.flame.answer import ExecutorState, FlameExecutor, NodeState, SessionManagerAnswer
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.planning.sub_plans import ProtectionPlan
from tests.unit.builders import (
    NOW,
    ago,
    answer,
    cluster_plan,
    effective,
    executor_pod,
    later,
    merged,
    observed,
    replicas,
    session_manager,
    terminating,
    told,
)
from tests.unit.subreconcilers.harness import executor_name

EVICT, DISRUPT, MARK = (
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "karpenter.sh/do-not-disrupt",
    "flame.xflops.io/protection",
)
ON: dict[str, Any] = {"executorManager": {"drain": {"protectBusy": True}}}
OFF: dict[str, Any] = {"executorManager": {"drain": {"protectBusy": False}}}
SET = {EVICT: "false", DISRUPT: "true"}


def _mark(changed: datetime, *keys: str) -> dict[str, str]:
    return {MARK: f"{changed.isoformat()} {','.join(keys)}".rstrip()}


def _protected(changed: datetime) -> dict[str, str]:
    return {**SET, **_mark(changed, EVICT, DISRUPT)}


def _plan(
    *pods: PodView,
    busy: tuple[int, ...] = (),
    spec: dict[str, Any] = ON,
    failing: bool = False,
    suspended: bool = False,
) -> ProtectionPlan:
    content = SessionManagerAnswer(
        {executor_name(each): NodeState.READY for each in range(3)},
        tuple(FlameExecutor(executor_name(each), ExecutorState.BOUND, "s") for each in busy),
    )
    known = answer(content, failing=failing)
    wanted = effective(merged(replicas(1), spec), suspended=suspended)
    found = observed(session_manager(), *pods, wanted=wanted)
    seen = told(found, known)
    return cluster_plan(seen, wanted).protection


def _patches(plan: ProtectionPlan) -> dict[str, AnnotationChanges]:
    return {executor.name: changes for executor, changes in plan.patch}


def test_executor_whose_work_has_begun_is_protected_and_the_idle_one_is_not() -> None:
    plan = _plan(executor_pod(0), executor_pod(1), busy=(1,))

    assert _patches(plan) == {executor_name(1): {**SET, MARK: f"{NOW.isoformat()} {EVICT},{DISRUPT}"}}
    assert list(plan.lines()) == [f"protect {executor_name(1)} from autoscalers of nodes"]


def test_protection_ends_with_the_work() -> None:
    plan = _plan(executor_pod(0, annotations=_protected(ago(60))))

    assert _patches(plan) == {executor_name(0): {EVICT: None, DISRUPT: None, MARK: NOW.isoformat()}}
    assert list(plan.lines()) == [f"no longer protect {executor_name(0)} from autoscalers of nodes"]


def test_protection_ends_when_the_field_is_turned_off_although_the_work_goes_on() -> None:
    plan = _plan(executor_pod(0, annotations=_protected(ago(90))), busy=(0,), spec=OFF, failing=True)

    assert _patches(plan) == {executor_name(0): {EVICT: None, DISRUPT: None, MARK: NOW.isoformat()}}


@pytest.mark.parametrize(
    ("annotations", "busy"),
    [
        pytest.param(_protected(ago(300)), (0,), id="protected and busy"),
        pytest.param(_mark(ago(300)), (), id="idle, protected before"),
        pytest.param({}, (), id="idle, never protected"),
    ],
)
def test_nothing_is_patched_while_nothing_changes(annotations: dict[str, str], busy: tuple[int, ...]) -> None:
    assert _plan(executor_pod(0, annotations=annotations), busy=busy) == ProtectionPlan()


@pytest.mark.parametrize(
    ("annotations", "busy"),
    [
        pytest.param(_protected(ago(59)), (), id="work has ended"),
        pytest.param(_mark(ago(59)), (0,), id="work has begun"),
    ],
)
def test_pod_that_was_patched_within_a_minute_waits_for_the_rest_of_it(
    annotations: dict[str, str], busy: tuple[int, ...]
) -> None:
    plan = _plan(executor_pod(0, annotations=annotations), busy=busy)

    assert (plan.patch, plan.again) == ((), 1.0)


def test_turning_the_field_off_waits_for_the_minute_as_well() -> None:
    plan = _plan(executor_pod(0, annotations=_protected(ago(10))), busy=(0,), spec=OFF)

    assert (plan.patch, plan.again) == ((), 50.0)


@pytest.mark.parametrize("mark", ["", "yesterday", "2025-06-01T12:00:00", later(3600).isoformat()])
def test_mark_that_tells_no_credible_time_does_not_keep_an_executor_unprotected(mark: str) -> None:
    assert _patches(_plan(executor_pod(0, annotations={MARK: mark}), busy=(0,))).keys() == {executor_name(0)}


def test_answer_that_is_not_the_last_one_changes_nothing() -> None:
    idle_now = executor_pod(0, annotations=_protected(ago(300)))

    assert _plan(idle_now, executor_pod(1), busy=(1,), failing=True) == ProtectionPlan()


def _template(value: str) -> dict[str, Any]:
    return {"executorManager": {"podTemplate": {"metadata": {"annotations": {EVICT: value}}}}}


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        pytest.param(_template("false"), "false", id="template"),
        pytest.param(_template("true"), "false", id="template, changed by hand"),
        pytest.param({"commonAnnotations": {EVICT: "true"}}, "true", id="common"),
        pytest.param({"commonAnnotations": {EVICT: "true"}}, "false", id="common, changed by hand"),
    ],
)
def test_annotation_of_the_author_is_neither_set_nor_taken_off(spec: dict[str, Any], value: str) -> None:
    wanted = merged(ON, spec)
    mark = _mark(ago(90), DISRUPT)
    begins = _plan(executor_pod(0, annotations={EVICT: value}), busy=(0,), spec=wanted)
    ends = _plan(executor_pod(0, annotations={**SET, **mark, EVICT: value}), spec=wanted)

    assert _patches(begins)[executor_name(0)] == {DISRUPT: "true", MARK: f"{NOW.isoformat()} {DISRUPT}"}
    assert _patches(ends)[executor_name(0)] == {DISRUPT: None, MARK: NOW.isoformat()}


def test_executor_that_its_template_lets_be_evicted_is_protected_while_it_works() -> None:
    wanted = merged(ON, _template("true"))
    begins = _plan(executor_pod(0, annotations={EVICT: "true"}), busy=(0,), spec=wanted)
    ends = _plan(executor_pod(0, annotations=_protected(ago(90))), spec=wanted)
    forbidden_since = _plan(executor_pod(0, annotations=_protected(ago(90))), spec=merged(ON, _template("false")))

    assert _patches(begins) == {executor_name(0): {**SET, MARK: f"{NOW.isoformat()} {EVICT},{DISRUPT}"}}
    assert _patches(ends) == {executor_name(0): {EVICT: "true", DISRUPT: None, MARK: NOW.isoformat()}}
    assert _patches(forbidden_since) == {executor_name(0): {EVICT: "false", DISRUPT: None, MARK: NOW.isoformat()}}


def test_common_annotation_that_came_after_the_protection_is_left_alone() -> None:
    pod = executor_pod(0, annotations=_protected(ago(90)))
    plan = _plan(pod, spec=merged(ON, {"commonAnnotations": {EVICT: "false"}}))

    assert _patches(plan) == {executor_name(0): {DISRUPT: None, MARK: NOW.isoformat()}}


def test_annotation_that_somebody_set_by_hand_is_neither_changed_nor_taken_off() -> None:
    begins = _plan(executor_pod(0, annotations={EVICT: "true", DISRUPT: "true"}), busy=(0,))
    by_hand = {**SET, **_mark(ago(90), DISRUPT)}
    changed_since = {**_protected(ago(90)), EVICT: "true"}

    assert begins == ProtectionPlan()
    assert _patches(_plan(executor_pod(0, annotations=by_hand)))[executor_name(0)].keys() == {DISRUPT, MARK}
    assert _patches(_plan(executor_pod(0, annotations=changed_since)))[executor_name(0)].keys() == {DISRUPT, MARK}


def test_mark_that_names_other_annotations_takes_none_of_them_off() -> None:
    pod = executor_pod(0, annotations={"example.com/x": "y", **_mark(ago(90), "example.com/x")})

    assert _patches(_plan(pod)) == {executor_name(0): {MARK: NOW.isoformat()}}


def test_executor_that_terminates_or_has_ended_is_left_alone() -> None:
    assert _plan(terminating(executor_pod(0)), executor_pod(1, phase="Failed"), busy=(0, 1)) == ProtectionPlan()


def test_executor_that_is_drained_is_protected_as_long_as_it_works() -> None:
    pod = executor_pod(0, annotations={"flame.xflops.io/draining": "Surplus"})

    assert _patches(_plan(pod, busy=(0,))).keys() == {executor_name(0)}


def test_executors_of_a_suspended_cluster_are_left_alone() -> None:
    pod = executor_pod(0, annotations=_protected(ago(90)))

    assert _plan(pod, suspended=True) == ProtectionPlan()
