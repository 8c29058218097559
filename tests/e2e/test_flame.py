"""The operator uses Flame's answers: no task is lost, and no node of a deleted executor stays in the table."""

from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.flame import Flame, flame_in
from tests.e2e.namespace import E2ENamespace, flame_cluster, operator_with
from tests.flame.certified import served_as_localhost
from tests.flame.model import FlameModel
from tests.unit.kube.certificates import AUTHORITY

PATIENCE = 180.0


def _executors(world: E2ENamespace) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.live_executors()}


def _start(world: E2ENamespace, flame: Flame, executors: int) -> None:
    world.apply(flame_cluster(replicas=executors))
    world.wait_running(executors=executors)
    world.wait("all executors to register", lambda: flame.table == _executors(world))
    world.wait(
        "the status to say so", lambda: world.status()["executorManager"].get("registered") == executors, PATIENCE
    )


def test_rollout_under_load_loses_and_repeats_no_task(world: E2ENamespace, flame: Flame, tmp_path: Path) -> None:
    with operator_with(world, tmp_path):
        _start(world, flame, 10)
        before = _executors(world)
        flame.ask(lambda model: model.open_session("s", tasks=150, max_instances=10))
        # Flame 0.6 with SQLite never lets go of an executor whose node is released while it binds to its session.
        world.wait("tasks to run", lambda: len(flame.busy("s")) == 10, PATIENCE)

        world.change(executorManager={"env": [{"name": "GREETING", "value": "hello"}]})
        world.wait("the rollout", lambda: not before & _executors(world) and len(_executors(world)) == 10, PATIENCE)
        world.wait("the session", lambda: flame.done("s"), PATIENCE)

        assert set(flame.runs("s")) == {1}
        world.wait("a clean table", lambda: flame.table == _executors(world), PATIENCE)
        world.wait_running(executors=10, timeout=PATIENCE)


def test_scale_down_keeps_the_busy_executor(world: E2ENamespace, flame: Flame, tmp_path: Path) -> None:
    with operator_with(world, tmp_path):
        _start(world, flame, 5)
        flame.ask(lambda model: model.open_session("s", tasks=1, seconds=60))
        world.wait(
            "the operator to see the task",
            lambda: world.status().get("sessions", {}).get("runningTasks") == 1,
            PATIENCE,
        )
        busy = flame.busy("s")

        world.change(executorManager={"replicas": 2})
        world.wait("two executors", lambda: len(world.executors()) == 2, PATIENCE)
        assert busy <= _executors(world)
        world.wait("the session", lambda: flame.done("s"), PATIENCE)

        assert flame.runs("s") == [1]
        world.wait("a clean table", lambda: flame.table == _executors(world), PATIENCE)


def test_tasks_of_a_dead_executor_run_elsewhere_and_its_node_is_released(
    world: E2ENamespace, flame: Flame, tmp_path: Path
) -> None:
    with operator_with(world, tmp_path):
        _start(world, flame, 3)
        flame.ask(lambda model: model.open_session("s", tasks=30, max_instances=3))
        world.wait("tasks to run", lambda: len(flame.busy("s")) == 3)
        [victim, *_] = sorted(flame.busy("s"))

        world.patch_status(victim, phase="Failed")

        world.wait("the table without it", lambda: victim not in flame.table, PATIENCE)
        world.wait("the session", lambda: flame.done("s"), PATIENCE)
        world.wait("a clean table", lambda: flame.table == _executors(world), PATIENCE)


def test_operator_killed_during_a_drain_finishes_it(world: E2ENamespace, flame: Flame, tmp_path: Path) -> None:
    with operator_with(world, tmp_path) as operator:
        _start(world, flame, 2)
        flame.ask(lambda model: model.open_session("s", tasks=2, seconds=60, max_instances=2))
        world.wait("tasks to run", lambda: len(flame.busy("s")) == 2)
        world.change(executorManager={"replicas": 1})
        world.wait("a drain", lambda: world.events("ExecutorsDraining"))
        operator.kill()
        operator.start()
        world.wait("the release of its node", lambda: len(flame.table) == 1, PATIENCE)
        operator.kill()
        operator.start()
        world.wait("one executor", lambda: len(world.executors()) == 1, PATIENCE)

        assert flame.done("s")
        assert flame.runs("s") == [1, 1]
        world.wait("a clean table", lambda: flame.table == _executors(world), PATIENCE)


def test_session_manager_with_tls_is_asked_when_the_spec_has_its_authority(world: E2ENamespace, tmp_path: Path) -> None:
    folder = tmp_path / "certificate"
    folder.mkdir()
    with (
        flame_in(world, served_as_localhost(folder)) as flame,
        operator_with(world, tmp_path, sessionManagerEndpoint=f"localhost:{flame.port}"),
    ):
        secret = {"secretName": "my-flame-flame-tls"}
        world.apply(flame_cluster(replicas=2, tls=secret))
        world.wait_running(executors=2)
        assert _reachable(world) == "AuthorityUnknown"
        before = _executors(world)

        world.change(tls={"caBundle": AUTHORITY})
        world.wait("the session manager to be asked", lambda: _reachable(world) == "Answers", PATIENCE)
        world.wait("all executors to be registered", lambda: world.status()["executorManager"].get("registered") == 2)

        assert _executors(world) == before


def test_tenants_service_leads_the_operator_to_no_other_session_manager(
    world: E2ENamespace, flame: Flame, tmp_path: Path
) -> None:
    with flame_in(world, other=True) as victim, operator_with(world, tmp_path):
        names = [f"my-flame-executor-manager-{number}" for number in range(3)]
        for name in names:
            victim.ask(partial(FlameModel.start_executor_manager, name=name))
        spec = {"type": "ExternalName", "externalName": "my-flame-session-manager.victim.svc.cluster.local"}
        world.kubectl("create", "-f", "-", stdin=yaml.safe_dump(_service("my-flame-session-manager", spec)))
        world.apply(flame_cluster(replicas=3))
        world.wait("all executors to register", lambda: len(flame.table) == 3)

        world.change(executorManager={"replicas": 0})
        world.wait("the nodes to be released", lambda: "ReleaseNode" in flame.calls and not flame.table, PATIENCE)

        assert victim.calls == []
        assert victim.table == set(names)


def test_session_manager_with_a_new_address_is_asked_there_and_no_more_at_the_old_one(
    world: E2ENamespace, flame: Flame, tmp_path: Path
) -> None:
    with flame_in(world, other=True) as other, operator_with(world, tmp_path):
        _start(world, flame, 1)

        flame.address, other_address = other.address, flame.address
        world.wait("a question at the new address", lambda: other.calls, PATIENCE)
        asked = len(flame.calls)
        world.change(executorManager={"replicas": 2})
        world.wait("more questions there", lambda: len(other.calls) > 12, PATIENCE)

        assert len(flame.calls) == asked, f"{other_address} is still asked"


def _service(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def _reachable(world: E2ENamespace) -> str:
    """The reason of the condition SessionManagerReachable."""
    (found,) = [each for each in world.status()["conditions"] if each["type"] == "SessionManagerReachable"]
    reason: str = found["reason"]
    return reason


def test_second_cluster_on_the_storage_of_the_first_has_a_clean_table(
    world: E2ENamespace, flame: Flame, tmp_path: Path
) -> None:
    """The fake keeps its table, as a retained claim does."""
    with operator_with(world, tmp_path):
        _start(world, flame, 3)
        first = _executors(world)
    world.kubectl("delete", "flamecluster/my-flame")
    world.wait("the executors to be gone", lambda: not world.executors(), PATIENCE)
    assert flame.table == first

    with operator_with(world, tmp_path):
        world.apply(flame_cluster(replicas=1))
        world.wait_running(executors=1, timeout=PATIENCE)
        world.wait("a clean table", lambda: flame.table == _executors(world), PATIENCE)
        assert world.status()["executorManager"]["nextId"] == 3

        world.change(executorManager={"replicas": 2})
        world.wait("another executor", lambda: len(_executors(world)) == 2, PATIENCE)
        assert "my-flame-executor-manager-3" in _executors(world)


def test_rollout_to_executors_that_never_register_stops_with_all_others_registered(
    world: E2ENamespace, flame: Flame, tmp_path: Path
) -> None:
    with operator_with(world, tmp_path, registrationDeadlineSeconds=10):
        _start(world, flame, 8)
        before = _executors(world)
        flame.mute_image = "executor:broken"
        world.change(
            executorManager={
                "image": "registry.example/executor:broken",
                "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            }
        )

        world.wait("the rollout to stop", lambda: world.status()["reason"] == "ExecutorsNotRegistered", PATIENCE)

        # The first new executor was replaced once, and the second one is kept beyond its time.
        second = "my-flame-executor-manager-9"
        world.wait("the time of the second one to be over", lambda: world.status()["executorManager"]["failures"] == 2)
        asked = len(flame.calls)
        world.wait("more questions", lambda: len(flame.calls) > asked + 30, PATIENCE)
        assert len(flame.table & before) == 7
        assert _executors(world) - before == {second}
        status = world.status()
        assert status["state"] == "Running"
        assert {each["type"]: each["status"] for each in status["conditions"]}["Ready"] == "False"
        [told] = world.events("ExecutorsNotRegistered")
        assert told["type"] == "Warning"
        assert second in told["message"]

        world.change(executorManager={"image": "registry.example/executor:good"})
        world.wait("the next rollout", lambda: not (before | {second}) & _executors(world), PATIENCE)
        world.wait_running(executors=8, timeout=PATIENCE)


def test_session_manager_waits_with_a_change_until_no_task_runs(
    world: E2ENamespace, flame: Flame, tmp_path: Path
) -> None:
    with operator_with(world, tmp_path):
        _start(world, flame, 2)
        before = world.session_manager()["metadata"]["uid"]
        name = "my-flame-session-manager"
        flame.ask(lambda model: model.open_session("s", tasks=4, seconds=8, max_instances=1))
        # The operator replaces a session manager by an answer that may be some seconds old.
        world.wait("the operator to hear of a task", lambda: world.status().get("sessions", {}).get("runningTasks"))

        world.change(sessionManager={"updateStrategy": {"type": "WhenIdle"}, "env": [{"name": "A", "value": "b"}]})
        world.wait(
            "the status to say what it waits for", lambda: "has running tasks" in world.status().get("message", "")
        )
        assert world.status()["sessionManager"]["updatePendingSince"]
        assert world.session_manager()["metadata"]["uid"] == before
        assert not flame.done("s")
        world.wait("its end", lambda: (world.get("pod", name) or {}).get("metadata", {}).get("uid") != before, PATIENCE)

        assert (flame.done("s"), flame.runs("s")) == (True, [1] * 4)
        world.wait_running(executors=2, timeout=PATIENCE)
        assert "updatePendingSince" not in world.status()["sessionManager"]


def test_executor_with_work_is_protected_from_autoscalers_of_nodes(
    world: E2ENamespace, flame: Flame, tmp_path: Path
) -> None:
    with operator_with(world, tmp_path):
        _start(world, flame, 3)
        uids = {pod["metadata"]["uid"] for pod in world.executors()}
        world.change(executorManager={"drain": {"protectBusy": True}})
        flame.ask(lambda model: model.open_session("s", tasks=1, seconds=600))
        world.wait("the task to run", lambda: flame.busy("s"))

        world.wait("the annotations", lambda: _protected(world) == flame.busy("s"), PATIENCE)
        assert {pod["metadata"]["uid"] for pod in world.executors()} == uids


def _protected(world: E2ENamespace) -> set[str]:
    wanted = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
    pods = [pod["metadata"] for pod in world.executors()]
    return {pod["name"] for pod in pods if wanted.items() <= pod["annotations"].items()}
