"""A snapshot holds the facts that the demo shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.demo.objects import cluster, event, executor, manager, seen

if TYPE_CHECKING:
    from tools.demo.model import Object


def test_cluster_without_a_status_is_neither_settled_nor_healthy() -> None:
    bare = cluster()
    del bare["status"]
    found = seen(cluster=bare).cluster
    assert found is not None
    assert (found.state, found.message, found.settled, found.healthy) == ("", "", False, False)
    assert (found.wanted, found.ready) == (3, 0)


def test_pods_are_sorted_by_component_and_id() -> None:
    now = seen(executor(10), executor(9), manager(), executor(0))
    assert [pod.name.removeprefix("my-flame-") for pod in now.pods] == [
        "session-manager",
        "executor-manager-0",
        "executor-manager-9",
        "executor-manager-10",
    ]
    assert now.session_manager == now.pods[0]
    assert now.executors == now.pods[1:]


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ({}, "Running"),
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (
            {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
            "ImagePullBackOff",
        ),
        ({"containerStatuses": [{"state": {"running": {}}}]}, "Running"),
    ],
)
def test_phase_is_the_most_specific_reason(status: Object, phase: str) -> None:
    (pod,) = seen(executor(0, **status)).pods
    assert pod.phase == phase


def test_events_about_the_cluster_are_in_the_order_of_writing() -> None:
    now = seen(events=(event("third", 100), event("first", 9), event("of a Pod", 10, kind="Pod"), event("second", 20)))
    assert [each.message for each in now.events] == ["first", "second", "third"]
