"""Pods that somebody keeps from ending: nobody waits for them, and they keep what they have."""

import msgspec
import pytest

from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.status.health import LATE_SECONDS, next_late_end
from tests.unit.builders import (
    NOW,
    ago,
    cached,
    effective,
    executor_pod,
    later,
    merged,
    object_cache_pod,
    observed,
    replicas,
    session_manager,
    status_of,
    terminating,
)

WANTED = effective(replicas(1))
KEPT = "my-flame-executor-manager-1"
#: Times as messages have them.
ENDED, HELD = "2025-06-01 11:58:00 UTC", "example.com/kept"


def _seen(*ages: float, finalizers: tuple[str, ...] = ()) -> ObservedCluster:
    """One executor that works, and others whose grace periods ended so many seconds ago."""
    others: list[PodView] = []
    for number, age in enumerate(ages, 1):
        pod = terminating(executor_pod(number), ago(age))
        others.append(
            msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, finalizers=finalizers))
        )
    return observed(session_manager(), executor_pod(0), *others, wanted=WANTED)


@pytest.mark.parametrize(
    ("finalizers", "why"),
    [
        ((HELD,), f"(held by finalizer {HELD})"),
        ((), f"(see kubectl describe node node-1, and kubectl describe pod {KEPT})"),
    ],
    ids=["finalizer", "node"],
)
def test_executor_that_should_have_ended_is_told_though_the_cluster_is_healthy(
    finalizers: tuple[str, ...], why: str
) -> None:
    status = status_of(_seen(120, finalizers=finalizers), WANTED)

    assert status.message == f"All components healthy; {KEPT} should have ended by {ENDED} {why}"
    assert (status.state, status.reason) == ("Running", "Healthy")


def test_several_are_told_by_the_first() -> None:
    assert f"{KEPT} and 1 more should have ended by {ENDED}" in str(status_of(_seen(120, 90), WANTED).message)


def test_executor_that_ends_in_time_is_not_told() -> None:
    seen = _seen(LATE_SECONDS - 20, -30)

    assert status_of(seen, WANTED).message == "All components healthy"
    assert next_late_end(seen, WANTED, NOW) == later(20)


def test_time_that_is_over_causes_no_pass() -> None:
    assert next_late_end(_seen(120), WANTED, NOW) is None


def _caches(*, paused: bool = False) -> tuple[EffectiveSpec, ObservedCluster]:
    """A cluster that wants one object cache, both of whose Pods should have ended."""
    wanted = effective(merged(cached(1), {"executorManager": {"replicas": 1}, "paused": paused}))
    caches = [terminating(object_cache_pod(ordinal), ago(120 - ordinal)) for ordinal in range(2)]
    return wanted, observed(session_manager(), executor_pod(0), *caches, wanted=wanted)


def test_object_cache_that_is_not_wanted_and_should_have_ended_is_told() -> None:
    wanted, seen = _caches()

    assert "; my-flame-object-cache-1 should have ended by 2025-06-01 11:58:01 UTC (see kubectl describe node" in str(
        status_of(seen, wanted).message
    )


def test_each_pod_that_should_have_ended_is_told_while_the_cluster_is_paused() -> None:
    wanted, seen = _caches(paused=True)

    assert "; my-flame-object-cache-0 and 1 more should have ended by 2025-06-01 11:58:00 UTC" in str(
        status_of(seen, wanted).message
    )
