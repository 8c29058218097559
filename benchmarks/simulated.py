"""An API server that allows 50 writes a second, simulated in virtual time: what the operator makes of so little.

The operator is the real one. The API server is that of the unit tests, in memory. It takes one write after the other, in their
order. A Pod is ready two seconds after it was created.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any, TypeVar

import structlog

from benchmarks.bench import Bench
from benchmarks.objects import flame_cluster
from benchmarks.report import Row
from flamectl_operator.kube.resources import PODS, Resource
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.operator import Environment, Operator
from flamectl_operator.settings.model import OperatorConfig
from tests.unit.runtime.virtual_time import VirtualClock, virtually
from tests.unit.subreconcilers.fake_api import FakeApi

T = TypeVar("T", bound=KubernetesObject)

NAMESPACE = "default"
#: Writes that the API server takes in a second.
WRITES = 50
#: Seconds from the creation of a Pod until it is ready.
START = 2.0
#: Executors of a small FlameCluster.
SMALL = 3


class _SlowApi(FakeApi):
    """An API server that takes one write after the other."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.free_at = 0.0
        self.sent: Counter[str] = Counter()

    async def _turn(self, verb: str) -> None:
        """Wait for the turn of a write."""
        now = self.clock.monotonic()
        self.sent[verb] += 1
        self.free_at = max(self.free_at, now) + 1 / WRITES
        await asyncio.sleep(self.free_at - now)

    async def create(
        self, resource: Resource[T], namespace: str, body: Mapping[str, Any], *, strict: bool = False
    ) -> T:
        """Create an object; a Pod becomes ready after a while."""
        await self._turn(f"create {resource.plural}")
        made = await super().create(resource, namespace, body, strict=strict)
        if resource is PODS:
            asyncio.get_running_loop().call_later(START, self._start, namespace, made.name)
        return made

    async def replace_status(self, resource: Resource[T], namespace: str, name: str, body: Mapping[str, Any]) -> T:
        """Write a status."""
        await self._turn("status")
        return await super().replace_status(resource, namespace, name, body)

    def _start(self, namespace: str, name: str) -> None:
        found = self.find("pods", name, namespace)
        if found is not None:
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            self.put("pods", found | {"spec": found["spec"] | {"nodeName": "node"}, "status": status})


class _SimulatedOperator:
    """An operator on a slow API server."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.api = _SlowApi(self.clock)
        config = OperatorConfig.model_validate({"flame": {"sessionManagerEndpoint": ""}})
        environment = Environment(self.clock, Random(0))  # noqa: S311 - jitter
        self._operator = Operator(self.api, config, environment, "simulated", "simulated")
        self._stop = asyncio.Event()
        self._running = asyncio.create_task(self._operator.run(self._stop))

    def apply(self, name: str, replicas: int) -> None:
        """Create a FlameCluster."""
        manifest = flame_cluster(NAMESPACE, name, replicas)
        self.api.put("flameclusters", manifest | {"metadata": manifest["metadata"] | {"generation": 1}})

    async def until_running(self, name: str, replicas: int) -> float:
        """Wait until a FlameCluster says that it runs with all executors, and return the time."""
        while not self._runs(name, replicas):  # noqa: ASYNC110 - in virtual time that costs nothing
            await asyncio.sleep(0.01)
        return self.clock.monotonic()

    def _runs(self, name: str, replicas: int) -> bool:
        found = self.api.find("flameclusters", name) or {}
        status = found.get("status", {})
        return bool(status.get("state") == "Running" and status["executorManager"].get("ready") == replicas)

    async def end(self) -> None:
        """Stop the operator."""
        self._stop.set()
        await self._running


async def measure(bench: Bench) -> list[Row]:
    """Simulate a large FlameCluster, many small ones, and a small one beside a large one."""
    structlog.configure(processors=[_drop])
    large, many = bench.size(1000), bench.size(200)
    rows = await asyncio.to_thread(
        lambda: [virtually(_large(large)), virtually(_many(many)), virtually(_beside(large))]
    )
    for row in rows:
        bench.report(f"  {row.name}: {row.value:.2f} {row.unit}, {row.detail}")
    return rows


async def _large(count: int) -> Row:
    world = _SimulatedOperator()
    world.apply("large", count)
    begun = world.clock.monotonic()
    taken = await world.until_running("large", count) - begun
    await world.end()
    least = (count + 5) / WRITES + START
    detail = f"{taken:.0f} s, {world.api.sent['status']} status writes; creates alone take {least:.0f} s"
    return Row(f"{WRITES} writes/s: 0 -> {count}, by the least time", taken / least, 1.10, "x", detail)


async def _many(count: int) -> Row:
    world = _SimulatedOperator()
    begun = world.clock.monotonic()
    for number in range(count):
        world.apply(f"small-{number}", SMALL)
    for number in range(count):
        await world.until_running(f"small-{number}", SMALL)
    taken = world.clock.monotonic() - begun
    await world.end()
    sent = world.api.sent.total()
    detail = f"{taken:.0f} s, {sent / count:.1f} writes for each, of which {world.api.sent['status'] / count:.1f} of the status"
    least = count * (SMALL + 5) / WRITES + START
    return Row(f"{WRITES} writes/s: {count} FlameClusters, by the least time", taken / least, 1.25, "x", detail)


async def _beside(count: int) -> Row:
    taken: list[float] = []
    for large in (0, count):
        world = _SimulatedOperator()
        if large:
            world.apply("large", large)
            await asyncio.sleep(count / WRITES / 4)
        begun = world.clock.monotonic()
        world.apply("small", SMALL)
        taken.append(await world.until_running("small", SMALL) - begun)
        await world.end()
    alone, beside = taken
    detail = f"alone {alone:.1f} s, beside {beside:.1f} s, without fair queues at the API server"
    return Row(f"{WRITES} writes/s: one of {SMALL} beside one of {count}", beside / alone, 1.50, "x", detail)


def _drop(*_: Any) -> Any:
    raise structlog.DropEvent
