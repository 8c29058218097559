"""The cost of a pass and of a cached Pod, measured in this process on objects of the API server."""

import asyncio
import gc
import random
import time
import tracemalloc
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.objects import flame_cluster
from benchmarks.report import Row
from benchmarks.scaling import NAME, all_say
from benchmarks.waits import until_clusters
from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.controller import Controller
from flamectl_operator.kube.cache.store import Store
from flamectl_operator.kube.events import EventRecorder
from flamectl_operator.kube.resources import CONFIG_MAPS, PODS, SERVICES, Resource
from flamectl_operator.reconcile.controller_context import ControllerContext
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS, Stores
from flamectl_operator.runtime.clock import SystemClock
from flamectl_operator.settings.model import OperatorConfig

#: Passes of which the fastest counts, because other processes disturb the others.
PASSES = 300


async def measure(bench: Bench) -> list[Row]:
    """Measure passes that find nothing to do, and the memory of a cached Pod."""
    sizes = [bench.size(each) for each in (500, 1500, 5000)]
    times: list[float] = []
    cached = 0.0
    for size in sizes:
        namespace = await asyncio.to_thread(bench.namespace)
        async with bench.operator(namespace):
            await bench.create_cluster(flame_cluster(namespace, NAME, size))
            await until_clusters(bench.client, namespace, partial(all_say, size, ("ready",)))
            await asyncio.sleep(1)
        stores, cached = await _load(bench, namespace)
        times.append(await _pass(bench, stores, namespace))
        bench.report(f"  {size} executors: {times[-1]:.2f} ms a pass, {cached:.2f} KiB a Pod")
        await bench.drop(namespace)
    curve = list(zip(map(float, sizes), times, strict=True))
    return [
        Row(f"a pass over {sizes[0]} executors that finds nothing to do", times[0], 1.0, "ms", "CPU"),
        Row(
            f"the same over {sizes[-1]} executors",
            times[-1],
            10.0,
            "ms",
            ", ".join(f"{size}: {taken:.2f} ms" for size, taken in curve),
            {"ms of CPU": curve},
            "pass",
            ("executors", "ms"),
        ),
        Row("memory of a cached Pod", cached, 4.0, "KiB", f"with {sizes[-1]} Pods"),
    ]


async def _load(bench: Bench, namespace: str) -> tuple[Stores, float]:
    """Fill stores as the reflectors do, and return the KiB that each Pod takes."""
    stores = Stores.empty()
    await _fill(bench, FLAME_CLUSTERS, stores.flame_clusters, namespace, "")
    await _fill(bench, SERVICES, stores.of(SERVICES), namespace)
    await _fill(bench, CONFIG_MAPS, stores.of(CONFIG_MAPS), namespace)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    await _fill(bench, PODS, stores.pods, namespace)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return stores, (after - before) / len(stores.pods) / 1024


async def _fill(
    bench: Bench, resource: Resource[Any], store: Store[Any], namespace: str, selector: str = CLUSTER_LABEL
) -> None:
    items: list[Any] = []
    token, version = "", ""
    while token or not version:
        page = await bench.client.list_page(resource, namespace, label_selector=selector, continue_token=token)
        items += map(store.kept, page.items)
        token, version = page.continue_token, page.resource_version
    store.replace(items, version, namespace)


async def _pass(bench: Bench, stores: Stores, namespace: str) -> float:
    """Return the milliseconds of CPU of a pass over the FlameCluster in the stores."""
    clock = SystemClock()
    config = OperatorConfig.model_validate({"flame": {"sessionManagerEndpoint": ""}})
    events = EventRecorder(bench.client, "benchmarks", f"benchmarks-{random.getrandbits(32)}", clock)
    controller = Controller(ControllerContext(stores, bench.client, events, clock, "benchmarks"), config)
    taken: list[int] = []
    for _ in range(PASSES):
        begun = time.thread_time_ns()
        result = await controller.reconcile((namespace, NAME))
        taken.append(time.thread_time_ns() - begun)
        if result.errors:
            raise result.errors[0]
    return min(taken) / 1e6
