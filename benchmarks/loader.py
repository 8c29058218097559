"""A bare loader: it sends the requests of the operator and decides nothing.

It is a process of its own, as the operator is, and watches Pods as the operator does. So the benchmarks measure both from
outside, and what measuring costs the API server is the same for both.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import SystemRandom
from typing import Any, TypeVar

from benchmarks.objects import SMALL, Children, spec
from benchmarks.waits import IN_FLIGHT, PATIENCE, in_flight, until_pods
from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.kube.api_server_client import ApiServerClient
from flamectl_operator.kube.client import EventType, WatchEvent
from flamectl_operator.kube.http.connection import connect
from flamectl_operator.kube.http.retrying import RetryingTransport
from flamectl_operator.kube.resources import PODS, Resource
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.observed.pods import is_ready
from flamectl_operator.process.memory import collect_rarely
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS
from flamectl_operator.runtime.clock import SystemClock

T = TypeVar("T", bound=KubernetesObject)

#: Waves in which a rolling change replaces all executors.
WAVES = 4

#: The uid of each Pod by name.
Pods = dict[str, str]


class Loader:
    """The process of a bare loader.

    Args:
        pool: Runs the process.
        kubeconfig: Leads to the API server.
        pid: The process id.
    """

    def __init__(self, pool: ProcessPoolExecutor, kubeconfig: Path, pid: int) -> None:
        self.pid = pid
        self._pool = pool
        self._kubeconfig = kubeconfig

    @classmethod
    @contextmanager
    def started(cls, kubeconfig: Path) -> "Iterator[Loader]":
        """Start the process, and end it when the context is left."""
        with ProcessPoolExecutor(1, get_context("spawn"), initializer=collect_rarely) as pool:
            yield cls(pool, kubeconfig, pool.submit(os.getpid).result())

    async def grow(self, namespace: str, name: str, count: int) -> Pods:
        """Create the executors of a FlameCluster, write its status when all are ready, and return them."""
        pods: Pods = await self._run(_grow, namespace, name, count)
        return pods

    async def change(self, namespace: str, name: str, image: str, old: Pods) -> Pods:
        """Replace all executors in waves, each of which waits until all executors are ready, and return the new ones."""
        pods: Pods = await self._run(_change, namespace, name, image, old)
        return pods

    async def delete(self, namespace: str, pods: Pods) -> None:
        """Delete the executors of a FlameCluster, and wait until they are gone."""
        await self._run(_shrink, namespace, pods)

    async def follow(
        self,
        namespace: str,
        version: str,
        count: int,
        status: dict[str, Any],
        first: dict[str, Any] | None = None,
        *,
        in_order: bool = True,
    ) -> None:
        """Create the children of FlameClusters as these come, and write the status of each one when its Pods are ready.

        Args:
            version: A resourceVersion before the first one is created.
            count: How many there will be.
            status: The status to write.
            first: A status to write before the children are created; None for none.
            in_order: Whether the children of a FlameCluster are created one after the other, as many FlameClusters at a time as
                requests may be in flight; otherwise all children are created in no order.
        """
        await self._run(_follow, namespace, version, count, status, first, in_order)

    async def _run(self, work: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, _in_process, self._kubeconfig, work, arguments)


def _in_process(kubeconfig: Path, work: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...]) -> Any:
    async def run() -> Any:
        transport = RetryingTransport(await connect(kubeconfig), SystemClock(), SystemRandom())
        try:
            return await work(ApiServerClient(transport, timeout=120), *arguments)
        finally:
            await transport.close()

    return asyncio.run(run())


async def _grow(client: ApiServerClient, namespace: str, name: str, count: int) -> Pods:
    cluster = await client.get(FLAME_CLUSTERS, namespace, name)
    children = Children.of(cluster, spec(count))
    pods: Pods = {}
    all_ready = asyncio.create_task(until_pods(client, namespace, lambda _, ready: ready == count + 1))
    await in_flight(partial(_create, client, pods, each) for each in children.executors)
    await all_ready
    await _write_status(client, cluster, _running(ready=count))
    return pods


async def _change(client: ApiServerClient, namespace: str, name: str, image: str, old: Pods) -> Pods:
    cluster = await client.get(FLAME_CLUSTERS, namespace, name)
    count = len(old)
    children, wave = Children.of(cluster, spec(count, image), first_id=count), -(-count // WAVES)
    pods: Pods = {}
    for first in range(0, count, wave):
        await _delete_all(client, namespace, dict(list(old.items())[first : first + wave]))
        await in_flight(partial(_create, client, pods, each) for each in children.executors[first : first + wave])
        await until_pods(client, namespace, lambda there, ready: there == ready == count + 1)
    await _write_status(client, cluster, _running(ready=count, updated=count))
    return pods


async def _shrink(client: ApiServerClient, namespace: str, pods: Pods) -> None:
    gone = asyncio.create_task(until_pods(client, namespace, lambda there, _: there == 1))
    await _delete_all(client, namespace, pods)
    await gone


async def _delete_all(client: ApiServerClient, namespace: str, pods: Pods) -> None:
    await in_flight(partial(client.delete, PODS, namespace, name, uid=uid) for name, uid in pods.items())


async def _create(client: ApiServerClient, pods: Pods, manifest: dict[str, Any]) -> None:
    made = await client.create(PODS, manifest["metadata"]["namespace"], manifest, strict=True)
    pods[made.name] = made.uid


async def _follow(
    client: ApiServerClient,
    namespace: str,
    version: str,
    count: int,
    status: dict[str, Any],
    first: dict[str, Any] | None,
    in_order: bool,  # noqa: FBT001 - arguments go to the process by position
) -> None:
    watch = partial(_watch, client, namespace, version)
    slots = asyncio.Semaphore(IN_FLIGHT)
    clusters: dict[str, FlameClusterView] = {}
    ready: Counter[str] = Counter()
    seen: set[str] = set()
    create = partial(_create_in_order, client, slots, clusters, first)
    if not in_order:
        create = partial(_create_in_no_order, client, slots)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:

        async def watch_clusters() -> None:
            async for event in watch(FLAME_CLUSTERS):
                if event.type is EventType.ADDED:
                    clusters[event.object.name] = event.object
                    group.create_task(create(event.object))
                    if len(clusters) == count:
                        return

        group.create_task(watch_clusters())
        async for event in watch(PODS, CLUSTER_LABEL):
            pod = event.object
            if event.type is EventType.BOOKMARK or pod.uid in seen or not is_ready(pod):
                continue
            seen.add(pod.uid)
            owner = pod.labels[CLUSTER_LABEL]
            ready[owner] += 1
            if ready[owner] == SMALL + 1:
                group.create_task(_write_status(client, clusters[owner], status))
            if len(seen) == count * (SMALL + 1):
                break


async def _watch(
    client: ApiServerClient, namespace: str, version: str, resource: Resource[T], label_selector: str = ""
) -> AsyncIterator[WatchEvent[T]]:
    """Watch on and on, because the API server ends a watch at any time, for example when its reader is slow."""
    while True:
        async for event in client.watch(
            resource,
            namespace,
            label_selector=label_selector,
            resource_version=version,
            timeout_seconds=PATIENCE,
            read_timeout=PATIENCE,
        ):
            version = event.object.metadata.resource_version
            yield event


async def _record(
    client: ApiServerClient, cluster: FlameClusterView, status: dict[str, Any] | None
) -> FlameClusterView:
    """Write a status if there is one, and return the FlameCluster as it is then."""
    return cluster if status is None else await _write_status(client, cluster, status)


async def _create_in_order(
    client: ApiServerClient,
    slots: asyncio.Semaphore,
    clusters: dict[str, FlameClusterView],
    first: dict[str, Any] | None,
    cluster: FlameClusterView,
) -> None:
    """Write the first status of a small FlameCluster, and create all its children one after the other."""
    async with slots:
        clusters[cluster.name] = await _record(client, cluster, first)
        for resource, manifest in _children(cluster):
            await client.create(resource, cluster.namespace, manifest, strict=True)


async def _create_in_no_order(client: ApiServerClient, slots: asyncio.Semaphore, cluster: FlameClusterView) -> None:
    """Create all children of a small FlameCluster, each as soon as there is a slot for it."""

    async def create(resource: Resource[Any], manifest: dict[str, Any]) -> None:
        async with slots:
            await client.create(resource, cluster.namespace, manifest, strict=True)

    async with asyncio.TaskGroup() as group:
        for each in _children(cluster):
            group.create_task(create(*each))


def _children(cluster: FlameClusterView) -> list[tuple[Resource[Any], dict[str, Any]]]:
    """Return all children of a small FlameCluster."""
    children = Children.of(cluster, spec(SMALL))
    return [*children.others, *((PODS, each) for each in children.executors)]


def _running(**counts: int) -> dict[str, Any]:
    return {"state": "Running", "executorManager": counts}


async def _write_status(client: ApiServerClient, cluster: FlameClusterView, status: dict[str, Any]) -> FlameClusterView:
    """Write the status of a FlameCluster that no operator looks after."""
    metadata = {
        "name": cluster.name,
        "namespace": cluster.namespace,
        "resourceVersion": cluster.metadata.resource_version,
    }
    status = {**status, "observedGeneration": cluster.metadata.generation}
    body = {"apiVersion": "flame.xflops.io/v1alpha1", "kind": "FlameCluster", "metadata": metadata, "status": status}
    return await client.replace_status(FLAME_CLUSTERS, cluster.namespace, cluster.name, body)
