"""Many FlameClusters in one namespace: the memory that each takes, and the passes that another namespace waits for."""

import asyncio
import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import msgspec

from flamectl_operator.api.checks.limits import MAX_SPEC_SIZE
from flamectl_operator.desired.metadata import Identity
from flamectl_operator.kube.cache.index import Key
from flamectl_operator.kube.client import EventType, WatchEvent
from flamectl_operator.observed.flame_cluster import FlameClusterView
from flamectl_operator.operator import Environment, Operator
from flamectl_operator.process.monitoring.cluster_samples import ClusterSamples
from flamectl_operator.reconcile.spec_renderer import SpecRenderer
from flamectl_operator.reconcile.stores.stores import Stores
from flamectl_operator.runtime.outcome import Result
from flamectl_operator.runtime.telemetry import UNMEASURED
from flamectl_operator.settings.model import OperatorConfig
from tests.unit.builders import SETTINGS, raw_spec
from tests.unit.runtime.virtual_time import VirtualClock
from tests.unit.subreconcilers.fake_api import FakeApi

CROWD = 10_000
#: FlameClusters whose memory is measured, and how many of the largest. Measuring 10,000 takes seconds, and each takes as much.
MANY, SOME = 2000, 50
#: Bytes of the operator's memory that an ordinary FlameCluster may take in the store and for metrics, and planned.
STORED, PLANNED = 6 * 1024, 40 * 1024

_STATUS = {
    "state": "Running",
    "message": "All components healthy",
    "observedGeneration": 1,
    "executorManager": {"replicas": 3, "ready": 3, "current": 3, "updated": 3, "nextId": 3},
    "conditions": [
        {"type": kind, "status": "True", "reason": "Healthy", "message": "All components healthy"}
        for kind in ("Ready", "Progressing", "Degraded", "ConfigValid", "SessionManagerReachable")
    ],
}


def _cluster(name: str, namespace: str, version: int, text: str = "") -> FlameClusterView:
    """Return a FlameCluster as a response of the API server brings it."""
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1}
    spec = raw_spec({"configOverrides": {"text": text}} if text else {})
    whole = {"metadata": metadata | {"resourceVersion": str(version)}, "spec": spec, "status": _STATUS}
    return msgspec.json.decode(msgspec.json.encode(whole), type=FlameClusterView)


@contextmanager
def _bytes_for_each(count: int, limit: int) -> Iterator[None]:
    """Fail when what is kept of `count` objects takes more than `limit` bytes for each."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
        gc.collect()
        kept, _peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept / count < limit


def test_stored_and_counted_flame_clusters_take_a_few_kilobytes_each() -> None:
    stores, samples = Stores.empty(), ClusterSamples()
    with _bytes_for_each(MANY, STORED):
        stores.flame_clusters.replace(
            [_cluster(f"c{number}", "crowd", number + 1) for number in range(MANY)], f"{MANY}"
        )
        assert len(samples.sample(stores.flame_clusters.all())) == MANY


def test_stored_flame_clusters_with_the_largest_specs_take_some_kilobytes_each() -> None:
    stores, samples = Stores.empty(), ClusterSamples()
    with _bytes_for_each(SOME, STORED):
        for number in range(SOME):
            large = _cluster(f"c{number}", "crowd", number + 1, "x" * (MAX_SPEC_SIZE - 1000))
            stores.flame_clusters.apply(WatchEvent(EventType.ADDED, large))
        sampled = samples.sample(stores.flame_clusters.all())
        assert len(sampled) == SOME
    assert large.spec_size > MAX_SPEC_SIZE - 1000
    assert large.spec_left_out


async def test_planned_flame_clusters_take_some_tens_of_kilobytes_each() -> None:
    renderer, count = SpecRenderer(), 50
    clusters = [_cluster(f"c{number}", "crowd", number + 1) for number in range(count)]
    first = _cluster("first", "crowd", 1)
    await renderer.render(Identity(first.name, "crowd", first.uid), first, SETTINGS, UNMEASURED)
    with _bytes_for_each(count, PLANNED):
        for each in clusters:
            planned = await renderer.render(Identity(each.name, "crowd", each.uid), each, SETTINGS, UNMEASURED)
            assert planned.desired is not None


async def _run_with_a_crowd(operator: Operator) -> tuple[asyncio.Event, asyncio.Task[None]]:
    """Run an operator with many new FlameClusters for a while; return what stops it, and its task."""
    stop = asyncio.Event()
    running = asyncio.create_task(operator.run(stop))
    await asyncio.sleep(1)
    for number in range(CROWD):
        event = WatchEvent(EventType.ADDED, _cluster(f"c{number}", "crowd", 100 + number))
        operator.stores.flame_clusters.apply(event)
    await asyncio.sleep(10)
    return stop, running


async def test_a_change_in_another_namespace_waits_for_one_pass_of_each_worker_and_one_turn() -> None:
    clock, config = VirtualClock(), OperatorConfig.model_validate({"controller": {"workers": 4}})
    operator = Operator(FakeApi(clock), config, Environment(clock, Random(0)), "test", "us")
    begun: list[Key] = []

    async def reconcile(key: Key) -> Result:
        begun.append(key)
        await asyncio.sleep(1)
        return Result()

    operator._controller.reconcile = reconcile  # type: ignore[method-assign]
    stop, running = await _run_with_a_crowd(operator)
    before = len(begun)
    operator.stores.flame_clusters.apply(WatchEvent(EventType.ADDED, _cluster("victim", "team", 100 + CROWD)))
    await asyncio.sleep(5)
    stop.set()
    await running
    assert len(operator.queue) == 0
    assert begun.index(("team", "victim")) <= before + config.controller.workers


async def test_a_change_in_another_namespace_waits_for_no_slow_pass() -> None:
    clock, config = VirtualClock(), OperatorConfig()
    operator = Operator(FakeApi(clock), config, Environment(clock, Random(0)), "test", "us")
    begun: dict[Key, float] = {}

    async def reconcile(key: Key) -> Result:
        begun.setdefault(key, clock.monotonic())
        await asyncio.sleep(0 if key[0] == "team" else 150)  # as when a webhook for this namespace does not answer
        return Result()

    operator._controller.reconcile = reconcile  # type: ignore[method-assign]
    stop, running = await _run_with_a_crowd(operator)
    changed = clock.monotonic()
    operator.stores.flame_clusters.apply(WatchEvent(EventType.ADDED, _cluster("victim", "team", 100 + CROWD)))
    await asyncio.sleep(1)
    stop.set()
    await running
    assert begun["team", "victim"] == changed
    assert len(begun) > config.controller.workers / 2
