"""A crash of the operator, or a second operator, uses no id twice and loses no work."""

from collections import Counter
from functools import partial
from pathlib import Path

from tests.e2e.namespace import E2ENamespace, Recording, flame_cluster
from tools.installation import OperatorProcess, allow_in


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


def test_two_operators_create_exactly_the_wanted_pods(
    world: E2ENamespace, operator: OperatorProcess, tmp_path: Path
) -> None:
    kubeconfig = allow_in(world.plane, world.namespace)
    second = OperatorProcess(
        kubeconfig, tmp_path / "second.log", ["--namespace", world.namespace, "--log-level", "debug"]
    )
    with second, world.record("pod") as recording:
        world.apply(flame_cluster(replicas=20))
        world.wait_running(executors=20)
        for replicas in (4, 12):
            world.kubectl("scale", "flamecluster/my-flame", f"--replicas={replicas}")
            world.wait_running(executors=replicas)
            world.wait("surplus Pods to be gone", partial(world.has_executors, replicas))
        world.change(executorManager={"maxExecutors": 20})
        world.wait_running(executors=12)
        world.wait("the old ones to be gone", lambda: world.has_executors(12))
        assert_no_name_twice(recording)
        managers = {uid for name, uid in recording.created() if name == "my-flame-session-manager"}
        assert len(managers) == 1
        world.wait_at_rest(7)

    assert "Traceback" not in second.log.read_text(encoding="utf-8")
