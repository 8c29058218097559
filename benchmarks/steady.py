"""A thousand FlameClusters at rest: a restart, edits while other Pods change, and what the process takes."""

import asyncio
import time
from collections import Counter
from functools import partial
from typing import Any

from benchmarks.bench import Bench, Operator, Usage
from benchmarks.objects import SMALL, flame_cluster
from benchmarks.report import Row
from benchmarks.waits import in_flight, until_pods
from flamectl_operator.kube.client import EventType
from flamectl_operator.kube.resources import PODS
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS

#: FlameClusters of four Pods each.
CLUSTERS = 1000
#: Edits and changes of other Pods a second, and for how long.
EDITS, CHANGES, SECONDS = 20, 100, 20
#: Other Pods, which the operator does not watch.
OTHERS = 100
#: Seconds over which CPU at rest is measured.
REST = 60.0
#: HTTP methods of writes.
_WRITES = ("POST", "PUT", "PATCH", "DELETE")


async def measure(bench: Bench) -> list[Row]:
    """Measure memory, a restart, CPU at rest, and edits under mixed load."""
    count = bench.size(CLUSTERS)
    namespace = await asyncio.to_thread(bench.namespace)
    async with bench.operator(namespace) as operator:
        started = operator.usage.rss
        bench.report(f"  {started:.0f} MiB at the start; {count} FlameClusters come up")
        manifests = [flame_cluster(namespace, f"bench-{number}", SMALL) for number in range(count)]
        await in_flight(partial(bench.create_cluster, each) for each in manifests)
        await until_pods(bench.client, namespace, lambda _, ready: ready == count * (SMALL + 1))
        await _until_at_rest(operator)
        grown = operator.usage.rss
    rows = [
        Row("memory at the start", started, 75.0, "MiB", f"{grown:.0f} MiB after {count} FlameClusters have come up"),
    ]
    begun = time.monotonic()
    async with bench.operator(namespace) as operator:
        rows.append(await _restart(bench, operator, begun, count))
        rows.append(await _rest(bench, operator, count))
        rows.append(await _mixed(bench, operator, namespace, count))
    await bench.drop(namespace)
    return rows


async def _until_at_rest(operator: Operator) -> None:
    """Wait until the operator has made no pass for three seconds."""
    passes = -1
    while passes != (passes := operator.passes()):  # noqa: ASYNC110 - another process counts
        await asyncio.sleep(3)


async def _restart(bench: Bench, operator: Operator, begun: float, count: int) -> Row:
    """Measure from the start of the process until it has looked at every FlameCluster."""
    async with asyncio.timeout(300):
        while operator.passes() < count:  # noqa: ASYNC110 - another process counts
            await asyncio.sleep(0.02)
    taken = time.monotonic() - begun
    await _until_at_rest(operator)
    written = _written(operator.requests())
    bench.report(f"  restart: {taken:.2f} s, {written} writes, {operator.usage.rss:.0f} MiB")
    detail = f"{written} writes; with {count} FlameClusters and {count * (SMALL + 1)} Pods {operator.usage.rss:.0f} MiB"
    return Row(f"restart with {count} FlameClusters, until each was reconciled", taken, 5.0, "s", detail)


async def _rest(bench: Bench, operator: Operator, count: int) -> Row:
    """Measure the CPU that the process takes while nothing happens."""
    before, requests = operator.usage, operator.requests()
    await asyncio.sleep(REST)
    after = Usage.of(operator.process.process.pid)
    share = 100 * (after.cpu - before.cpu) / REST
    bench.report(f"  at rest: {share:.2f} % of a core")
    written = _written(operator.requests() - requests)
    return Row(
        f"CPU at rest, {count} FlameClusters", share, 0.1, "%", f"of a core, over {REST:.0f} s; {written} writes"
    )


async def _mixed(bench: Bench, operator: Operator, namespace: str, count: int) -> Row:
    """Measure from the answer to an edit until the first write of the operator that speaks of it."""
    elsewhere = await asyncio.to_thread(bench.namespace)
    names = [f"other-{number}" for number in range(OTHERS)]
    await in_flight(partial(bench.client.create, PODS, elsewhere, _other_pod(elsewhere, name)) for name in names)
    # Otherwise the scheduler and the kubelets would take the API server's time while they start.
    await until_pods(bench.client, elsewhere, lambda _, ready: ready == OTHERS, selector="")
    edited: dict[tuple[str, int], float] = {}
    answered: dict[tuple[str, int], float] = {}
    page = await bench.client.list_page(FLAME_CLUSTERS, namespace, limit=1)
    watching = asyncio.create_task(_watch_answers(bench, namespace, page.resource_version, answered))
    editing = asyncio.create_task(
        _at_rate(EDITS, SECONDS, lambda number: _edit(bench, namespace, f"bench-{number % count}", edited))
    )
    await _at_rate(CHANGES, SECONDS, lambda number: _touch(bench, elsewhere, names[number % OTHERS], number))
    await editing
    async with asyncio.timeout(120):
        while edited.keys() - answered.keys():  # noqa: ASYNC110 - a watch brings them
            await asyncio.sleep(0.1)
    watching.cancel()
    delays = sorted(max(0.0, answered[key] - at) for key, at in edited.items())
    await bench.drop(elsewhere)
    half, most = (1000 * delays[int(share * (len(delays) - 1))] for share in (0.5, 0.99))
    bench.report(f"  mixed load: median {half:.0f} ms, p99 {most:.0f} ms")
    detail = f"median {half:.0f} ms; {EDITS} edits and {CHANGES} changes of other Pods a second; {operator.usage.rss:.0f} MiB"
    curve = [(1000 * delay, (number + 1) / len(delays)) for number, delay in enumerate(delays)]
    lines = {"share of edits answered": curve}
    return Row("edit to first write, p99", most, 100.0, "ms", detail, lines, "mixed", ("ms", "share"))


async def _at_rate(rate: float, seconds: float, work: Any) -> None:
    """Begin so many works a second, whatever each of them takes."""
    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(round(rate * seconds)):
            await asyncio.sleep(max(0.0, begun + number / rate - time.monotonic()))
            group.create_task(work(number))


async def _edit(bench: Bench, namespace: str, name: str, edited: dict[tuple[str, int], float]) -> None:
    # Replaces no Pod, so that edits can go on for long.
    changes = {"rollingUpdate": {"maxUnavailable": 1 + time.monotonic_ns() % 1000}}
    patch = {"spec": {"executorManager": {"updateStrategy": changes}}}
    cluster = await bench.patch_cluster(namespace, name, patch)
    edited[name, cluster.metadata.generation] = time.monotonic()


async def _touch(bench: Bench, namespace: str, name: str, number: int) -> None:
    await bench.client.merge_patch(PODS, namespace, name, {"metadata": {"annotations": {"touched": str(number)}}})


async def _watch_answers(bench: Bench, namespace: str, version: str, answered: dict[tuple[str, int], float]) -> None:
    """Note when the status of each FlameCluster first speaks of a generation."""
    events = bench.client.watch(
        FLAME_CLUSTERS, namespace, resource_version=version, timeout_seconds=600, read_timeout=600
    )
    async for event in events:
        if event.type is EventType.MODIFIED:
            _note_answer(event.object, answered)


def _note_answer(cluster: FlameClusterView, answered: dict[tuple[str, int], float]) -> None:
    if (generation := cluster.status.get("observedGeneration")) is not None:
        answered.setdefault((cluster.name, generation), time.monotonic())


def _written(requests: Counter[str]) -> int:
    return sum(requests[method] for method in _WRITES)


def _other_pod(namespace: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }
