"""One FlameCluster that grows, changes and shrinks, beside a bare loader that sends the same requests."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.bench import in_flight
from benchmarks.objects import IMAGE, Children, flame_cluster, spec
from benchmarks.report import Row
from flamectl_operator.kube.resources import PODS
from flamectl_operator.reconcile.stores import FLAME_CLUSTERS

if TYPE_CHECKING:
    from benchmarks.bench import Bench
    from benchmarks.report import Curve
    from flamectl_operator.observed.flame_cluster import FlameClusterView

NAME = "bench"
#: Rounds of the smaller sizes; the median counts.
ROUNDS = 3
#: Waves in which a rolling change replaces all executors.
WAVES = 4
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

    def __str__(self) -> str:
        """Return the seconds."""
        return f"{self.up:.2f}, {self.change:.2f}, {self.down:.2f} s"


async def measure(bench: Bench) -> list[Row]:
    """Measure growing to 500 and to 3,000, a rolling change of 500, and shrinking from 500."""
    few, many = bench.size(500), bench.size(3000)
    bare: list[Measured] = []
    ours: list[Measured] = []
    for turn in range(ROUNDS):
        bare.append(await _bare(bench, few))
        ours.append(await _operator(bench, few))
        bench.report(f"  round {turn + 1} of up, change, down: bare loader {bare[-1]}; operator {ours[-1]}")
    bare_large, large = await _bare(bench, many, grow_only=True), await _operator(bench, many, grow_only=True)
    bench.report(f"  0 -> {many}: bare loader {bare_large.up:.2f} s; operator {large.up:.2f} s")
    sent = max((each.requests for each in ours), key=Counter.total)
    return [
        _compared(f"0 -> {few} executors, until the status says all ready", bare, ours, "up", 1.10),
        _compared(f"0 -> {many} executors, until the status says all ready", [bare_large], [large], "up", 1.10),
        _compared(f"{few} -> 0 executors, until the Pods are gone", bare, ours, "down", 1.15),
        _compared(f"rolling change of {few} executors, 25 % unavailable", bare, ours, "change", 1.30),
        Row(f"requests of 0 -> {few}", sent.total(), round(1.03 * few), "requests", _by_method(sent)),
        Row(f"status writes of 0 -> {few}", sent["PUT"], 10, "writes"),
    ]


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
    """Send the requests of the operator, and nothing else. No operator works in this namespace."""
    namespace, measured = await asyncio.to_thread(bench.namespace), Measured()
    cluster = await bench.create_cluster(flame_cluster(namespace, NAME, count))
    children = Children.of(cluster, spec(count))
    for resource, manifest in children.others:
        await bench.client.create(resource, namespace, manifest)
    await bench.until_pods(namespace, lambda _, ready: ready == 1)
    pods: dict[str, str] = {}
    begun = time.monotonic()
    all_ready = asyncio.create_task(
        bench.until_pods(namespace, lambda _, ready: ready == count + 1, curve=measured.curve)
    )
    await in_flight(partial(_create, bench, pods, each) for each in children.executors)
    await all_ready
    await write_status(bench, cluster, {"state": "Running"})
    measured.up = time.monotonic() - begun
    measured.curve = _since(measured.curve, begun)
    if not grow_only:
        measured.change = await _bare_change(bench, cluster, count, pods)
        begun = time.monotonic()
        gone = asyncio.create_task(bench.until_pods(namespace, lambda there, _: there == 1))
        await in_flight(partial(_delete, bench, namespace, name, uid) for name, uid in pods.items())
        measured.down = await gone - begun
    await bench.drop(namespace)
    return measured


async def _bare_change(bench: Bench, cluster: FlameClusterView, count: int, pods: dict[str, str]) -> float:
    """Replace all executors in waves, each of which waits until all executors are ready."""
    namespace = cluster.namespace
    children = Children.of(cluster, spec(count, OTHER_IMAGE), first_id=count)
    old, wave = dict(pods), -(-count // WAVES)
    pods.clear()
    begun = time.monotonic()
    for first in range(0, count, wave):
        leaving = list(old.items())[first : first + wave]
        await in_flight(partial(_delete, bench, namespace, name, uid) for name, uid in leaving)
        await in_flight(partial(_create, bench, pods, each) for each in children.executors[first : first + wave])
        await bench.until_pods(namespace, lambda there, ready: there == ready == count + 1)
    return time.monotonic() - begun


async def _create(bench: Bench, pods: dict[str, str], manifest: dict[str, Any]) -> None:
    made = await bench.client.create(PODS, manifest["metadata"]["namespace"], manifest, strict=True)
    pods[made.name] = made.uid


async def _delete(bench: Bench, namespace: str, name: str, uid: str) -> None:
    await bench.client.delete(PODS, namespace, name, uid=uid)


async def write_status(bench: Bench, cluster: FlameClusterView, status: dict[str, Any]) -> None:
    """Write the status of a FlameCluster that no operator looks after."""
    metadata = {
        "name": cluster.name,
        "namespace": cluster.namespace,
        "resourceVersion": cluster.metadata.resource_version,
    }
    body = {"apiVersion": "flame.xflops.io/v1alpha1", "kind": "FlameCluster", "metadata": metadata, "status": status}
    await bench.client.replace_status(FLAME_CLUSTERS, cluster.namespace, cluster.name, body)


async def _operator(bench: Bench, count: int, *, grow_only: bool = False) -> Measured:
    """Let an operator do the same."""
    namespace, measured = await asyncio.to_thread(bench.namespace), Measured()
    async with bench.operator(namespace) as operator:
        await bench.create_cluster(flame_cluster(namespace, NAME, 0))
        await bench.until_clusters(namespace, lambda found: found.get(NAME, {}).get("state") == "Running")
        before = operator.requests()
        watching = asyncio.create_task(
            bench.until_pods(namespace, lambda _, ready: ready == count + 1, curve=measured.curve)
        )
        begun = time.monotonic()
        await bench.patch_cluster(namespace, NAME, {"spec": {"executorManager": {"replicas": count}}})
        measured.up = await bench.until_clusters(namespace, partial(all_say, count, ("ready",))) - begun
        await watching
        measured.curve = _since(measured.curve, begun)
        measured.requests = operator.requests() - before
        if not grow_only:
            begun = time.monotonic()
            await bench.patch_cluster(namespace, NAME, {"spec": {"executorManager": {"image": OTHER_IMAGE}}})
            measured.change = (
                await bench.until_clusters(namespace, partial(all_say, count, ("ready", "updated"))) - begun
            )
            begun = time.monotonic()
            await bench.patch_cluster(namespace, NAME, {"spec": {"executorManager": {"replicas": 0}}})
            measured.down = await bench.until_pods(namespace, lambda there, _: there == 1) - begun
    await bench.drop(namespace)
    return measured


def all_say(count: int, fields: tuple[str, ...], statuses: dict[str, dict[str, Any]]) -> bool:
    """Return whether the status says that all executors are ready, and the same of other counts."""
    status = statuses.get(NAME, {})
    counts = status.get("executorManager", {})
    return status.get("state") == "Running" and all(counts.get(each) == count for each in fields)


def _since(curve: Curve, begun: float) -> Curve:
    return [(at - begun, number) for at, number in curve]
