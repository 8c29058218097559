"""Executors that follow the demand of sessions, and clusters that suspend themselves when there is none."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.flame import Flame
from tests.e2e.namespace import E2ENamespace, flame_cluster, operator_with
from tools.controlplane.errors import KubectlError

PATIENCE = 180.0
LIMITS = {"limits": {"cpu": "1", "memory": "1Gi"}}


def _cluster(**autoscaling: Any) -> dict[str, Any]:
    manifest = flame_cluster()
    manifest["spec"]["executorManager"].pop("replicas", None)
    executors = {"resources": LIMITS, "autoscaling": {"minReplicas": 1, "maxReplicas": 6, **autoscaling}}
    manifest["spec"]["executorManager"] |= executors
    return manifest


def _desired(world: E2ENamespace) -> int | None:
    found: int | None = world.status().get("executorManager", {}).get("autoscaling", {}).get("desired")
    return found


def test_burst_gets_six_executors_and_then_one_again_and_no_task_is_lost_or_repeated(
    world: E2ENamespace, flame: Flame, tmp_path: Path
) -> None:
    with operator_with(world, tmp_path):
        world.apply(_cluster(idleTimeoutSeconds=5))
        world.wait_running(executors=1)
        world.wait("the first executor to register", lambda: len(flame.table) == 1, PATIENCE)

        flame.ask(lambda model: model.open_session("burst", tasks=60))
        flame.ask(lambda model: model.open_session("long", tasks=1, seconds=30))
        world.wait("six executors", lambda: len(flame.table) == 6, PATIENCE)
        assert _desired(world) == 6
        world.wait("the burst", lambda: flame.done("burst"), PATIENCE)
        world.wait("the long session", lambda: flame.done("long"), PATIENCE)
        world.wait("one executor", lambda: len(world.executors()) == 1, PATIENCE)

        assert set(flame.runs("burst")) == set(flame.runs("long")) == {1}
        assert _desired(world) == 1
        assert world.events("DrainTimedOut") == []
        assert world.existing("flamecluster", "my-flame")["spec"]["executorManager"]["replicas"] == 1
        world.wait("a clean table", lambda: len(flame.table) == 1, PATIENCE)


def test_paused_session_is_told_and_releases_its_executors(world: E2ENamespace, flame: Flame, tmp_path: Path) -> None:
    with operator_with(world, tmp_path):
        world.apply(_cluster(idleTimeoutSeconds=5))
        world.wait_running(executors=1)
        flame.ask(lambda model: model.open_session("works", tasks=4, seconds=15))
        world.wait("four executors with work", lambda: len(flame.busy("works")) == 4, PATIENCE)
        flame.ask(lambda model: setattr(model, "binds", False))
        flame.ask(lambda model: model.open_session("fails", tasks=60))

        world.wait("the reason", lambda: world.status().get("reason") == "SessionPaused", PATIENCE)
        status = world.status()
        assert 'session "fails" is paused: Session retry limit reached after 5/5 failed attempts' in status["message"]
        assert (status["state"], status["sessions"]["paused"]) == ("Running", 1)
        assert world.events("SessionPaused")[0]["type"] == "Warning"
        world.wait("the other session", lambda: flame.done("works"), PATIENCE)
        world.wait("one executor", lambda: len(world.executors()) == 1, PATIENCE)

        assert flame.runs("works") == [1] * 4
        assert _desired(world) == 1


def test_kubectl_scale_says_why_it_cannot_set_the_number(world: E2ENamespace) -> None:
    world.apply(_cluster())
    with pytest.raises(KubectlError, match="must be left out where autoscaling is set"):
        world.kubectl("scale", "flc/my-flame", "--replicas=5")


def test_idle_cluster_suspends_itself_until_suspend_is_set_to_false(
    world: E2ENamespace, flame: Flame, tmp_path: Path
) -> None:
    with operator_with(world, tmp_path):
        world.apply(flame_cluster(replicas=1))
        world.wait_running(executors=1)
        world.change(idle={"timeoutSeconds": 5})

        world.wait("the cluster to suspend itself", lambda: world.status().get("reason") == "IdleSuspended", PATIENCE)
        assert world.executors() == []
        assert "suspend: false" in world.status()["message"]
        world.wait("the event", lambda: world.events("IdleSuspended"))

        flame.ask(lambda model: model.open_session("s", tasks=1, closes=False))
        world.change(suspend=False)
        world.wait_running(executors=1, timeout=PATIENCE)
        assert "suspendedGeneration" not in world.status().get("idle", {})
