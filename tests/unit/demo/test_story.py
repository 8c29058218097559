"""Each chapter ends only in its expected state."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.unit.demo.objects import CHILDREN, NEW, NOTHING, cluster, executor, healthy, manager, seen
from tools.demo.story import NAME, SAMPLE, Chapter, chapters
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
def test_chapter_ends_only_in_its_expected_state(chapter: Chapter, before: Snapshot, after: Snapshot) -> None:
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
def test_incomplete_cluster_is_not_up(now: Snapshot) -> None:
    assert not UP.reached(NOTHING, now)


def test_executor_is_not_healed_when_a_different_one_is_gone() -> None:
    assert not HEALED.reached(EIGHT, healthy(0, 1, 2, 3, 4, 5, 6, 8))
    assert not HEALED.reached(EIGHT, healthy(0, 1, 2, 3, 5, 6, 8, 9))


def test_rollout_is_incomplete_when_an_executor_stays_or_the_session_manager_changes() -> None:
    assert not ROLLED.reached(EIGHT, healthy(*range(7, 15), revision=NEW, config=2))
    other = manager()
    other["metadata"]["uid"] = "another"
    executors = [executor(number, revision=NEW) for number in range(8, 16)]
    assert not ROLLED.reached(EIGHT, seen(other, *executors, cluster=cluster(8, revision=NEW, config=2)))


@pytest.mark.parametrize("left", [seen(executor(0), others=()), seen(others=CHILDREN[:1]), seen(cluster=cluster())])
def test_cluster_with_remaining_objects_is_not_deleted(left: Snapshot) -> None:
    assert not DELETED.reached(THREE, left)


def test_shown_command_is_the_command_that_runs() -> None:
    for chapter in chapters():
        assert shlex.split(chapter.command(EIGHT)) == ["kubectl", *chapter.arguments(EIGHT)]


def test_sample_fits_the_story() -> None:
    manifest = yaml.safe_load((ROOT / SAMPLE).read_text(encoding="utf-8"))
    assert manifest["metadata"]["name"] == NAME
    assert manifest["spec"]["executorManager"]["replicas"] == 3
    assert manifest["spec"]["executorManager"].get("maxExecutors") != 20, "there is nothing left to change"
