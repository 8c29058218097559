"""A crash of the operator uses no id twice and loses no work."""

from __future__ import annotations

from collections import Counter
from functools import partial

from tests.e2e.namespace import E2ENamespace, Recording, flame_cluster
from tools.installation import OperatorProcess


def assert_no_name_twice(recording: Recording) -> None:
    """No name was ever given to a second Pod; none was, at any time, there twice."""
    recording.changes()
    made = Counter(name for name, _ in set(recording.created()))
    assert [name for name, times in made.items() if times > 1] == []


def so_many(recording: Recording, count: int) -> bool:
    return len(recording.created()) >= count


def test_operator_killed_three_times_creates_exactly_60_executors(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    # However late it is killed, it cannot have finished.
    world.limit_pods(20)
    with world.record("pod") as recording:
        world.apply(flame_cluster(replicas=60))
        for count, limit in ((8, 40), (25, 60), (45, 500)):
            world.wait(f"{count} Pods", partial(so_many, recording, count))
            operator.kill()
            world.limit_pods(limit)
            operator.start()
        world.wait_running(executors=60, timeout=180)
        world.wait("surplus Pods, if any, to be gone", lambda: world.has_executors(60))
        assert_no_name_twice(recording)

    assert len(world.all("pod")) == 61
    world.wait_at_rest(7)
