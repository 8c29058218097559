"""The part of a status that is stored before a pass acts on it."""

from typing import Any

import pytest

from flamectl_operator.api.component_status import ExecutorManagerStatus, ObjectCacheStatus, SessionManagerStatus
from flamectl_operator.api.status import Condition, FlameClusterStatus
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.effective.replacement_backoff import ReplacementBackoff
from flamectl_operator.status.compute import StatusInput, compute_status
from flamectl_operator.status.durable_fields import durable_fields, required_durable_fields
from tests.unit.builders import (
    NOW,
    cached,
    cluster_plan,
    effective,
    executor_pod,
    later,
    observed,
    session_manager,
    terminating,
)

WELL = (session_manager(), executor_pod(0), executor_pod(1))


def _suspending() -> tuple[Condition, ...]:
    return (Condition(type="Suspended", status="False", reason="Suspending", message="", last_transition_time=NOW),)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"observed_generation": 5}, id="a new generation"),
        pytest.param({"conditions": _suspending()}, id="a suspension"),
        pytest.param({"executor_manager": ExecutorManagerStatus(next_id=5)}, id="ids"),
        pytest.param({"executor_manager": ExecutorManagerStatus(failures=1)}, id="a failure of executors"),
        pytest.param({"executor_manager": ExecutorManagerStatus(attempt_id=1)}, id="which executors were counted"),
        pytest.param({"executor_manager": ExecutorManagerStatus(next_attempt=NOW)}, id="when executors are tried again"),
        pytest.param({"session_manager": SessionManagerStatus(failures=1)}, id="a failure of the session manager"),
        pytest.param({"session_manager": SessionManagerStatus(last_failure="u")}, id="which session manager was counted"),
        pytest.param({"object_cache": ObjectCacheStatus(failures=1)}, id="a failure of object caches"),
        pytest.param({"object_cache": ObjectCacheStatus(next_attempt=NOW)}, id="when object caches are tried again"),
        pytest.param({"object_cache": ObjectCacheStatus(counted_pods=("u",))}, id="which object caches were counted"),
    ],
)  # fmt: skip
def test_durable_field_is_recorded_before_the_pass_acts(changes: dict[str, Any]) -> None:
    assert durable_fields(FlameClusterStatus(**changes)) != durable_fields(FlameClusterStatus())


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"message": "x", "state": "Running"}, id="words"),
        pytest.param({"executor_manager": ExecutorManagerStatus(ready=3, current=4)}, id="counts"),
        pytest.param({"object_cache": ObjectCacheStatus(ready=3, current=4)}, id="counts of object caches"),
        pytest.param({"config_generation": 3, "config_hash": "x"}, id="what the ConfigMap remembers as well"),
    ],
)
def test_other_fields_wait_for_the_end_of_the_pass(changes: dict[str, Any]) -> None:
    assert durable_fields(FlameClusterStatus(**changes)) == durable_fields(FlameClusterStatus())


@pytest.mark.parametrize("pods", [(), WELL, (terminating(executor_pod(0)),)], ids=["none", "well", "going"])
@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(effective(), id="nothing special"),
        pytest.param(effective(suspended=True), id="suspended"),
        pytest.param(effective(executor_backoff=ReplacementBackoff("r", 3, later(20), attempt_id=7)), id="executors failed"),
        pytest.param(effective(session_manager_backoff=ReplacementBackoff("r", 3, later(20), "uid")),
            id="session manager failed"),
        pytest.param(effective(cached()), id="object caches"),
        pytest.param(effective(cached(), object_cache_backoff=ReplacementBackoff("r", 3, later(20), counted_pods=("u", "v"))),
            id="object caches failed"),
    ],
)  # fmt: skip
def test_durable_fields_are_computed_without_the_rest_of_the_status(
    wanted: EffectiveSpec, pods: tuple[PodView, ...]
) -> None:
    seen = observed(*pods, wanted=wanted)
    given = StatusInput(FlameClusterStatus(), 4, seen, cluster_plan(seen, wanted), next_id=9, outcomes=())
    needed = required_durable_fields(given.generation, given.observed, wanted, given.next_id)

    assert needed == durable_fields(compute_status(given, NOW))
