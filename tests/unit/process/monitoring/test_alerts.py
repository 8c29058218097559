"""Alerts that tell of an operator that is absent or does nothing, evaluated over the series that Prometheus has then."""

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.samples import Sample

from tests.promql import firing
from tests.unit.process.monitoring.everything import everything
from tests.unit.support import document

CONFIG = Path(__file__).resolve().parents[4] / "config"
HERE = "flamectl-system"


def _rules() -> dict[str, dict[str, Any]]:
    groups = document((CONFIG / "monitoring" / "rules.yaml").read_text(encoding="utf-8"))["spec"]["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


RULES = _rules()


def _up(value: float, namespace: str = HERE, pod: str = "first") -> Sample:
    return Sample("up", {"job": "flamectl-operator", "namespace": namespace, "pod": pod}, value)


def _scraped(*left_out: str, pod: str = "first") -> list[Sample]:
    """The series of an operator to which everything has happened, with the labels of its target."""
    target = {"job": "flamectl-operator", "namespace": HERE, "pod": pod}
    found = [sample for metric in everything() for sample in metric.samples if sample.name not in left_out]
    return [_up(1, pod=pod), *(each._replace(labels={**target, **each.labels}) for each in found)]


def _cluster(generation: int, observed: int, name: str = "my-flame", deleted: float = 0) -> list[Sample]:
    labels = {"namespace": "team-a", "cluster": name}
    numbers = {
        "metadata_generation": generation,
        "status_observed_generation": observed,
        "metadata_deletion_timestamp": deleted,
    }
    return [Sample(f"kube_flamecluster_{metric}", labels, value) for metric, value in numbers.items()]


@pytest.mark.parametrize(
    "series",
    [[], [_up(0), _up(0, pod="second")], [_up(1, namespace="team-a")], [_up(1)._replace(labels={"job": "another"})]],
    ids=["nothing is scraped", "no replica answers", "another operator answers", "something else answers"],
)
def test_operator_that_is_down_raises_one_alert_for_its_namespace(series: list[Sample]) -> None:
    rule = RULES["FlamectlOperatorDown"]
    assert len(firing(rule, series)) == 1
    assert rule["labels"]["namespace"] == HERE


def test_one_replica_that_answers_is_no_outage() -> None:
    assert firing(RULES["FlamectlOperatorDown"], [_up(0), _up(1, pod="second")]) == []


LEADS, WORKS = "leader_election_master_status", "controller_runtime_max_concurrent_reconciles"


@pytest.mark.parametrize(
    ("left_out", "raised"),
    [((), 0), ((WORKS,), 0), ((LEADS,), 0), ((LEADS, WORKS), 1)],
    ids=["it leads", "it leads and does not work yet", "it works without an election", "it waits for its election"],
)
def test_replica_that_answers_and_does_nothing_raises_an_alert(left_out: tuple[str, ...], raised: int) -> None:
    assert firing(RULES["FlamectlNoLeader"], _scraped(*left_out)) == [{"namespace": HERE}] * raised


def test_two_replicas_that_stand_by_have_no_leader_and_two_that_lead_are_too_many() -> None:
    def replicas(leads: float) -> list[Sample]:
        both = [*_scraped(WORKS), *_scraped(WORKS, pod="second")]
        return [each._replace(value=leads) if each.name == LEADS else each for each in both]

    assert firing(RULES["FlamectlNoLeader"], replicas(0)) == [{"namespace": HERE}]
    assert firing(RULES["FlamectlTwoLeaders"], replicas(0)) == []
    assert firing(RULES["FlamectlNoLeader"], replicas(1)) == []
    assert firing(RULES["FlamectlTwoLeaders"], replicas(1)) == [{"namespace": HERE, "name": "flamectl-operator"}]


@pytest.mark.parametrize(
    ("series", "raised"),
    [
        (_cluster(1, 0), ["my-flame"]),
        (_cluster(2, 1), ["my-flame"]),
        (_cluster(2, 2), []),
        (_cluster(2, 1, deleted=1.7e9), []),
        ([*_cluster(2, 2), *_cluster(3, 2, "other")], ["other"]),
        ([], []),
    ],
    ids=["new", "changed", "seen", "deleted", "another one is seen", "without kube-state-metrics"],
)
def test_flame_cluster_that_no_operator_has_seen_raises_an_alert(series: list[Sample], raised: list[str]) -> None:
    found = firing(RULES["FlameClusterNotObserved"], series)
    assert found == [{"namespace": "team-a", "cluster": name} for name in raised]


def test_flame_cluster_that_is_not_ready_raises_an_alert_unless_it_is_suspended_or_paused() -> None:
    series = [each._replace(value=0) if each.labels.get("condition") == "Ready" else each for each in _scraped()]
    conditions = [each for each in series if each.name == "flamectl_cluster_condition"]
    excused = {each.labels["cluster"] for each in conditions if each.labels["condition"] in {"Suspended", "Paused"}}
    assert excused
    raised = {each["cluster"] for each in firing(RULES["FlameClusterNotReady"], series)}
    assert raised == {each.labels["cluster"] for each in conditions} - excused
