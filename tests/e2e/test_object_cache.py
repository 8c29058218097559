"""The object cache as a component of its own."""

from functools import partial
from typing import Any

from tests.e2e.namespace import E2ENamespace, flame_cluster, is_ready
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


def test_object_cache_is_scaled_recreated_replaced_and_removed(world: E2ENamespace, operator: OperatorProcess) -> None:
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

    lost = _caches(world)["my-flame-object-cache-1"]["metadata"]["uid"]
    world.kubectl("delete", "pod", "my-flame-object-cache-1")

    def back() -> bool:
        return _has(world, 3) and _caches(world)["my-flame-object-cache-1"]["metadata"]["uid"] != lost

    world.wait("the object cache to come back", back)
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
