"""A snapshot says what a person would see in the objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.demo.objects import NEW, NOTHING, OLD, cluster, event, executor, manager, named, seen

if TYPE_CHECKING:
    from tools.demo.model import Object


def test_before_there_is_anything_nothing_is_seen() -> None:
    assert NOTHING.cluster is None
    assert (NOTHING.pods, NOTHING.events, NOTHING.others) == ((), (), ())


def test_a_cluster_without_a_status_is_new_and_neither_settled_nor_healthy() -> None:
    bare = cluster()
    del bare["status"]
    found = seen(cluster=bare).cluster
    assert found is not None
    assert (found.state, found.message, found.settled, found.healthy) == ("", "", False, False)
    assert (found.wanted, found.ready) == (3, 0)


def test_a_status_of_an_earlier_generation_is_not_settled() -> None:
    found = seen(cluster=cluster(observedGeneration=1)).cluster
    assert found is not None
    assert not found.settled


def test_the_session_manager_comes_first_and_executors_are_in_the_order_of_their_ids() -> None:
    now = seen(executor(10), executor(9), manager(), executor(0))
    assert [pod.name.removeprefix("my-flame-") for pod in now.pods] == [
        "session-manager",
        "executor-manager-0",
        "executor-manager-9",
        "executor-manager-10",
    ]
    assert now.session_manager == now.pods[0]
    assert now.executors == now.pods[1:]


def test_a_pod_on_its_way_out_is_not_ready_whatever_its_conditions_say() -> None:
    (pod,) = seen(executor(0, terminating=True)).pods
    assert (pod.phase, pod.ready, pod.terminating) == ("Terminating", False, True)


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
def test_the_phase_is_what_speaks_loudest(status: Object, phase: str) -> None:
    (pod,) = seen(executor(0, **status)).pods
    assert pod.phase == phase


def test_a_pod_is_stale_when_its_component_has_a_newer_revision() -> None:
    now = seen(manager(), executor(0, revision=OLD), executor(1, revision=NEW), cluster=cluster(revision=NEW))
    assert [pod.stale for pod in now.pods] == [False, True, False]


def test_ages_are_counted_from_now_and_are_never_negative() -> None:
    newborn = executor(0)
    newborn["metadata"]["creationTimestamp"] = "2030-01-01T12:00:01Z"
    assert [pod.age for pod in seen(newborn, executor(1)).pods] == [0.0, 125.0]


def test_events_come_in_the_order_they_were_written_and_only_those_about_the_cluster() -> None:
    now = seen(events=(event("third", 100), event("first", 9), event("of a Pod", 10, kind="Pod"), event("second", 20)))
    assert [each.message for each in now.events] == ["first", "second", "third"]


def test_an_event_that_is_counted_up_is_another_occurrence() -> None:
    (once,) = seen(events=(event("again", 1),)).events
    (twice,) = seen(events=(event("again", 2, count=2),)).events
    assert once.occurrence != twice.occurrence


def test_what_kubernetes_puts_into_every_namespace_does_not_count() -> None:
    assert seen(others=(("ConfigMap", named("kube-root-ca.crt")), ("ConfigMap", named("x")))).others == ("ConfigMap/x",)
