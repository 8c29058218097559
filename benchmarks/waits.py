"""Waits on watches, and requests of which some are in flight at a time."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from benchmarks.report import Curve
from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.kube.api_server_client import ApiServerClient
from flamectl_operator.kube.client import EventType
from flamectl_operator.kube.resources import PODS, Resource
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.observed.pods import is_ready
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS

#: Requests that a bare loader has in flight, as the operator may have for one FlameCluster.
IN_FLIGHT = 64
#: Seconds within which a step of a benchmark must be done.
PATIENCE = 900


async def until_clusters(
    client: ApiServerClient, namespace: str, condition: Callable[[dict[str, dict[str, Any]]], bool]
) -> float:
    """Wait until the statuses of the FlameClusters fulfil a condition, and return when they did.

    Args:
        client: A client of an administrator.
        condition: It gets the statuses by name.
    """
    statuses: dict[str, dict[str, Any]] = {}

    def seen(kind: EventType, cluster: FlameClusterView) -> bool:
        if kind is EventType.DELETED:
            statuses.pop(cluster.name, None)
        elif kind is not EventType.BOOKMARK:
            generation = cluster.metadata.generation
            current = cluster.status.get("observedGeneration") == generation
            statuses[cluster.name] = cluster.status if current else {}
        return condition(statuses)

    return await until_seen(client, FLAME_CLUSTERS, namespace, seen)


async def until_pods(
    client: ApiServerClient,
    namespace: str,
    condition: Callable[[int, int], bool],
    curve: Curve | None = None,
    selector: str = CLUSTER_LABEL,
) -> float:
    """Wait until the Pods fulfil a condition, and return when they did.

    Args:
        client: A client of an administrator.
        condition: It gets how many there are, and how many of them are ready.
        curve: Gets the number of ready Pods at each event.
        selector: Selects the Pods.
    """
    pods: dict[str, bool] = {}
    ready = 0

    def seen(kind: EventType, pod: Any) -> bool:
        nonlocal ready
        ready -= pods.pop(pod.name, False)
        if kind is not EventType.DELETED:
            pods[pod.name] = is_ready(pod)
            ready += pods[pod.name]
        if curve is not None:
            curve.append((time.monotonic(), ready))
        return condition(len(pods), ready)

    return await until_seen(client, PODS, namespace, seen, selector=selector)


async def until_seen(
    client: ApiServerClient,
    resource: Resource[Any],
    namespace: str,
    seen: Callable[[EventType, Any], bool],
    selector: str = "",
) -> float:
    """Wait until a function returns True that sees each event, and return when it did.

    Args:
        client: A client of an administrator.
        resource: The resource to watch.
        namespace: The namespace to watch.
        seen: It gets the kind of an event and the object, at first those that are there already.
        selector: Selects the objects.
    """
    async with asyncio.timeout(PATIENCE):
        token, over = "", False
        while True:
            page = await client.list_page(resource, namespace, label_selector=selector, continue_token=token)
            for item in page.items:
                over = seen(EventType.ADDED, item)
            token, version = page.continue_token, page.resource_version
            if not token:
                break
        if over:
            return time.monotonic()
        while True:  # a watch may end at any time
            watch = client.watch(
                resource,
                namespace,
                label_selector=selector,
                resource_version=version,
                timeout_seconds=PATIENCE,
                read_timeout=PATIENCE,
            )
            try:
                async for event in watch:
                    version = event.object.metadata.resource_version
                    if event.type is not EventType.BOOKMARK and seen(event.type, event.object):
                        return time.monotonic()
            finally:
                await watch.aclose()


async def in_flight(works: Iterable[Callable[[], Awaitable[object]]]) -> None:
    """Do all of this, as many at a time as `IN_FLIGHT` allows."""
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def one(work: Callable[[], Awaitable[object]]) -> None:
        async with slots:
            await work()

    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(one(work))
