"""How long the event loop stands still at most, in calls of functions, which are the same on every machine.

While one callback runs, the operator serves nobody and does not renew the Lease. So no FlameCluster, and nothing that a user can
make large, may cost much in one callback.
"""

import asyncio
import inspect
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import wraps
from random import Random
from types import FrameType
from typing import Any

import pytest
import structlog
from pytest_mock import MockerFixture

from flamectl_operator.api.checks.limits import MAX_SPEC_SIZE
from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.kube.cache.index import Key
from flamectl_operator.operator import Environment, Operator
from flamectl_operator.reconcile import spec_renderer
from flamectl_operator.runtime.outcome import Result
from flamectl_operator.settings.model import OperatorConfig
from tests.e2e.hostile import hostile_overrides
from tests.unit.builders import executor_template, merged, raw_spec, replicas, session_template
from tests.unit.runtime.virtual_time import VirtualClock, VirtualTimeLoop, virtually
from tests.unit.subreconcilers.fake_api import FakeApi
from tests.unit.support import nested

#: The most calls of one callback, some milliseconds. A pass over a small FlameCluster takes 6,000.
MOST = 7000
#: The same when an object has as many annotations as fit, which are read once when the object comes.
MOST_OF_LARGE = 20_000
#: Seconds after which every FlameCluster is looked at again.
RESYNC = OperatorConfig().controller.resync_seconds
#: FlameClusters of a crowd, and the most calls for each of them in one callback, which lists or queues all of them.
CROWD, MOST_FOR_EACH = 2000, 90
#: The calls of the API server in memory.
_API = (
    "get", "create", "dry_run_create", "replace_status", "dry_run_replace_status", "merge_patch", "delete", "list_page",
    "put", "_view",
)  # fmt: skip


class Callbacks:
    """Counts the calls in each callback of the event loop, without those of the API server and of threads."""

    def __init__(self) -> None:
        self.most = 0
        self.in_threads = Counter[str]()
        self._calls = 0

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Count nothing while the context is entered. Nothing observes the calls then, because that takes longer than they do."""
        observer = sys.getprofile()
        sys.setprofile(None)
        try:
            yield
        finally:
            sys.setprofile(observer)

    def count(self, run: Callable[[asyncio.Handle], None]) -> Callable[[asyncio.Handle], None]:
        """Return what runs a callback and counts."""

        def counted(handle: asyncio.Handle) -> None:
            self._calls = 0
            sys.setprofile(self._note)
            try:
                run(handle)
            finally:
                sys.setprofile(None)
            self.most = max(self.most, self._calls)

        return counted

    def leave_out(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method whose calls do not count; none of them gives way to other tasks."""
        if inspect.iscoroutinefunction(method):

            @wraps(method)
            async def uncounted(*arguments: Any, **named: Any) -> Any:
                with self.uncounted():
                    return await method(*arguments, **named)
        else:

            @wraps(method)
            def uncounted(*arguments: Any, **named: Any) -> Any:
                with self.uncounted():
                    return method(*arguments, **named)

        return uncounted

    def run_in_executor(self, _executor: object, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Run a function at once, because virtual time does not wait for threads; in a thread it would not be counted."""
        self.in_threads[function.__name__] += 1
        done = asyncio.get_running_loop().create_future()
        with self.uncounted():
            done.set_result(function(*arguments))
        return done

    def _note(self, _frame: FrameType, event: str, _argument: object) -> None:
        if event in {"call", "c_call"}:
            self._calls += 1


async def _warm_up() -> None:
    """Let an operator run, because the first passes of a process fill caches and take tens of thousands of calls."""
    world = _CountedOperator(Callbacks())
    async with world.running():
        world.write(raw_spec(replicas(3)))
        world.write(raw_spec(_LARGEST["depth"]), "large")
        await world.start_pods()


@pytest.fixture(scope="module")
def _warm() -> None:
    with pytest.MonkeyPatch.context() as patch, structlog.testing.capture_logs():
        patch.setattr(VirtualTimeLoop, "run_in_executor", Callbacks().run_in_executor)
        virtually(_warm_up())


@pytest.fixture
async def callbacks(_warm: None, mocker: MockerFixture) -> AsyncIterator[Callbacks]:
    callbacks = Callbacks()
    mocker.patch.object(VirtualTimeLoop, "run_in_executor", callbacks.run_in_executor)
    for method in _API:
        mocker.patch.object(FakeApi, method, callbacks.leave_out(getattr(FakeApi, method)))
    mocker.patch.object(asyncio.Handle, "_run", callbacks.count(asyncio.Handle._run))
    with structlog.testing.capture_logs():
        yield callbacks


class _CountedOperator:
    """An operator, and kubelets that start every Pod when they are asked to."""

    def __init__(self, callbacks: Callbacks) -> None:
        self.callbacks = callbacks
        self.api = FakeApi(VirtualClock())
        self.operator = Operator(self.api, OperatorConfig(), Environment(self.api.clock, Random(0)), "test", "us")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the operator while the context is entered."""
        stop = asyncio.Event()
        running = asyncio.create_task(self.operator.run(stop))
        await asyncio.sleep(1)
        yield
        stop.set()
        await running

    def write(self, spec: dict[str, Any], name: str = "c") -> None:
        """Write a FlameCluster."""
        metadata = {"name": name, "namespace": "default", "generation": 1}
        self.api.put("flameclusters", {"metadata": metadata, "spec": spec})

    async def enlarge(self, plural: str, manifest: dict[str, Any], annotations: dict[str, str]) -> None:
        """Write an object with more annotations than anybody needs, and wait until the operator has seen it."""
        metadata = manifest["metadata"]
        metadata = metadata | {"annotations": annotations | metadata.get("annotations", {})}
        self.api.put(plural, manifest | {"metadata": metadata})
        await asyncio.sleep(1)

    async def start_pods(self) -> None:
        ready = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
        for _ in range(2):  # the session manager, then the executors
            await asyncio.sleep(60)
            with self.callbacks.uncounted():
                for pod in self.api.all("pods"):
                    self.api.put("pods", pod | {"spec": pod["spec"] | {"nodeName": "node-1"}, "status": ready})
        await asyncio.sleep(60)

    @property
    def status(self) -> dict[str, Any]:
        (cluster,) = self.api.all("flameclusters")
        return dict(cluster["status"])


_VARIABLES = [{"name": f"V{number}", "value": "é" * 10} for number in range(1300)]
_LARGEST: dict[str, dict[str, Any]] = {
    "values": {"configOverrides": {"x": ["é"] * 4000}},
    "text": {"configOverrides": {"x": "é" * 32_000}},
    "depth": {"configOverrides": {"x": [nested(60)] * 60}},
    "variables": {"executorManager": {"env": _VARIABLES[:256]}},
    "containers": merged(
        session_template({"containers": [{"name": "extra", "image": "x", "env": _VARIABLES}]}),
        executor_template({"containers": [{"name": "extra", "image": "x", "env": _VARIABLES}]}),
    ),
    "volumes": executor_template({"volumes": [{"name": f"volume-{number}", "emptyDir": {}} for number in range(60)]}),
}


async def _deploy(callbacks: Callbacks, spec: dict[str, Any]) -> _CountedOperator:
    """Deploy a FlameCluster and start its Pods."""
    with callbacks.uncounted():
        raw = raw_spec(merged(replicas(3), spec))
    world = _CountedOperator(callbacks)
    async with world.running():
        world.write(raw)
        await world.start_pods()
    return world


async def test_small_spec_costs_a_pass(callbacks: Callbacks) -> None:
    world = await _deploy(callbacks, {})
    assert world.status["state"] == "Running"
    assert MOST / 2 < callbacks.most < MOST
    assert not callbacks.in_threads


@pytest.mark.parametrize("spec", _LARGEST.values(), ids=_LARGEST)
async def test_largest_accepted_spec_costs_no_more_than_a_small_one(spec: dict[str, Any], callbacks: Callbacks) -> None:
    world = await _deploy(callbacks, spec)
    assert world.status["state"] == "Running", world.status
    assert callbacks.in_threads == {"_render": 1}
    assert callbacks.most < MOST


async def test_largest_accepted_spec_that_is_rendered_in_the_event_loop_is_noticed(
    callbacks: Callbacks, mocker: MockerFixture
) -> None:
    mocker.patch.object(spec_renderer, "MAX_SIZE_IN_LOOP", MAX_SPEC_SIZE)
    await _deploy(callbacks, _LARGEST["depth"])
    assert callbacks.most > MOST


@pytest.mark.parametrize("depth", [1, 55])
async def test_refused_spec_of_a_megabyte_costs_no_more_than_a_small_one(depth: int, callbacks: Callbacks) -> None:
    world = await _deploy(callbacks, {"configOverrides": hostile_overrides(depth)})
    assert world.status["state"] == "Failed"
    assert callbacks.most < MOST


async def test_objects_that_others_have_made_large_cost_little_more_than_small_ones(callbacks: Callbacks) -> None:
    text, many = "é" * 250_000, {f"example.com/{number}": "x" for number in range(10_000)}
    foreign = {"metadata": {"name": "foreign", "namespace": "default", "labels": {CLUSTER_LABEL: "c"}}}
    world = _CountedOperator(callbacks)
    async with world.running():
        world.write(raw_spec(replicas(3)))
        await world.start_pods()
        (cluster,) = world.api.all("flameclusters")
        status = dict(cluster["status"])
        # The API server drops fields that the CRD does not have.
        status["conditions"] += [status["conditions"][0] | {"type": f"T{number}"} for number in range(300)]
        await world.enlarge("flameclusters", cluster | {"status": status | {"message": text}}, many)
        conditions = [{"type": f"T{number}", "status": "True"} for number in range(5000)]
        for pod in world.api.all("pods"):
            crowded = {"message": text, "conditions": pod["status"]["conditions"] + conditions}
            await world.enlarge("pods", pod | {"status": pod["status"] | crowded}, many)
        await world.enlarge("pods", foreign | {"status": {"phase": text}}, many)
        await world.enlarge("configmaps", foreign | {"data": many}, many)
        await world.enlarge("services", foreign | {"spec": {"ports": [{"port": 1}] * 10_000}}, many)
        await asyncio.sleep(2 * RESYNC)
    assert world.status["state"] == "Running"
    assert world.status["message"] == "All components healthy"
    assert callbacks.most < MOST_OF_LARGE


@pytest.mark.parametrize("spec", [{"paused": True}, session_template({"hostPID": True})], ids=["paused", "refused"])
async def test_passes_that_wait_for_nothing_share_the_event_loop(spec: dict[str, Any], callbacks: Callbacks) -> None:
    world = _CountedOperator(callbacks)
    async with world.running():
        for number in range(100):
            world.write(raw_spec(spec), f"c{number}")
            await asyncio.sleep(0.01)
        await asyncio.sleep(2 * RESYNC)
        assert len(world.operator.stores.flame_clusters) == 100
    assert callbacks.most < MOST


async def test_crowd_of_flame_clusters_is_listed_and_queued_at_little_cost_for_each(callbacks: Callbacks) -> None:
    async def reconcile(key: Key) -> Result:
        return Result()

    world = _CountedOperator(callbacks)
    world.operator._controller.reconcile = reconcile  # type: ignore[method-assign]
    for number in range(CROWD):
        world.write(raw_spec(), f"c{number}")
    async with world.running():
        await asyncio.sleep(2 * RESYNC)
        assert len(world.operator.stores.flame_clusters) == CROWD
    assert CROWD < callbacks.most < CROWD * MOST_FOR_EACH
