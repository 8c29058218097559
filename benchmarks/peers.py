"""The same work, done in turns on one control plane: by an unordered loader, by this operator, and by a peer.

Each turn has a namespace of its own, because for some time after the deletion of a namespace's objects the API server takes
longer to create others there.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks.bench import Bench, Usage
from benchmarks.clusters import model_status
from benchmarks.cost import Comparison, Cost, cost_table, counted, kinds_table, requests_by_kind
from benchmarks.kuberay import RAY_CLUSTERS, KubeRay, ray_cluster, ray_runs, ray_spec
from benchmarks.objects import SMALL, Children, flame_cluster, spec
from benchmarks.waits import in_flight, until_pods, until_seen
from flamectl_operator.kube.client import EventType
from flamectl_operator.kube.resources import Resource
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS

#: Turns of each work; medians count.
TURNS = 3
#: A cluster that is there before anything is measured, so that nobody is measured while it starts.
FIRST = "first"


class Contender(ABC):
    """Somebody who does the work.

    Args:
        name: In the table.
        resource: The custom resource.
    """

    name: str
    resource: Resource[Any]

    @abstractmethod
    async def bring_up(self, bench: Bench, namespace: str, count: int) -> Cost:
        """Measure until `count` clusters of three run that are created at once."""

    @abstractmethod
    async def grow(self, bench: Bench, namespace: str, count: int) -> Cost:
        """Measure until one cluster that had no executors has `count`."""

    @asynccontextmanager
    async def measured(self, bench: Bench, pid: int) -> AsyncIterator[Callable[[float], Coroutine[Any, Any, Cost]]]:
        """Begin to measure, and yield a function that returns the cost until now, given the seconds that the work took."""
        sent = await _requests(bench)
        before = _usages(bench, pid)

        async def cost(seconds: float) -> Cost:
            after = _usages(bench, pid)
            cpu: dict[str, Any] = {who: after[who].cpu - usage.cpu for who, usage in before.items()}
            counts = counted(await _requests(bench) - sent, self.resource.plural)
            return replace(counts, seconds=seconds, **cpu, memory=after["operator"].rss)

        yield cost


@dataclass
class UnorderedLoader(Contender):
    """Sends all objects of all FlameClusters in no order, 64 at a time, and writes each status once.

    Args:
        status: The status that it writes.
    """

    status: dict[str, Any]
    name = "unordered loader"
    resource = FLAME_CLUSTERS

    async def bring_up(self, bench: Bench, namespace: str, count: int) -> Cost:
        """See `Contender`."""
        version = (await bench.client.list_page(FLAME_CLUSTERS, namespace, limit=1)).resource_version
        async with self.measured(bench, bench.loader.pid) as cost:
            begun = time.monotonic()
            async with asyncio.TaskGroup() as group:  # it also waits for objects that no status waits for
                group.create_task(bench.loader.follow(namespace, version, count, self.status, in_order=False))
                group.create_task(_until_all_run(bench, FLAME_CLUSTERS, namespace, count, flame_cluster, flame_runs))
            return await cost(time.monotonic() - begun)

    async def grow(self, bench: Bench, namespace: str, count: int) -> Cost:
        """See `Contender`."""
        cluster = await bench.create_cluster(flame_cluster(namespace, FIRST, count))
        for resource, manifest in Children.of(cluster, spec(count)).others:
            await bench.client.create(resource, namespace, manifest)
        await until_pods(bench.client, namespace, lambda _, ready: ready == 1)
        async with self.measured(bench, bench.loader.pid) as cost, asyncio.TaskGroup() as group:
            begun = time.monotonic()
            group.create_task(bench.loader.grow(namespace, FIRST, count))
            ended = await _until_first_runs(bench, FLAME_CLUSTERS, namespace, count, flame_runs)
            return await cost(ended - begun)


class _OperatorContender(Contender):
    """An operator that is a process of its own."""

    @abstractmethod
    async def started(self, bench: Bench, namespace: str, stack: AsyncExitStack) -> int:
        """Start the operator for one namespace, and return its process id. The stack ends it."""

    @abstractmethod
    def manifest(self, namespace: str, name: str, count: int) -> dict[str, Any]:
        """Return the manifest of a cluster."""

    @abstractmethod
    def resized(self, count: int) -> dict[str, Any]:
        """Return the merge patch that gives a cluster another size."""

    @abstractmethod
    def runs(self, status: dict[str, Any], count: int) -> bool:
        """Return whether a status says that the cluster runs with all that it should have."""

    async def bring_up(self, bench: Bench, namespace: str, count: int) -> Cost:
        """See `Contender`."""
        async with self._ready(bench, namespace) as cost:
            return await cost(await _until_all_run(bench, self.resource, namespace, count, self.manifest, self.runs))

    async def grow(self, bench: Bench, namespace: str, count: int) -> Cost:
        """See `Contender`."""
        async with self._ready(bench, namespace) as cost:
            begun = time.monotonic()
            await bench.client.merge_patch(self.resource, namespace, FIRST, self.resized(count))
            ended = await _until_first_runs(bench, self.resource, namespace, count, self.runs)
            return await cost(ended - begun)

    @asynccontextmanager
    async def _ready(self, bench: Bench, namespace: str) -> AsyncIterator[Callable[[float], Coroutine[Any, Any, Cost]]]:
        """Start the operator, and begin to measure when a first cluster without executors runs."""
        async with AsyncExitStack() as stack:
            pid = await self.started(bench, namespace, stack)
            await bench.client.create(self.resource, namespace, self.manifest(namespace, FIRST, 0))
            await _until_first_runs(bench, self.resource, namespace, 0, self.runs)
            yield await stack.enter_async_context(self.measured(bench, pid))


class ThisOperator(_OperatorContender):
    """This operator."""

    name = "this operator"
    resource = FLAME_CLUSTERS

    async def started(self, bench: Bench, namespace: str, stack: AsyncExitStack) -> int:
        """See `_OperatorContender`."""
        operator = await stack.enter_async_context(bench.operator(namespace))
        return operator.process.process.pid

    def manifest(self, namespace: str, name: str, count: int) -> dict[str, Any]:
        """See `_OperatorContender`."""
        return flame_cluster(namespace, name, count)

    def resized(self, count: int) -> dict[str, Any]:
        """See `_OperatorContender`."""
        return {"spec": {"executorManager": {"replicas": count}}}

    def runs(self, status: dict[str, Any], count: int) -> bool:
        """See `_OperatorContender`."""
        return flame_runs(status, count)


@dataclass
class KubeRayOperator(_OperatorContender):
    """KubeRay's operator.

    Args:
        kuberay: Where it is.
    """

    kuberay: KubeRay
    name = "KubeRay"
    resource = RAY_CLUSTERS

    async def started(self, bench: Bench, namespace: str, stack: AsyncExitStack) -> int:
        """See `_OperatorContender`."""
        kubeconfig = await asyncio.to_thread(self.kuberay.allow_in, bench.plane, namespace)
        return stack.enter_context(self.kuberay.running(kubeconfig, namespace, bench.folder / f"{namespace}.log"))

    def manifest(self, namespace: str, name: str, count: int) -> dict[str, Any]:
        """See `_OperatorContender`."""
        return ray_cluster(namespace, name, count)

    def resized(self, count: int) -> dict[str, Any]:
        """See `_OperatorContender`."""
        return {"spec": {"workerGroupSpecs": ray_spec(count)["workerGroupSpecs"]}}

    def runs(self, status: dict[str, Any], count: int) -> bool:
        """See `_OperatorContender`."""
        return ray_runs(status, count)


async def measure(bench: Bench) -> list[Comparison]:
    """Measure 200 clusters of three at once, and one cluster that grows to 500 and to 2,000."""
    contenders: list[Contender] = [UnorderedLoader(await model_status(bench)), ThisOperator()]
    if bench.kuberay is not None:
        await asyncio.to_thread(bench.kuberay.install, bench.plane)
        contenders.append(KubeRayOperator(bench.kuberay))
    many, few, large = bench.size(200), bench.size(500), bench.size(2000)
    return [
        await _compared(bench, f"{many} clusters of {SMALL} at once", contenders, _bring_up, many),
        await _compared(bench, f"one cluster, 0 -> {few:,}", contenders, _grow, few),
        await _compared(bench, f"one cluster, 0 -> {large:,}", contenders, _grow, large),
    ]


async def _compared(
    bench: Bench,
    work: str,
    contenders: list[Contender],
    doing: Callable[[Contender, Bench, str, int], Coroutine[Any, Any, Cost]],
    count: int,
) -> Comparison:
    """Let everybody do the work, in turns."""
    comparison = Comparison(work, {each.name: [] for each in contenders})
    for turn in range(TURNS):
        for contender in contenders:
            namespace = await asyncio.to_thread(bench.namespace)
            cost = await doing(contender, bench, namespace, count)
            comparison.costs[contender.name].append(cost)
            await bench.drop(namespace)
            bench.report(f"  {work}, turn {turn + 1}, {contender.name}: {cost.seconds:.2f} s")
    for line in (*cost_table([comparison]).splitlines(), *kinds_table([comparison]).splitlines()):
        bench.report(line)
    return comparison


async def _bring_up(contender: Contender, bench: Bench, namespace: str, count: int) -> Cost:
    return await contender.bring_up(bench, namespace, count)


async def _grow(contender: Contender, bench: Bench, namespace: str, count: int) -> Cost:
    return await contender.grow(bench, namespace, count)


async def _until_all_run(
    bench: Bench,
    resource: Resource[Any],
    namespace: str,
    count: int,
    manifest: Callable[[str, str, int], dict[str, Any]],
    runs: Callable[[dict[str, Any], int], bool],
) -> float:
    """Create small clusters at once, and return the seconds until all of them say that they run."""
    begun = time.monotonic()
    running: set[str] = set()

    def seen(kind: EventType, cluster: Any) -> bool:
        if kind is not EventType.DELETED and cluster.name != FIRST and runs(cluster.status, SMALL):
            running.add(cluster.name)
        return len(running) == count

    waiting = asyncio.create_task(until_seen(bench.client, resource, namespace, seen))
    manifests = [manifest(namespace, f"bench-{number}", SMALL) for number in range(count)]
    await in_flight(partial(bench.client.create, resource, namespace, each) for each in manifests)
    return await waiting - begun


async def _until_first_runs(
    bench: Bench,
    resource: Resource[Any],
    namespace: str,
    count: int,
    runs: Callable[[dict[str, Any], int], bool],
) -> float:
    """Wait until the first cluster says that it runs with so many executors, and return when it did."""

    def seen(_: EventType, cluster: Any) -> bool:
        current = cluster.status.get("observedGeneration") == cluster.metadata.generation
        return current and cluster.name == FIRST and runs(cluster.status, count)

    return await until_seen(bench.client, resource, namespace, seen)


def flame_runs(status: dict[str, Any], count: int) -> bool:
    """Return whether a FlameCluster says that it runs, with so many executors."""
    return status.get("state") == "Running" and status["executorManager"].get("ready", 0) == count


async def _requests(bench: Bench) -> Counter[str]:
    """Return the requests that the API server has answered so far."""
    text = await asyncio.to_thread(bench.plane.kubectl, "get", "--raw", "/metrics")
    return requests_by_kind(text.stdout)


def _usages(bench: Bench, pid: int) -> dict[str, Usage]:
    """Return what the process that works and the control plane have used, by the names of their fields in a cost."""
    pids = {
        "operator": pid,
        "api_server": bench.plane.pid("kube-apiserver"),
        "controller_manager": bench.plane.pid("kube-controller-manager"),
        "etcd": bench.plane.pid("etcd"),
    }
    return {who: Usage.of(each) for who, each in pids.items() if each is not None}
