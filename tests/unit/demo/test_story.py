"""Each chapter ends only in its expected state."""

from __future__ import annotations

import pytest

from tests.unit.demo.objects import CHILDREN, NEW, NOTHING, cluster, executor, healthy, manager, seen
from tools.demo.model import Snapshot
from tools.demo.story import Chapter, chapters

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
