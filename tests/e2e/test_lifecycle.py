"""Three of the four use cases: scale, delete, reconfigure. `test_objects.py` deploys a cluster."""

import time
from functools import partial

import yaml

from tests.e2e.namespace import E2ENamespace, executor_id, flame_cluster
from tools.installation import OperatorProcess

#: How long nothing may be written when all is well, in seconds.
QUIET = 20.0


def assert_quiet(world: E2ENamespace, before: dict[str, str], seconds: float = QUIET) -> None:
    """Assert that nothing new is written for a while, because an absent event can only be observed by waiting."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert world.resource_versions() == before
        time.sleep(1)


def test_scaling_up_down_to_zero_and_back_ends_at_the_wanted_number_and_rests(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    for replicas in (10, 2, 0, 3):
        world.kubectl("scale", "flamecluster/my-flame", f"--replicas={replicas}")
        world.wait_running(executors=replicas)
        world.wait("surplus Pods to be gone", partial(world.has_executors, replicas))
        if not replicas:
            # Nothing but the status tells a new process which ids were used.
            operator.kill()
            operator.start()

    used = [executor_id(pod) for pod in world.executors()]
    assert used == [10, 11, 12], "ids are never used again"
    before = world.wait_at_rest(QUIET)

    operator.kill()
    operator.start()
    assert_quiet(world, before)


def test_deleted_cluster_leaves_nothing(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    world.kubectl("scale", "flamecluster/my-flame", "--replicas=2")
    world.wait_running(executors=2)
    assert world.get("lease", "my-flame-lock") is not None, "an executor was deleted with the lock"
    world.kubectl("delete", "flamecluster/my-flame")

    def nothing_left() -> bool:
        left = [each for kind in ("pod", "service", "configmap", "lease") for each in world.all(kind)]
        return [each["metadata"]["name"] for each in left] == ["kube-root-ca.crt"]

    world.wait("the garbage collector to take everything", nothing_left)


def test_changed_configuration_and_restart_annotation_replace_the_pods_that_read_them(
    world: E2ENamespace, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.all("pod")}

    world.patch("flamecluster", "my-flame", {"spec": {"executorManager": {"maxExecutors": 20}}})
    status = world.wait_running(executors=3)

    found = world.get("configmap", "my-flame-config")
    assert found is not None
    config = yaml.safe_load(found["data"]["flame-cluster.yaml"])
    assert config["executors"]["limits"]["max_executors"] == 20
    assert status["configGeneration"] == 2
    manager = world.get("pod", "my-flame-session-manager")
    assert manager is not None
    assert manager["metadata"]["uid"] == before["my-flame-session-manager"], "it does not read what changed"
    executors = {pod["metadata"]["name"] for pod in world.live_executors()}
    assert not executors & before.keys()

    restarted = "flame.xflops.io/restarted-at"
    world.change(executorManager={"podTemplate": {"metadata": {"annotations": {restarted: "today at noon"}}}})
    world.wait_running(executors=3)

    assert not {pod["metadata"]["name"] for pod in world.live_executors()} & executors
    assert {pod["metadata"]["annotations"][restarted] for pod in world.live_executors()} == {"today at noon"}
    assert world.session_manager()["metadata"]["uid"] == before["my-flame-session-manager"]
