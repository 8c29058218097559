from __future__ import annotations

from typing import Any

import pytest

from flamectl_operator.kube.views import FlameClusterView, ObjectMeta
from flamectl_operator.monitoring.census import STATES, Entry, take


def _cluster(spec: dict[str, Any], status: dict[str, Any]) -> FlameClusterView:
    return FlameClusterView(metadata=ObjectMeta(name="a", namespace="team"), spec=spec, status=status)


def _condition(kind: str, status: str) -> dict[str, str]:
    return {"type": kind, "status": status}


def test_a_cluster_that_runs() -> None:
    conditions = [_condition("Ready", "True"), _condition("Degraded", "False"), _condition("Paused", "Unknown")]
    status = {"state": "Running", "executorManager": {"ready": 2}, "conditions": conditions}

    assert take(_cluster({"executorManager": {"replicas": 3}}, status)) == Entry(
        "team", "a", "Running", desired=3, ready=2, conditions=frozenset({"Ready"})
    )


def test_a_suspended_cluster_should_have_no_executors() -> None:
    assert take(_cluster({"suspend": True, "executorManager": {"replicas": 3}}, {})).desired == 0


def test_a_cluster_that_nobody_has_looked_at_yet() -> None:
    entry = take(_cluster({"executorManager": {"replicas": 3}}, {}))

    assert entry == Entry("team", "a", "Unknown", desired=3, ready=0, conditions=frozenset())
    assert entry.state in STATES


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
def test_what_makes_no_sense_was_not_said(nonsense: dict[str, Any]) -> None:
    entry = take(_cluster({"executorManager": None}, nonsense))

    assert (entry.state, entry.desired, entry.ready) == ("Unknown", 0, 0)
    assert "Ready" not in entry.conditions
