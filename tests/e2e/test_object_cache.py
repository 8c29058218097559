"""The object cache as a component of its own."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from tests.e2e.namespace import E2ENamespace, flame_cluster, is_ready, operator_with
from tools.installation import OperatorProcess

IMAGE = "xflops/flame-object-cache:v0.6.0"


def _caches(world: E2ENamespace) -> dict[str, dict[str, Any]]:
    pods = [pod for pod in world.all("pod") if pod["metadata"]["labels"].get("app") == "flame-object-cache"]
    return {pod["metadata"]["name"]: pod for pod in pods if "deletionTimestamp" not in pod["metadata"]}


def _names(count: int) -> set[str]:
    return {f"my-flame-object-cache-{ordinal}" for ordinal in range(count)}


def _has(world: E2ENamespace, count: int) -> bool:
    caches = _caches(world)
    return caches.keys() == _names(count) and all(map(is_ready, caches.values()))


def _others(world: E2ENamespace) -> dict[str, str]:
    pods = [pod for pod in world.all("pod") if pod["metadata"]["labels"].get("app") != "flame-object-cache"]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


def test_object_cache_is_scaled_replaced_and_removed(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.enforce("baseline")
    world.apply(flame_cluster(replicas=2, objectCache={"image": IMAGE}))
    world.wait_running(executors=2)
    status = world.status()["objectCache"]
    assert (status["state"], status["ready"], status["replicas"]) == ("Running", 1, 1)
    service = world.existing("service", "my-flame-object-cache")
    assert service["spec"]["selector"]["app"] == "flame-object-cache"
    others = _others(world)

    for replicas in (3, 1, 3):
        world.patch("flamecluster", "my-flame", {"spec": {"objectCache": {"replicas": replicas}}})
        world.wait(f"{replicas} object caches", partial(_has, world, replicas))
        world.wait_running(executors=2)

    world.patch("flamecluster", "my-flame", {"spec": {"objectCache": {"image": f"{IMAGE}-1"}}})

    def replaced() -> bool:
        images = {pod["spec"]["containers"][0]["image"] for pod in _caches(world).values()}
        return _has(world, 3) and images == {f"{IMAGE}-1"}

    world.wait("all object caches to be replaced", replaced)
    world.wait_running(executors=2)
    assert _others(world) == others, "neither the session manager nor an executor reads what changed"

    world.patch("flamecluster", "my-flame", {"spec": {"objectCache": {"image": None}}})
    world.wait("the object caches to be removed", lambda: not _caches(world))
    assert world.wait_running(executors=2)["objectCache"]["state"] == "NotRun"
    assert {"ObjectCacheCreated", "ObjectCacheDeleted"} <= {event["reason"] for event in world.all("event")}


def test_deleted_object_cache_is_recreated_under_its_name(world: E2ENamespace, operator: OperatorProcess) -> None:
    world.apply(flame_cluster(replicas=0, objectCache={"image": IMAGE, "replicas": 2}))
    world.wait_running(executors=0)
    before = _caches(world)["my-flame-object-cache-1"]["metadata"]["uid"]

    world.kubectl("delete", "pod", "my-flame-object-cache-1")

    def back() -> bool:
        return _has(world, 2) and _caches(world)["my-flame-object-cache-1"]["metadata"]["uid"] != before

    world.wait("the object cache to come back", back)
    world.wait_running(executors=0)


def test_failing_object_cache_backs_off_and_the_wait_survives_a_crash(world: E2ENamespace, tmp_path: Path) -> None:
    name = "my-flame-object-cache-0"

    def another(uid: str) -> dict[str, Any] | None:
        pod = _caches(world).get(name)
        return pod if pod is not None and pod["metadata"]["uid"] != uid and is_ready(pod) else None

    def counted(failures: int) -> dict[str, Any] | None:
        status: dict[str, Any] = world.status()["objectCache"]
        return status if status.get("failures") == failures else None

    with operator_with(world, tmp_path, backoffBaseSeconds=6) as operator:
        world.apply(flame_cluster(replicas=0, objectCache={"image": IMAGE}))
        world.wait_running(executors=0)
        for failures in (1, 2):
            uid = _caches(world)[name]["metadata"]["uid"]
            world.patch_status(name, phase="Failed")
            status = world.wait(f"{failures} failures to be counted", partial(counted, failures))
            if failures == 1:
                world.wait("the replacement", partial(another, uid))

        operator.kill()
        operator.start()
        third = world.wait("the third attempt", partial(another, uid))
        # Answers name the API server's time in whole seconds, so the operator knows it to a second.
        due = datetime.fromisoformat(status["nextAttempt"])
        assert datetime.fromisoformat(third["metadata"]["creationTimestamp"]) >= due - timedelta(seconds=1)
        assert counted(2)
