from typing import Any

import pytest

from flamectl_operator.kube.views import ObjectMeta
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.process.monitoring.cluster_samples import Entry, Numbers, sample
from tests.unit.builders import flame_cluster


def _cluster(spec: dict[str, Any], status: dict[str, Any]) -> FlameClusterView:
    return flame_cluster(metadata=ObjectMeta(name="a", namespace="team"), spec=spec, status=status)


def _condition(kind: str, status: str) -> dict[str, str]:
    return {"type": kind, "status": status}


def test_sample_of_a_running_cluster() -> None:
    conditions = [_condition("Ready", "True"), _condition("Degraded", "False"), _condition("Paused", "Unknown")]
    status = {"state": "Running", "executorManager": {"ready": 2}, "conditions": conditions}

    assert sample(_cluster({"executorManager": {"replicas": 3}}, status)) == Entry(
        "team", "a", "Running", Numbers(executors_desired=3, executors_ready=2), frozenset({"Ready"})
    )


def test_number_that_follows_the_demand_is_the_one_of_the_status() -> None:
    spec = {"executorManager": {"replicas": 1, "autoscaling": {"maxReplicas": 9}}}
    status = {"executorManager": {"autoscaling": {"desired": 6}}}

    assert sample(_cluster(spec, status)).numbers.executors_desired == 6
    assert sample(_cluster(spec, {})).numbers.executors_desired == 0


@pytest.mark.parametrize(("generation", "desired"), [(7, 0), (6, 3)])
def test_cluster_that_suspended_itself_for_its_generation_should_have_no_executors(
    generation: int, desired: int
) -> None:
    cluster = flame_cluster(
        metadata=ObjectMeta(name="a", namespace="team", generation=7),
        spec={"executorManager": {"replicas": 3}, "idle": {"timeoutSeconds": 60}},
        status={"idle": {"suspendedGeneration": generation}},
    )
    assert sample(cluster).numbers.executors_desired == desired


def test_object_caches_count_only_where_the_operator_runs_them() -> None:
    status = {"objectCache": {"ready": 1}}
    with_image = {"objectCache": {"image": "x", "replicas": 3}}
    without = sample(_cluster({"objectCache": {"replicas": 3}}, status)).numbers
    suspended = sample(_cluster({**with_image, "suspend": True}, status)).numbers
    found = sample(_cluster(with_image, status)).numbers

    assert (found.object_caches_desired, found.object_caches_ready) == (3, 1)
    assert (without.object_caches_desired, suspended.object_caches_desired) == (None, 0)


@pytest.mark.parametrize(
    "nonsense",
    [
        {"state": "Splendid"},
        {"state": ["Running"]},
        {"executorManager": "many"},
        {"executorManager": {"ready": "many"}},
        {"conditions": "good"},
        {"conditions": ["good", {"type": ["Ready"], "status": "True"}, {}]},
    ],
)
def test_invalid_status_values_count_as_missing(nonsense: dict[str, Any]) -> None:
    entry = sample(_cluster({"executorManager": None}, nonsense))

    assert (entry.state, *entry.numbers[:2]) == ("Unknown", 0, 0)
    assert "Ready" not in entry.conditions


def test_session_manager_that_nobody_asks_is_neither_reachable_nor_unreachable() -> None:
    def reachable(reason: str) -> bool | None:
        said = _condition("SessionManagerReachable", "False") | {"reason": reason}
        return sample(_cluster({}, {"conditions": [said]})).numbers.session_manager_reachable

    found = {each: reachable(each) for each in ("TimedOut", "NoAddress", "TLSNotSupported", "AuthorityUnknown")}
    assert found == {"TimedOut": False, "NoAddress": False, "TLSNotSupported": None, "AuthorityUnknown": None}
