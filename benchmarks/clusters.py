"""Many FlameClusters at once, and a small one beside a large one."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.bench import in_flight
from benchmarks.objects import Children, flame_cluster, spec
from benchmarks.report import Row
from benchmarks.scaling import write_status
from flamectl_operator.kube.resources import PODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.bench import Bench

#: Executors of a small FlameCluster.
SMALL = 3
#: How often a small FlameCluster comes up, alone and beside a large one.
TURNS = 5


async def measure_many(bench: Bench) -> list[Row]:
    """Measure how long 200 FlameClusters take that are created at once."""
    count = bench.size(200)
    bare = await _bare(bench, count)
    ours, spent = await _operator(bench, count)
    bench.report(f"  {count} FlameClusters: bare loader {bare:.2f} s; operator {ours:.2f} s; each {spent}")
    detail = f"bare loader {bare:.2f} s, operator {ours:.2f} s; each {spent}"
    return [
        Row(
            f"{count} FlameClusters of {SMALL} executors at once, until all say Running", ours / bare, 1.10, "x", detail
        )
    ]


async def _bare(bench: Bench, count: int) -> float:
    namespace = await asyncio.to_thread(bench.namespace)
    begun = time.monotonic()
    all_ready = asyncio.create_task(bench.until_pods(namespace, lambda _, ready: ready == count * (SMALL + 1)))
    await in_flight(partial(_bare_cluster, bench, namespace, f"bench-{number}") for number in range(count))
    taken = await all_ready - begun
    await bench.drop(namespace)
    return taken


async def _bare_cluster(bench: Bench, namespace: str, name: str) -> None:
    """Create a FlameCluster and its children, and write its status once."""
    cluster = await bench.create_cluster(flame_cluster(namespace, name, SMALL))
    children = Children.of(cluster, spec(SMALL))
    for resource, manifest in (*children.others, *((PODS, each) for each in children.executors)):
        await bench.client.create(resource, namespace, manifest, strict=True)
    await write_status(bench, cluster, {"state": "Running"})


async def _operator(bench: Bench, count: int) -> tuple[float, str]:
    """Return the seconds that all FlameClusters took, and what each of them cost the operator until then."""
    namespace = await asyncio.to_thread(bench.namespace)
    async with bench.operator(namespace) as operator:
        before, cpu, passes = operator.requests(), operator.usage.cpu, operator.passes()
        begun = time.monotonic()
        running = asyncio.create_task(bench.until_clusters(namespace, partial(_all_run, count)))
        manifests = [flame_cluster(namespace, f"bench-{number}", SMALL) for number in range(count)]
        await in_flight(partial(bench.create_cluster, each) for each in manifests)
        taken = await running - begun
        sent = operator.requests() - before
        cpu, passes = operator.usage.cpu - cpu, operator.passes() - passes
    await bench.drop(namespace)
    each = f"{sent.total() / count:.1f} requests, {sent['PUT'] / count:.1f} of them writes of the status"
    return taken, f"{each}, {passes / count:.1f} passes, {1000 * cpu / count:.0f} ms of CPU"


def _all_run(count: int, statuses: dict[str, dict[str, Any]]) -> bool:
    return len(statuses) == count and all(map(_runs, statuses.values()))


def _runs(status: dict[str, Any]) -> bool:
    """Return whether a small FlameCluster says that it runs, with all its executors."""
    return status.get("state") == "Running" and status["executorManager"].get("ready") == SMALL


async def measure_fairness(bench: Bench) -> list[Row]:
    """Measure how long a small FlameCluster takes to come up, alone and while many Pods are created beside it.

    All that is created beside it slows down the API server and the scheduler. So the comparison is with a bare loader that
    creates the Pods of a large FlameCluster, while the operator works on the small one alone.
    """
    large = bench.size(3000)
    alone, loaded = await _beside(bench, large, by_loader=True)
    _, beside = await _beside(bench, large, by_loader=False)
    detail = (
        f"alone {alone:.2f} s, beside {large} executors of a bare loader {loaded:.2f} s, of the operator {beside:.2f} s"
    )
    bench.report(f"  {detail}")
    name = f"a FlameCluster of {SMALL} comes up beside one of {large}"
    return [Row(name, beside / loaded, 1.20, "x", f"{detail}; medians of {TURNS}")]


async def _beside(bench: Bench, large: int, *, by_loader: bool) -> tuple[float, float]:
    """Return the seconds that small FlameClusters take, alone and while a bare loader or the operator creates many Pods."""
    namespace = await asyncio.to_thread(bench.namespace)
    elsewhere = await asyncio.to_thread(bench.namespace) if by_loader else namespace
    async with bench.operator(namespace), AsyncExitStack() as stack:
        alone = [await _small(bench, namespace, f"alone-{turn}") for turn in range(TURNS)]
        await bench.create_cluster(flame_cluster(elsewhere, "large", large))
        if by_loader:
            await stack.enter_async_context(_loader(bench, elsewhere, "large", large))
        before = 0 if by_loader else TURNS * (SMALL + 1)
        await bench.until_pods(elsewhere, lambda there, _: there > before + large // 20)
        beside = [await _small(bench, namespace, f"beside-{turn}") for turn in range(TURNS)]
    for each in {namespace, elsewhere}:
        await bench.drop(each)
    return statistics.median(alone), statistics.median(beside)


@asynccontextmanager
async def _loader(bench: Bench, namespace: str, name: str, replicas: int) -> AsyncIterator[None]:
    """Run a bare loader as a process of its own."""
    command = ["-m", "benchmarks.loader", str(bench.plane.kubeconfig), namespace, name, str(replicas)]
    process = await asyncio.create_subprocess_exec(sys.executable, *command)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it has done all
            process.terminate()
        await process.wait()


async def _small(bench: Bench, namespace: str, name: str) -> float:
    """Return the seconds that a small FlameCluster takes to come up."""
    begun = time.monotonic()
    await bench.create_cluster(flame_cluster(namespace, name, SMALL))
    return await bench.until_clusters(namespace, partial(_one_runs, name)) - begun


def _one_runs(name: str, statuses: dict[str, dict[str, Any]]) -> bool:
    return _runs(statuses.get(name, {}))
