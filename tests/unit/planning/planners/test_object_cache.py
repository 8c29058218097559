"""The changes of object caches, as a part of the plan."""

from dataclasses import replace
from datetime import datetime

import pytest

from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.planning.cluster_plan import ClusterPlan
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff
from flamectl_operator.runtime.outcome import Outcome
from tests.unit.builders import (
    SETTINGS,
    ago,
    cached,
    cluster_plan,
    effective,
    later,
    object_cache_pod,
    observed,
    session_manager,
    terminating,
)

WANTED = effective(cached(2))
FORCED = SETTINGS.force_delete_after_seconds + SETTINGS.termination_grace_period_seconds


_TEMPLATE = WANTED.desired.object_cache
assert _TEMPLATE is not None
BACKING_OFF = ReplacementBackoff(_TEMPLATE.revision, failures=3, next_attempt=later(20), counted_pods=("failed",))


def _plan(
    *pods: PodView,
    count: int = 2,
    accepted: bool = True,
    first_seen_ago: float = 0.0,
    backoff: ReplacementBackoff | None = None,
) -> ClusterPlan:
    wanted = effective(cached(count), object_cache_backoff=backoff)
    template = wanted.desired.object_cache
    seen = observed(session_manager(), *pods, wanted=wanted, first_seen_ago=first_seen_ago)
    known = frozenset({template.rendered}) if accepted and template is not None else frozenset[str]()
    return cluster_plan(seen, wanted, accepted=known)


def test_missing_object_caches_are_created_by_ordinal() -> None:
    plan = _plan(object_cache_pod(1)).object_caches

    assert (plan.create, plan.locked) == ((0,), False)
    assert list(plan.lines()) == ["create object cache Pod 0"]


def test_surplus_object_caches_are_deleted_from_the_highest_ordinal_down() -> None:
    plan = _plan(object_cache_pod(0), object_cache_pod(1), object_cache_pod(2), count=1).object_caches

    assert [each.cache.ordinal for each in plan.delete] == [2, 1]
    assert {each.why for each in plan.delete} == {"only 1 wanted"}


@pytest.mark.parametrize(("seconds", "forced"), [(FORCED - 1, False), (FORCED, True)], ids=["early", "after its time"])
def test_object_cache_that_stays_terminating_is_deleted_by_force_after_its_time(
    seconds: float, *, forced: bool
) -> None:
    leaving = terminating(object_cache_pod(0), ago(seconds))

    plan = _plan(leaving, object_cache_pod(1), first_seen_ago=seconds).object_caches

    assert [each.forced for each in plan.delete] == [True] * forced
    assert bool(plan.waits) is not forced


def test_stale_object_caches_are_replaced_one_at_a_time_while_all_are_ready() -> None:
    stale = [object_cache_pod(ordinal, revision="old") for ordinal in range(2)]

    assert [each.ordinal for each in _plan(*stale).rollout.object_caches] == [1]
    unready = [stale[0], object_cache_pod(1, "starting")]
    assert _plan(*unready).rollout.object_caches == ()


def test_stale_object_caches_that_are_not_ready_are_replaced_at_once() -> None:
    broken = [object_cache_pod(ordinal, "crashing", revision="old") for ordinal in range(2)]

    assert [each.ordinal for each in _plan(*broken).rollout.object_caches] == [0, 1]


def test_stale_object_caches_stay_while_the_api_server_has_not_accepted_a_replacement() -> None:
    plan = _plan(object_cache_pod(0, revision="old"), object_cache_pod(1), accepted=False)

    assert plan.rollout.object_caches == ()
    assert plan.replacements.object_cache is not None


@pytest.mark.parametrize(
    ("cache", "wait"),
    [
        pytest.param(object_cache_pod(0, revision="old"), True, id="stale"),
        pytest.param(object_cache_pod(0, "starting"), True, id="starting"),
        pytest.param(object_cache_pod(0, "unschedulable", node=""), False, id="without a node"),
        pytest.param(object_cache_pod(0), False, id="ready"),
    ],
)
def test_executors_wait_for_object_caches_that_are_replaced(cache: PodView, *, wait: bool) -> None:
    assert _plan(cache, object_cache_pod(1)).object_caches_first == wait


# --- Backoff -----------------------------------------------------------------------------------------------------------


def _said(waits: tuple[Outcome, ...]) -> list[tuple[str, str]]:
    return [(each.reason, each.message) for each in waits]


WAITS = ("BackOff", "object caches failed 3 times in a row; next attempt at 12:00:20 UTC")


def test_object_cache_that_failed_or_is_missing_is_not_replaced_before_the_next_attempt() -> None:
    failed = object_cache_pod(0, "failed", uid="failed", created=ago(60))
    plan = _plan(failed, backoff=BACKING_OFF).object_caches

    assert (plan.create, plan.delete, _said(plan.waits)) == ((), (), [WAITS])


def test_counted_object_cache_is_replaced_after_its_wait() -> None:
    failed = object_cache_pod(0, "failed", uid="failed", created=ago(60))
    over = replace(BACKING_OFF, next_attempt=None)

    assert [each.cache.ordinal for each in _plan(failed, backoff=over).object_caches.delete] == [0]
    assert _plan(object_cache_pod(1), backoff=over).object_caches.create == (0,)


def test_failure_since_the_pass_began_is_counted_before_object_caches_are_replaced() -> None:
    plan = _plan(object_cache_pod(0, "failed", uid="new", created=ago(60))).object_caches

    assert (plan.create, plan.delete, {each.reason for each in plan.waits}) == ((), (), {"Changed"})


def test_surplus_object_cache_is_deleted_without_a_wait() -> None:
    failed = object_cache_pod(1, "failed", uid="failed", created=ago(60))

    assert len(_plan(object_cache_pod(0), failed, count=1, backoff=BACKING_OFF).object_caches.delete) == 1


@pytest.mark.parametrize(
    ("backoff", "time"),
    [
        pytest.param(BACKING_OFF, later(20), id="the next attempt"),
        pytest.param(replace(BACKING_OFF, next_attempt=None), later(500), id="the reset"),
        pytest.param(None, None, id="no failures"),
    ],
)
def test_next_pass_without_an_event_is_at_the_end_of_the_wait_or_at_the_reset(
    backoff: ReplacementBackoff | None, time: datetime | None
) -> None:
    caches = (object_cache_pod(0, "starting"), object_cache_pod(1, since=ago(100)))

    assert _plan(*caches, backoff=backoff).next_without_event == time
