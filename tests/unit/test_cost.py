"""The cost of work, in counts that are equal on every machine: calls of functions, requests, writes of the status, passes."""

import asyncio
import gc
import sys
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from random import Random
from typing import Any, TypeVar

import msgspec
import pytest

from flamectl_operator.api.constants import CLAIM_ANNOTATION, CLUSTER_LABEL
from flamectl_operator.kube.http import wire
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import Resource
from flamectl_operator.kube.views import KubernetesObject
from flamectl_operator.operator import Environment, Operator
from flamectl_operator.reconcile.status_writes.throttle import LAST_PAUSE
from flamectl_operator.reconcile.stores.stores import Stores
from flamectl_operator.settings.model import OperatorConfig
from tests.unit.builders import raw_spec, replicas, stored
from tests.unit.notes import Notes
from tests.unit.runtime.virtual_time import VirtualClock, virtually
from tests.unit.subreconcilers.fake_api import FakeApi
from tests.unit.subreconcilers.harness import KEY, SM_NAME, StepHarness, executor_name

pytestmark = pytest.mark.usefixtures("quiet")

T = TypeVar("T", bound=KubernetesObject)


async def _at_rest(count: int) -> StepHarness:
    """A FlameCluster with so many executors, all ready, over which a pass has found nothing to do."""
    world = StepHarness(replicas(1))
    await world.converge()
    first, cluster = world.api.find("pods", executor_name(0)), world.api.find("flameclusters", KEY[1])
    assert first is not None
    assert cluster is not None
    for number in range(1, count):
        pod = deepcopy(first)
        pod["metadata"] |= {"name": executor_name(number), "uid": f"uid-of-{number}"}
        world.api.put("pods", pod)
    cluster["status"]["executorManager"]["nextId"] = count
    world.apply(cluster["spec"] | replicas_of(cluster, count))
    await world.run_passes(5)
    world.api.writes.clear()
    await world.controller.reconcile(KEY)
    assert world.api.writes == []
    assert world.status.executor_manager.ready == count
    return world


def replicas_of(cluster: dict[str, Any], count: int) -> dict[str, Any]:
    """The part of a spec with another number of executors."""
    return {"executorManager": cluster["spec"]["executorManager"] | {"replicas": count}}


async def _calls_of_a_pass(world: StepHarness) -> int:
    """How many functions a pass calls, those of C included; a generator counts each time that it goes on.

    The garbage of other tests is not collected meanwhile, because its finalizers would count.
    """
    calls = Counter[str]()

    def note(_frame: object, event: str, _argument: object) -> None:
        calls[event] += 1

    gc.disable()
    sys.setprofile(note)
    try:
        await world.controller.reconcile(KEY)
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls["call"] + calls["c_call"]


async def test_pass_that_finds_nothing_to_do_costs_the_same_with_ten_times_as_many_executors() -> None:
    few, many = [await _calls_of_a_pass(await _at_rest(count)) for count in (20, 200)]

    # A step for the common metadata, the claims in the snapshot, and a step for executors with work take some 130 of them.
    assert few < 1740
    assert many - few < 20


async def test_small_flame_cluster_that_comes_up_costs_few_calls() -> None:
    await _calls_of_a_start()  # models are built at their first use

    creates, turns = await _calls_of_a_start()

    # Those of the API server in memory are among them. The spec is rendered in the first pass, and each pass writes a status.
    assert creates < 9_350
    assert turns < 2_800


async def _calls_of_a_start() -> tuple[int, int]:
    """How many functions the first pass over a new FlameCluster calls, and the one after its Pods have become ready."""
    world = StepHarness(replicas(3))
    world.sync()
    creates = await _calls_of_a_pass(world)
    world.let_pods_become_ready()
    world.sync()
    turns = await _calls_of_a_pass(world)
    assert (world.status.state, world.status.executor_manager.ready) == ("Running", 3)
    return creates, turns


async def test_pass_after_the_change_of_one_executor_is_linear_in_the_executors() -> None:
    calls = []
    for count in (20, 120, 220):
        world = await _at_rest(count)
        pod = world.stores.pods.get(KEY[0], executor_name(7))
        assert pod is not None
        version = str(world.stores.pods.synced_version() + 1)
        world.stores.pods.absorb(
            msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, resource_version=version))
        )
        calls.append(await _calls_of_a_pass(world))

    assert (calls[2] - calls[1]) < 1.2 * (calls[1] - calls[0])
    assert (calls[1] - calls[0]) / 100 < 12


async def test_pass_that_looks_who_uses_a_claim_costs_the_same_beside_ten_times_as_many_pods_of_others() -> None:
    calls = []
    for count in (30, 300):
        world = StepHarness(stored(existingClaim="mine"))
        claim = {"metadata": {"name": "mine", "namespace": KEY[0], "uid": "claim"}, "status": {"phase": "Bound"}}
        world.api.put("persistentvolumeclaims", claim)
        for number in range(count):
            world.squat("pods", f"{number}", labels={CLUSTER_LABEL: "other"}, uid=f"{number}")
        world.change("pods", "7", {"metadata": {"annotations": {CLAIM_ANNOTATION: "claim"}}})
        await world.run_passes(3)
        assert world.condition("Degraded")[1] == "ClaimInUse"
        calls.append(await _calls_of_a_pass(world))

    assert calls[1] - calls[0] < 20


async def test_cached_pod_takes_less_than_four_kilobytes() -> None:
    world = await _at_rest(3)
    found = world.pod(executor_name(1))
    since = {"lastTransitionTime": "2025-06-01T12:00:00Z"}
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    found["status"]["conditions"] = [{"type": kind, "status": "True", **since} for kind in kinds]
    found["metadata"]["managedFields"] = [{"manager": "a", "time": "2025-06-01T12:00:00Z"}] * 4
    lines = []
    for number in range(500):
        metadata = found["metadata"] | {"name": executor_name(number), "uid": f"{number:036}"}
        lines.append(wire.encode(found | {"metadata": metadata}))
    store = Stores.empty().pods
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    store.replace([store.kept(wire.decode(PodView, line)) for line in lines], "1000")
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(store) == 500
    assert (after - before) / 500 < 4096


# --- Whole scale-ups, in virtual time


class _Api(FakeApi):
    """Notes when each count of ready executors was first told, and how many objects of which size were decoded."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.told: dict[int, float] = {}
        self.decoded: list[int] = []

    async def replace_status(self, resource: Resource[T], namespace: str, name: str, body: Mapping[str, Any]) -> T:
        self.told.setdefault(body["status"]["executorManager"]["ready"], self.clock.monotonic())
        return await super().replace_status(resource, namespace, name, body)

    def _view(self, resource: Resource[T], manifest: dict[str, Any]) -> T:
        self.decoded.append(len(wire.encode(manifest)))
        return super()._view(resource, manifest)


class _Scale:
    """An operator over one FlameCluster whose session manager is ready, and a kubelet that starts its executors."""

    def __init__(self) -> None:
        self.clock, self.notes = VirtualClock(), Notes()
        self.api = _Api(self.clock)
        self.operator = Operator(
            self.api, OperatorConfig(), Environment(self.clock, Random(0), self.notes), "test", "us"
        )

    @asynccontextmanager
    async def running(self, count: int) -> AsyncIterator[None]:
        """Run the operator until it has made so many executors, none of which is ready."""
        stop = asyncio.Event()
        metadata = {"name": KEY[1], "namespace": KEY[0], "generation": 1}
        self.api.put("flameclusters", {"metadata": metadata, "spec": raw_spec(replicas(0))})
        running = asyncio.create_task(self.operator.run(stop))
        await asyncio.sleep(5)
        self.make_ready(SM_NAME)
        await asyncio.sleep(30)
        self.api.writes.clear()
        self.api.told.clear()
        self.api.decoded.clear()
        self.notes.passes.clear()
        self.resize(count)
        await asyncio.sleep(1)
        yield
        await asyncio.sleep(30)
        stop.set()
        await running

    async def start(self, count: int, each: float) -> float:
        """Let executors become ready, one after the other, and return when the last of them was.

        Args:
            count: How many.
            each: Seconds from one to the next.
        """
        for number in range(count):
            await asyncio.sleep(each)
            self.make_ready(executor_name(number))
        return self.clock.monotonic()

    def resize(self, count: int) -> None:
        """Change the wanted number of executors."""
        metadata = self.cluster["metadata"] | {"generation": self.cluster["metadata"]["generation"] + 1}
        self.api.put("flameclusters", self.cluster | {"metadata": metadata, "spec": raw_spec(replicas(count))})

    @property
    def cluster(self) -> dict[str, Any]:
        return self.api.present("flameclusters", KEY[1])

    @property
    def removing(self) -> bool:
        """Whether the status says that Pods terminate."""
        return bool(self.cluster["status"]["generations"].get("hasPendingRemoval"))

    def make_ready(self, name: str) -> None:
        found = self.api.present("pods", name)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self.api.put("pods", found | {"spec": found["spec"] | {"nodeName": "node-1"}, "status": status})

    @property
    def requests(self) -> Counter[str]:
        return Counter(f"{verb} {plural}" for verb, plural, _ in self.api.writes if plural != "events")


@pytest.mark.parametrize(("count", "each"), [(300, 0.01), (1200, 0.001)])
def test_scale_up_costs_a_request_an_executor_and_few_statuses_and_passes(count: int, each: float) -> None:
    async def main() -> None:
        scale = _Scale()
        async with scale.running(count):
            await scale.start(count, each)

        assert scale.cluster["status"]["executorManager"]["ready"] == count
        assert scale.requests["create pods"] == count
        assert scale.requests["status flameclusters"] <= 10
        assert scale.requests.total() <= count + 10
        # A pass for each event would be as many as executors.
        assert len(scale.notes.passes) <= 20
        # Each executor is decoded three times: the answer to its creation, and the events of its creation and its start.
        size = len(wire.encode(scale.api.find("pods", executor_name(0))))
        assert sum(scale.api.decoded) < 3.1 * count * size

    virtually(main())


def test_scale_down_costs_a_request_an_executor_and_few_statuses_and_passes() -> None:
    async def main() -> None:
        scale, count = _Scale(), 300
        async with scale.running(count):
            await scale.start(count, 0.01)
            await asyncio.sleep(30)
            scale.api.writes.clear()
            scale.notes.passes.clear()
            scale.resize(0)
            await asyncio.sleep(1)
            for number in range(count):
                assert scale.removing
                await asyncio.sleep(0.01)
                scale.api.remove("pods", executor_name(number))
            await asyncio.sleep(0.01)
            assert not scale.removing, "the last one is noticed at once"

        assert scale.requests["delete pods"] == count
        assert scale.requests["status flameclusters"] <= 3
        # The Lease of the deletion lock is created, and deleted when no executor is left to delete.
        assert scale.requests.total() <= count + 5
        assert len(scale.notes.passes) <= 20

    virtually(main())


def test_state_that_turns_is_told_at_once_however_many_executors_start() -> None:
    async def main() -> None:
        scale = _Scale()
        async with scale.running(50):
            began = scale.clock.monotonic()
            over = await scale.start(50, 0.05)

        assert scale.api.told[1] - began < 0.06
        assert scale.api.told[50] - over < 0.01
        # In between the counts are told now and then.
        assert 2 < len(scale.api.told) < 10

    virtually(main())


def test_counts_catch_up_when_executors_stop_becoming_ready() -> None:
    async def main() -> None:
        scale = _Scale()
        async with scale.running(50):
            over = await scale.start(31, 0.05)

        assert scale.cluster["status"]["executorManager"]["ready"] == 31
        assert scale.api.told[31] - over <= LAST_PAUSE

    virtually(main())


def test_executor_that_fails_is_noticed_at_once_while_others_start() -> None:
    async def main() -> None:
        scale = _Scale()
        async with scale.running(50):
            await scale.start(20, 0.05)
            found = scale.api.present("pods", executor_name(30))
            scale.api.put("pods", found | {"status": {"phase": "Failed"}})
            await asyncio.sleep(0.01)
            assert scale.api.find("pods", executor_name(50)) is not None

    virtually(main())


# --- A small FlameCluster beside a large one


class _SerialApi(FakeApi):
    """An API server that takes a hundred writes a second, one after the other."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.free_at = 0.0

    async def create(
        self, resource: Resource[T], namespace: str, body: Mapping[str, Any], *, strict: bool = False
    ) -> T:
        self.free_at = max(self.free_at, self.clock.monotonic()) + 0.01
        await asyncio.sleep(self.free_at - self.clock.monotonic())
        return await super().create(resource, namespace, body, strict=strict)


def test_small_flame_cluster_waits_for_few_writes_of_a_large_one() -> None:
    async def main() -> None:
        clock, stop = VirtualClock(), asyncio.Event()
        api = _SerialApi(clock)
        operator = Operator(api, OperatorConfig(), Environment(clock, Random(0)), "test", "us")
        running = asyncio.create_task(operator.run(stop))

        def count(name: str) -> int:
            return sum(pod["metadata"]["name"].startswith(f"{name}-") for pod in api.all("pods"))

        for name, size in (("large", 800), ("small", 3)):
            metadata = {"name": name, "namespace": KEY[0], "generation": 1}
            api.put("flameclusters", {"metadata": metadata, "spec": raw_spec(replicas(size))})
            await asyncio.sleep(2)
        assert count("small") == 4
        # The large one goes on meanwhile, and it is alone again after that.
        assert 200 < count("large") < 400
        await asyncio.sleep(6)
        assert count("large") == 801
        stop.set()
        await running

    virtually(main())


# --- Many small FlameClusters at once


class _LateApi(FakeApi):
    """An API server whose answer to a create takes ten milliseconds, and when each object was asked for last."""

    SECONDS = 0.01

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.asked: dict[str, float] = {}

    async def create(
        self, resource: Resource[T], namespace: str, body: Mapping[str, Any], *, strict: bool = False
    ) -> T:
        self.asked[body["metadata"]["name"]] = self.clock.monotonic()
        await asyncio.sleep(self.SECONDS)
        return await super().create(resource, namespace, body, strict=strict)


def test_executors_of_each_small_flame_cluster_are_asked_for_at_once_while_many_start() -> None:
    count = 40

    async def main() -> _LateApi:
        clock, stop = VirtualClock(), asyncio.Event()
        api = _LateApi(clock)
        running = asyncio.create_task(
            Operator(api, OperatorConfig(), Environment(clock, Random(0)), "test", "us").run(stop)
        )
        for number in range(count):
            metadata = {"name": f"small-{number}", "namespace": KEY[0], "generation": 1}
            api.put("flameclusters", {"metadata": metadata, "spec": raw_spec(replicas(3))})
        await asyncio.sleep(5)
        stop.set()
        await running
        return api

    api = virtually(main())
    times = [{api.asked[f"small-{number}-executor-manager-{each}"] for each in range(3)} for number in range(count)]

    # As many as there are workers begin before any executor was accepted, one executor each. The others ask for three at once.
    assert sum(len(each) == 1 for each in times) >= count - OperatorConfig().controller.workers
    assert all(len(each) <= 2 for each in times)
    # An answer about the ConfigMap and one about the session manager come first, and none about a Service.
    begun = [min(each) - api.asked[f"small-{number}-config"] for number, each in enumerate(times)]
    assert max(begun) == pytest.approx(2 * _LateApi.SECONDS)
    # An object and a status need one request each: a ConfigMap, two Services, four Pods, the ids, and the state once or twice.
    requests = Counter(f"{verb} {plural}" for verb, plural, _ in api.writes if plural != "events")
    assert requests.total() <= 9 * count
    assert requests["status flameclusters"] == 2 * count
