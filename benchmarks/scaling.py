"""One FlameCluster that grows, changes and shrinks, beside a bare loader that sends the same requests."""

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.objects import IMAGE, Children, flame_cluster, spec
from benchmarks.report import Curve, Row
from benchmarks.waits import until_clusters, until_pods

NAME = "bench"
#: Rounds of each size; the median counts.
ROUNDS = 5
#: Another image, so that all executors are stale.
OTHER_IMAGE = f"{IMAGE}-other"


@dataclass
class Measured:
    """Seconds that each step took, how many executors were ready when, and the requests of growing by HTTP method."""

    up: float = 0.0
    change: float = 0.0
    down: float = 0.0
    curve: Curve = field(default_factory=list)
    requests: Counter[str] = field(default_factory=Counter)

    @asynccontextmanager
    async def growing(self, bench: Bench, namespace: str, count: int) -> AsyncIterator[None]:
        """Measure from here until the status says that all executors are ready."""
        curve: Curve = []
        watching = asyncio.create_task(
            until_pods(bench.client, namespace, lambda _, ready: ready == count + 1, curve=curve)
        )
        begun = time.monotonic()
        yield
        self.up = await _until_all_say(bench, namespace, count, "ready") - begun
        await watching
        self.curve = [(at - begun, number) for at, number in curve]

    def __str__(self) -> str:
        """Return the seconds of the steps that were measured."""
        steps = {"up": self.up, "change": self.change, "down": self.down}
        return ", ".join(f"{step} {seconds:.2f} s" for step, seconds in steps.items() if seconds)


async def measure(bench: Bench) -> list[Row]:
    """Measure growing to 500 and to 3,000, a rolling change of 500, and shrinking from 500."""
    few, many = bench.size(500), bench.size(3000)
    bare, ours = await _rounds(bench, few)
    bare_large, ours_large = await _rounds(bench, many, grow_only=True)
    sent = max((each.requests for each in ours), key=Counter.total)
    return [
        _compared(f"0 -> {few} executors, until the status says all ready", bare, ours, "up", 1.10),
        _compared(f"0 -> {many} executors, until the status says all ready", bare_large, ours_large, "up", 1.10),
        _compared(f"{few} -> 0 executors, until the Pods are gone", bare, ours, "down", 1.15),
        _compared(f"rolling change of {few} executors, 25 % unavailable", bare, ours, "change", 1.30),
        Row(f"requests of 0 -> {few}", sent.total(), round(1.03 * few), "requests", _by_method(sent)),
        Row(f"status writes of 0 -> {few}", sent["PUT"], 10, "writes"),
    ]


async def _rounds(bench: Bench, count: int, *, grow_only: bool = False) -> tuple[list[Measured], list[Measured]]:
    """Measure the bare loader and the operator in turns."""
    bare: list[Measured] = []
    ours: list[Measured] = []
    for turn in range(ROUNDS):
        bare.append(await _bare(bench, count, grow_only=grow_only))
        ours.append(await _operator(bench, count, grow_only=grow_only))
        bench.report(f"  0 -> {count}, round {turn + 1}: bare loader {bare[-1]}; operator {ours[-1]}")
    return bare, ours


def _compared(name: str, bare: list[Measured], ours: list[Measured], step: str, goal: float) -> Row:
    """Return the row of a step: the ratio of the medians."""
    theirs, mine = (statistics.median(getattr(each, step) for each in some) for some in (bare, ours))
    curves = {"bare loader": bare[-1].curve, "operator": ours[-1].curve} if step == "up" else {}
    detail = f"bare loader {theirs:.2f} s, operator {mine:.2f} s"
    chart = f"up-{round(ours[-1].curve[-1][1]) - 1}" if curves else ""
    return Row(name, mine / theirs, goal, "x", detail, curves, chart, ("seconds", "ready"))


def _by_method(sent: Counter[str]) -> str:
    return ", ".join(f"{method} {count}" for method, count in sorted(sent.items()))


async def _bare(bench: Bench, count: int, *, grow_only: bool = False) -> Measured:
    """Let the bare loader send the requests of the operator. No operator works in this namespace."""
    namespace, measured = await asyncio.to_thread(bench.namespace), Measured()
    cluster = await bench.create_cluster(flame_cluster(namespace, NAME, count))
    for resource, manifest in Children.of(cluster, spec(count)).others:
        await bench.client.create(resource, namespace, manifest)
    await until_pods(bench.client, namespace, lambda _, ready: ready == 1)
    async with measured.growing(bench, namespace, count):
        growing = asyncio.create_task(bench.loader.grow(namespace, NAME, count))
    pods = await growing
    if not grow_only:
        begun = time.monotonic()
        changed = asyncio.create_task(bench.loader.change(namespace, NAME, OTHER_IMAGE, pods))
        measured.change = await _until_all_say(bench, namespace, count, "ready", "updated") - begun
        begun = time.monotonic()
        gone = asyncio.create_task(bench.loader.delete(namespace, await changed))
        measured.down = await until_pods(bench.client, namespace, lambda there, _: there == 1) - begun
        await gone
    await bench.drop(namespace)
    return measured


async def _operator(bench: Bench, count: int, *, grow_only: bool = False) -> Measured:
    """Let an operator do the same."""
    namespace, measured = await asyncio.to_thread(bench.namespace), Measured()
    async with bench.operator(namespace) as operator:
        await bench.create_cluster(flame_cluster(namespace, NAME, 0))
        await until_clusters(bench.client, namespace, lambda found: found.get(NAME, {}).get("state") == "Running")
        before = operator.requests()
        async with measured.growing(bench, namespace, count):
            await bench.patch_cluster(namespace, NAME, {"spec": {"executorManager": {"replicas": count}}})
        measured.requests = operator.requests() - before
        if not grow_only:
            begun = time.monotonic()
            await bench.patch_cluster(namespace, NAME, {"spec": {"executorManager": {"image": OTHER_IMAGE}}})
            measured.change = await _until_all_say(bench, namespace, count, "ready", "updated") - begun
            begun = time.monotonic()
            await bench.patch_cluster(namespace, NAME, {"spec": {"executorManager": {"replicas": 0}}})
            measured.down = await until_pods(bench.client, namespace, lambda there, _: there == 1) - begun
    await bench.drop(namespace)
    return measured


async def _until_all_say(bench: Bench, namespace: str, count: int, *fields: str) -> float:
    return await until_clusters(bench.client, namespace, partial(all_say, count, fields))


def all_say(count: int, fields: tuple[str, ...], statuses: dict[str, dict[str, Any]]) -> bool:
    """Return whether the status says that all executors are ready, and the same of other counts."""
    status = statuses.get(NAME, {})
    counts = status.get("executorManager", {})
    return status.get("state") == "Running" and all(counts.get(each) == count for each in fields)
