"""Many FlameClusters at once, and a small one beside a large one."""

import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.objects import SMALL, flame_cluster
from benchmarks.report import Row
from benchmarks.waits import in_flight, until_clusters, until_pods
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS

#: Rounds with many FlameClusters, each with both loaders and with the operator; the round with the median ratio counts.
ROUNDS = 5
#: How often a small FlameCluster comes up, alone and beside a large one.
TURNS = 7


async def measure_many(bench: Bench) -> list[Row]:
    """Measure how long 200 FlameClusters take that are created at once.

    A second loader also writes a status before it creates the children, as every operator must that records ids before it uses
    them. It shows how much of the difference is the price of that record.
    """
    count = bench.size(200)
    rounds: list[tuple[float, float, float, str]] = []
    status = await model_status(bench)
    for turn in range(ROUNDS):
        bare = await _bare(bench, count, status)
        ours, spent = await _operator(bench, count)
        recording = await _bare(bench, count, status, first={**status, "state": "Pending"})
        rounds.append((bare, recording, ours, spent))
        bench.report(
            f"  round {turn + 1}: {ours / bare:.2f} x, against a loader that records first {ours / recording:.2f} x; "
            f"bare loader {bare:.2f} s, one that records first {recording:.2f} s, operator {ours:.2f} s; each {spent}"
        )
    name = f"{count} FlameClusters of {SMALL} executors at once, until all say Running"
    return [
        _median(name, [(ours / bare, f"bare loader {bare:.2f} s", ours, spent) for bare, _, ours, spent in rounds]),
        _median(
            "the same, by the time of a loader that records a status first",
            [(ours / recording, f"this loader {recording:.2f} s", ours, spent) for _, recording, ours, spent in rounds],
        ),
    ]


def _median(name: str, rounds: list[tuple[float, str, float, str]]) -> Row:
    """Return the row of the round with the median ratio.

    Args:
        name: The name of the row.
        rounds: The ratio, the time of the loader in words, the time of the operator, and what each FlameCluster cost.
    """
    ratio, loader, ours, spent = statistics.median_low(rounds)
    return Row(name, ratio, 1.10, "x", f"{loader}, operator {ours:.2f} s; each {spent}")


async def model_status(bench: Bench) -> dict[str, Any]:
    """Return the status that the operator writes for a small FlameCluster that runs, so that the loader writes as much."""
    namespace = await asyncio.to_thread(bench.namespace)
    async with bench.operator(namespace):
        await _small(bench, namespace, "model")
    status = (await bench.client.get(FLAME_CLUSTERS, namespace, "model")).status
    await bench.drop(namespace)
    return status


async def _bare(bench: Bench, count: int, status: dict[str, Any], first: dict[str, Any] | None = None) -> float:
    namespace = await asyncio.to_thread(bench.namespace)
    version = (await bench.client.list_page(FLAME_CLUSTERS, namespace, limit=1)).resource_version
    async with asyncio.TaskGroup() as group:  # an error of the loader ends the wait
        group.create_task(bench.loader.follow(namespace, version, count, status, first))
        taken = group.create_task(_until_all_run(bench, namespace, count))
    await bench.drop(namespace)
    return taken.result()


async def _operator(bench: Bench, count: int) -> tuple[float, str]:
    """Return the seconds that all FlameClusters took, and what each of them cost the operator until then."""
    namespace = await asyncio.to_thread(bench.namespace)
    async with bench.operator(namespace) as operator:
        before, cpu, passes = operator.requests(), operator.usage.cpu, operator.passes()
        taken = await _until_all_run(bench, namespace, count)
        sent = operator.requests() - before
        cpu, passes = operator.usage.cpu - cpu, operator.passes() - passes
    await bench.drop(namespace)
    each = f"{sent.total() / count:.1f} requests, {sent['PUT'] / count:.1f} of them writes of the status"
    return taken, f"{each}, {passes / count:.1f} passes, {1000 * cpu / count:.0f} ms of CPU"


async def _until_all_run(bench: Bench, namespace: str, count: int) -> float:
    """Create small FlameClusters, and return the seconds until all of them say that they run."""
    begun = time.monotonic()
    running = asyncio.create_task(until_clusters(bench.client, namespace, partial(_all_run, count)))
    manifests = [flame_cluster(namespace, f"bench-{number}", SMALL) for number in range(count)]
    await in_flight(partial(bench.create_cluster, each) for each in manifests)
    return await running - begun


def _all_run(count: int, statuses: dict[str, dict[str, Any]]) -> bool:
    return len(statuses) == count and all(map(_runs, statuses.values()))


def _runs(status: dict[str, Any]) -> bool:
    """Return whether a small FlameCluster says that it runs, with all its executors."""
    return status.get("state") == "Running" and status["executorManager"].get("ready") == SMALL


async def measure_fairness(bench: Bench) -> list[Row]:
    """Measure how long a small FlameCluster takes to come up while a large one does, under one operator and under two.

    A scale-up of thousands slows down the API server and the scheduler for everybody. So the comparison is with a small
    FlameCluster that has an operator of its own, while another operator works on the large one.
    """
    large = bench.size(3000)
    alone, apart = await _beside(bench, large, together=False)
    _, together = await _beside(bench, large, together=True)
    detail = (
        f"alone {alone:.2f} s, beside {large} executors of another operator {apart:.2f} s, of its own {together:.2f} s"
    )
    bench.report(f"  {detail}")
    name = f"a FlameCluster of {SMALL} comes up beside one of {large}, by the time with an operator of its own"
    return [Row(name, together / apart, 1.20, "x", f"{detail}; medians of {TURNS}")]


async def _beside(bench: Bench, large: int, *, together: bool) -> tuple[float, float]:
    """Return the seconds that small FlameClusters take, alone and while a large one comes up."""
    namespace = await asyncio.to_thread(bench.namespace)
    elsewhere = namespace if together else await asyncio.to_thread(bench.namespace)
    async with AsyncExitStack() as stack:
        for each in {namespace, elsewhere}:
            await stack.enter_async_context(bench.operator(each))
        alone = [await _small(bench, namespace, f"alone-{turn}") for turn in range(TURNS)]
        await bench.create_cluster(flame_cluster(elsewhere, "large", large))
        before = TURNS * (SMALL + 1) if together else 0
        await until_pods(bench.client, elsewhere, lambda there, _: there > before + large // 20)
        beside = [await _small(bench, namespace, f"beside-{turn}") for turn in range(TURNS)]
    for each in {namespace, elsewhere}:
        await bench.drop(each)
    return statistics.median(alone), statistics.median(beside)


async def _small(bench: Bench, namespace: str, name: str) -> float:
    """Return the seconds that a small FlameCluster takes to come up."""
    begun = time.monotonic()
    await bench.create_cluster(flame_cluster(namespace, name, SMALL))
    return await until_clusters(bench.client, namespace, partial(_one_runs, name)) - begun


def _one_runs(name: str, statuses: dict[str, dict[str, Any]]) -> bool:
    return _runs(statuses.get(name, {}))
