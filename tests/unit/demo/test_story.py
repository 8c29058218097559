"""Each chapter ends when what it promises is there, and not before."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.unit.demo.objects import CHILDREN, NEW, NOTHING, cluster, executor, healthy, manager, seen
from tools.demo.story import NAME, SAMPLE, Chapter, chapters, to_try
from tools.installation import ROOT

if TYPE_CHECKING:
    from tools.demo.model import Snapshot

UP, SCALED, HEALED, ROLLED, ZERO, SUSPENDED, RESUMED, DELETED = chapters()

THREE, EIGHT = healthy(0, 1, 2), healthy(*range(8))
RESTING = seen(cluster=cluster(0, state="Pending", conditions={"Ready": "False", "Suspended": "True"}), others=CHILDREN)


@pytest.mark.parametrize(
    ("chapter", "before", "after"),
    [
        (UP, NOTHING, THREE),
        (SCALED, THREE, EIGHT),
        (HEALED, EIGHT, healthy(0, 1, 2, 3, 5, 6, 7, 8)),
        (ROLLED, EIGHT, healthy(*range(8, 16), revision=NEW, config=2)),
        (ZERO, EIGHT, healthy()),
        (SUSPENDED, healthy(), RESTING),
        (RESUMED, RESTING, THREE),
        (DELETED, THREE, NOTHING),
    ],
)
def test_a_chapter_begins_unfulfilled_and_ends_with_what_it_promises(
    chapter: Chapter, before: Snapshot, after: Snapshot
) -> None:
    assert not chapter.reached(before, before)
    assert chapter.reached(before, after)


@pytest.mark.parametrize(
    "now",
    [
        seen(manager(), executor(0), executor(1), executor(2), cluster=cluster(3, observedGeneration=1)),
        seen(manager(), executor(0), executor(1), executor(2), cluster=cluster(3, state="Pending")),
        seen(manager(), executor(0), executor(1), executor(2), cluster=cluster(3, conditions={"Ready": "False"})),
        seen(manager(), executor(0), executor(1), cluster=cluster(3)),
        seen(manager(), executor(0), executor(1), executor(2, ready=False), cluster=cluster(3)),
        seen(manager(), *(executor(number) for number in range(3)), executor(3, terminating=True), cluster=cluster(3)),
        seen(manager(), *(executor(number) for number in range(3)), cluster=cluster(3, executorManager={"updated": 2})),
    ],
    ids=["earlier generation", "pending", "not healthy", "a Pod short", "not ready", "terminating", "not updated"],
)
def test_a_cluster_is_not_up_before_all_of_it_is(now: Snapshot) -> None:
    assert not UP.reached(NOTHING, now)


def test_an_executor_is_not_healed_when_another_one_went() -> None:
    assert not HEALED.reached(EIGHT, healthy(0, 1, 2, 3, 4, 5, 6, 8))
    assert not HEALED.reached(EIGHT, healthy(0, 1, 2, 3, 5, 6, 8, 9))


def test_executors_have_not_rolled_when_one_stayed_or_the_session_manager_went() -> None:
    assert not ROLLED.reached(EIGHT, healthy(*range(7, 15), revision=NEW, config=2))
    other = manager()
    other["metadata"]["uid"] = "another"
    executors = [executor(number, revision=NEW) for number in range(8, 16)]
    assert not ROLLED.reached(EIGHT, seen(other, *executors, cluster=cluster(8, revision=NEW, config=2)))


def test_a_suspended_cluster_keeps_its_services_and_its_configuration() -> None:
    suspended = cluster(0, conditions={"Suspended": "True"})
    assert not SUSPENDED.reached(healthy(), seen(cluster=suspended, others=CHILDREN[:2]))


@pytest.mark.parametrize("left", [seen(executor(0), others=()), seen(others=CHILDREN[:1]), seen(cluster=cluster())])
def test_nothing_may_be_left_of_a_deleted_cluster(left: Snapshot) -> None:
    assert not DELETED.reached(THREE, left)


def test_the_command_shown_is_the_command_run() -> None:
    for chapter in chapters():
        assert shlex.split(chapter.command(EIGHT)) == ["kubectl", *chapter.arguments(EIGHT)]


def test_the_executor_to_delete_is_one_that_is_there() -> None:
    assert HEALED.command(EIGHT) == "kubectl -n demo delete pod my-flame-executor-manager-4"


def test_the_sample_is_the_cluster_that_the_story_is_about() -> None:
    manifest = yaml.safe_load((ROOT / SAMPLE).read_text(encoding="utf-8"))
    assert manifest["metadata"]["name"] == NAME
    assert manifest["spec"]["executorManager"]["replicas"] == 3
    assert manifest["spec"]["executorManager"].get("maxExecutors") != 20, "there is nothing left to change"


def test_a_cluster_that_is_to_be_kept_is_not_deleted() -> None:
    assert chapters(keep=True) == chapters()[:-1]
    assert len(to_try()) == 3
