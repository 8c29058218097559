"""The changed fields of a spec in the event about replaced Pods."""

from dataclasses import replace
from typing import Any

import pytest

from flamectl_operator.observed.component import Component
from flamectl_operator.planning.spec_changes import SpecChanges, because, why_replaced
from tests.unit.builders import cached, desired, executor_pod, merged, spec, stored

IMAGE = {"executorManager": {"image": "example.com/new:1"}}


@pytest.mark.parametrize(
    ("change", "session_manager", "executors"),
    [
        (IMAGE, (), ("spec.executorManager.image",)),
        ({"sessionManager": {"image": "example.com/new:1"}}, ("spec.sessionManager.image",), ()),
        ({"flameVersion": "0.5"}, ("spec.flameVersion",), ("spec.flameVersion",)),
        ({"executorManager": {"replicas": 7}, "paused": True}, (), ()),
        ({"executorManager": {"env": [{"name": "A", "value": "1"}]}}, (), ("spec.executorManager.env",)),
        (
            {"executorManager": {"podTemplate": {"metadata": {"annotations": {"a": "1"}}}}},
            (),
            ("spec.executorManager.podTemplate",),
        ),
        ({"scheduleInterval": 700}, ("spec.scheduleInterval",), ()),
        ({"objectCache": {"eviction": {"maxMemory": "2G"}}}, (), ("spec.objectCache.eviction.maxMemory",)),
    ],
)
def test_each_component_has_the_fields_that_it_reads(
    change: dict[str, Any], session_manager: tuple[str, ...], executors: tuple[str, ...]
) -> None:
    changes = SpecChanges().after(spec(), spec(change))

    assert (changes.session_manager, changes.executors) == (session_manager, executors)


@pytest.mark.parametrize(
    "change",
    [
        {"clientConfig": {"package": {"excludes": ["*.log"]}}},
        {"networkPolicy": {"clients": [{"podSelector": {}}]}},
        {"objectCache": {"replicas": 3}},
        {"objectCache": {"persistence": {"size": "20Gi", "deletionPolicy": "Retain"}}},
        {"sessionManager": {"persistence": {"size": "20Gi", "accessModes": ["ReadWriteOncePod"]}}},
    ],
    ids=str,
)
def test_change_that_is_in_no_pod_is_not_named(change: dict[str, Any]) -> None:
    persistent = stored(size="10Gi") | cached(persistence={"size": "10Gi"})
    before, after = desired(persistent), desired(merged(persistent, change))

    changes = SpecChanges().after(before.spec, after.spec)
    assert (changes.session_manager, changes.executors) == ((), ())
    assert after.session_manager.revision == before.session_manager.revision
    assert after.group.template.revision == before.group.template.revision


def test_a_change_that_replaces_nothing_leaves_the_earlier_ones() -> None:
    changes = SpecChanges().after(spec(), spec(IMAGE)).after(spec(IMAGE), spec(merged(IMAGE, {"paused": True})))

    assert changes.executors == ("spec.executorManager.image",)


PRESENT, EARLIER = "0123456789abcdef", "fedcba9876543210"


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ((), "no longer as specified"),
        (("spec.a",), "no longer as specified (spec.a changed)"),
        (("a", "b", "c", "d"), "no longer as specified (a, b, c and 1 more changed)"),
    ],
)
def test_known_changed_fields_are_named(paths: tuple[str, ...], words: str) -> None:
    assert because("no longer as specified", paths) == words


@pytest.mark.parametrize(
    ("revisions", "why"),
    [
        ([PRESENT], "somebody changed or took off the annotation flame.xflops.io/session-manager"),
        (["", ""], "somebody changed or took off the annotation flame.xflops.io/revision"),
        (["", "by hand"], "somebody changed or took off the annotation flame.xflops.io/revision"),
        ([EARLIER], "no longer as specified (spec.a changed)"),
        (["", EARLIER, PRESENT], "no longer as specified (spec.a changed)"),
    ],
)
def test_pods_that_are_replaced_for_an_edited_mark_are_told_so(revisions: list[str], why: str) -> None:
    pods = [Component(executor_pod(number, revision=each)) for number, each in enumerate(revisions)]

    assert why_replaced(pods, replace(desired().group.template, revision=PRESENT), ("spec.a",)) == why


def test_executors_of_a_moment_without_a_session_manager_are_told_as_such() -> None:
    pods = [Component(executor_pod(number, revision=PRESENT, incarnation="")) for number in range(2)]

    assert (
        why_replaced(pods, replace(desired().group.template, revision=PRESENT), ())
        == "created while there was no session manager"
    )
