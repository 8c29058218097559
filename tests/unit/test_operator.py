"""The whole operator: queue, start, stop, settings, telemetry and log."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any, TypeVar

import pytest
import structlog
from msgspec.structs import replace

from flamectl_operator.flame.answer import SessionManagerAnswer
from flamectl_operator.flame.watcher import Target
from flamectl_operator.kube.cache.index import Key
from flamectl_operator.kube.client import EventType, Page, WatchEvent
from flamectl_operator.kube.errors import ApiError, ForbiddenError, ServerError
from flamectl_operator.kube.http import wire
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import CLAIMS, CONFIG_MAPS, NETWORK_POLICIES, PODS, SERVICES, Resource
from flamectl_operator.kube.views import ConfigMapView, KubernetesObject, ObjectMeta, OwnerReference, ServiceView
from flamectl_operator.operator import Environment, Operator
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS
from flamectl_operator.runtime.logs import add_context, set_level
from flamectl_operator.runtime.outcome import Result, wait
from flamectl_operator.runtime.tasks import TaskDiedError
from flamectl_operator.runtime.telemetry import UNMEASURED, Telemetry
from flamectl_operator.settings.model import OperatorConfig
from tests.unit.builders import controller_reference, flame_cluster, raw_spec, replicas, session_manager
from tests.unit.notes import Notes
from tests.unit.runtime.virtual_time import VirtualClock, VirtualTimeLoop
from tests.unit.subreconcilers.errors import broken, quota
from tests.unit.subreconcilers.fake_api import FakeApi
from tests.unit.support import Log

T = TypeVar("T", bound=KubernetesObject)
LABEL = "flame.xflops.io/cluster"


@pytest.fixture(autouse=True)
def _every_line(quiet: None) -> None:
    set_level("debug")


def _operator(
    config: dict[str, Any] | None = None, api: FakeApi | None = None, telemetry: Telemetry = UNMEASURED
) -> tuple[Operator, FakeApi]:
    clock = VirtualClock()
    api = api or FakeApi(clock)
    environment = Environment(clock, Random(0), telemetry)
    return Operator(api, OperatorConfig.model_validate(config or {}), environment, "test", "us"), api


def _meta(
    name: str = "x", version: int = 1, *, owner: OwnerReference | None = None, label: str = "", uid: str = "u"
) -> ObjectMeta:
    return ObjectMeta(
        name=name,
        namespace="default",
        uid=uid,
        resource_version=str(version),
        labels={LABEL: label} if label else {},
        owner_references=() if owner is None else (owner,),
    )


async def _queued(operator: Operator) -> list[str]:
    """The keys that wait, the more urgent first."""
    found = []
    while len(operator.queue):
        key = await operator.queue.get()
        operator.queue.done(key)
        found.append("/".join(key))
    return found


# --- Which session manager is asked ------------------------------------------------------------------------------------


class _SessionManager:
    """A session manager that is asked and never answers."""

    async def ask(self) -> SessionManagerAnswer:
        await asyncio.Event().wait()
        raise AssertionError

    async def release_node(self, name: str) -> None: ...

    async def report_lost(self, name: str) -> None: ...

    def close(self) -> None: ...

    def end(self) -> None: ...


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        pytest.param({"labels": {"a": "b"}}, True, id="nothing that matters"),
        pytest.param({"uid": "other"}, False, id="another Pod"),
        pytest.param({"ip": "10.64.0.8"}, False, id="another address"),
        pytest.param({"owner": None}, False, id="another owner"),
        pytest.param(None, False, id="gone"),
    ],
)
async def test_connection_ends_with_the_watch_event_that_shows_another_session_manager(
    change: dict[str, Any] | None, *, asked: bool
) -> None:
    clock = VirtualClock()
    config = OperatorConfig.model_validate({})
    around = Environment(clock, Random(0), connect=lambda _target: _SessionManager())
    operator = Operator(FakeApi(clock), config, around, "test", "us")
    assert operator.watcher is not None
    before, key = session_manager(), ("default", "my-flame")
    operator.stores.pods.apply(WatchEvent(EventType.ADDED, before))
    operator.watcher.follow(key, Target(before.status.pod_ip, 8080, "incarnation", server=before.uid), busy=False)

    if change is None:
        operator.stores.pods.apply(WatchEvent(EventType.DELETED, before))
    else:
        metadata = replace(before.metadata, resource_version="2", uid=change.get("uid", before.uid))
        if "owner" in change:
            metadata = replace(metadata, owner_references=())
        status = replace(before.status, pod_ip=change.get("ip", before.status.pod_ip))
        operator.stores.pods.apply(WatchEvent(EventType.MODIFIED, replace(before, metadata=metadata, status=status)))

    assert (operator.watcher.session_manager(key) is not None) == asked
    operator.watcher.forget(key)


# --- Who is told -------------------------------------------------------------------------------------------------------


async def test_change_of_a_flame_cluster_enqueues_it() -> None:
    operator, _ = _operator()
    operator.stores.flame_clusters.apply(WatchEvent(EventType.ADDED, flame_cluster(metadata=_meta("my-flame"))))

    assert await _queued(operator) == ["default/my-flame"]


OURS = controller_reference()
PLAIN = OwnerReference("flame.xflops.io/v1alpha1", "FlameCluster", "my-flame", "owner-uid", controller=False)


@pytest.mark.parametrize("kind", [PodView, ServiceView, ConfigMapView])
@pytest.mark.parametrize(
    ("metadata", "keys"),
    [
        pytest.param(_meta(owner=OURS, label="my-flame"), ["default/my-flame"], id="a child"),
        pytest.param(_meta(owner=OURS), ["default/my-flame"], id="a child without its label"),
        pytest.param(_meta(label="my-flame"), ["default/my-flame"], id="in somebody's way"),
        pytest.param(
            _meta(owner=OURS, label="other"),
            ["default/my-flame", "default/other"],
            id="a child of one with the label of another",
        ),
        pytest.param(_meta(owner=controller_reference(kind="ReplicaSet")), [], id="owned by another kind"),
        pytest.param(_meta(owner=PLAIN), [], id="an owner that is no controller"),
        pytest.param(_meta(), [], id="no owner"),
    ],
)
async def test_change_of_a_child_enqueues_its_owner_and_the_cluster_in_its_label(
    kind: Callable[..., Any], metadata: ObjectMeta, keys: list[str]
) -> None:
    operator, _ = _operator()
    stores: dict[Any, Any] = {
        PodView: operator.stores.pods,
        ServiceView: operator.stores.of(SERVICES),
        ConfigMapView: operator.stores.of(CONFIG_MAPS),
    }
    stores[kind].apply(WatchEvent(EventType.ADDED, kind(metadata=metadata)))

    assert await _queued(operator) == keys


@pytest.mark.parametrize("resource", [PODS, SERVICES, CONFIG_MAPS], ids=["pods", "services", "config_maps"])
async def test_response_about_a_child_enqueues_its_owner_once(resource: Resource[Any]) -> None:
    operator, _ = _operator()
    children = operator.stores.of(resource)
    made, event = resource.view(metadata=_meta(owner=OURS, label="my-flame")), EventType.ADDED

    children.absorb(made)
    assert await _queued(operator) == ["default/my-flame"]
    children.apply(WatchEvent(event, made))
    assert await _queued(operator) == []
    children.absorb_deletion(made, None)
    assert await _queued(operator) == ["default/my-flame"]


async def test_response_about_a_flame_cluster_enqueues_nothing() -> None:
    operator, _ = _operator()
    operator.stores.flame_clusters.absorb(flame_cluster(metadata=_meta("my-flame")))

    assert await _queued(operator) == []


async def test_change_overtakes_the_initial_list() -> None:
    operator, _ = _operator()
    initial = [flame_cluster(metadata=_meta(name, uid=name)) for name in ("a", "b", "c")]
    operator.stores.flame_clusters.replace(initial, "5")
    operator.stores.pods.apply(WatchEvent(EventType.ADDED, PodView(metadata=_meta(version=6, label="c"))))

    assert await _queued(operator) == ["default/c", "default/a", "default/b"]


# --- Running -----------------------------------------------------------------------------------------------------------


def _put_cluster(api: FakeApi, name: str, count: int = 2, **spec: Any) -> None:
    metadata = {"name": name, "namespace": "default", "generation": 1}
    api.put("flameclusters", {"metadata": metadata, "spec": raw_spec(replicas(count)) | spec})


def _edit_cluster(api: FakeApi, name: str, **spec: Any) -> None:
    found = api.find("flameclusters", name)
    assert found is not None
    metadata = found["metadata"] | {"generation": found["metadata"]["generation"] + 1}
    api.put("flameclusters", found | {"metadata": metadata, "spec": found["spec"] | spec})


def _executors(api: FakeApi, name: str) -> int:
    return sum(
        "executor-manager" in pod["metadata"]["name"]
        for pod in api.all("pods")
        if pod["metadata"]["labels"][LABEL] == name
    )


def _make_ready(api: FakeApi) -> None:
    for pod in api.all("pods"):
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        api.put("pods", pod | {"spec": pod["spec"] | {"nodeName": "n"}, "status": status})


async def _for(operator: Operator, seconds: float) -> None:
    """Run the operator for a while."""
    await _during(operator, lambda: asyncio.sleep(seconds))


async def _during(operator: Operator, script: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the operator while the script runs, then asks it to stop."""
    stop = asyncio.Event()
    running = asyncio.create_task(operator.run(stop))
    try:
        await script()
    finally:
        stop.set()
        await running


async def test_no_pass_starts_before_the_caches_have_synced() -> None:
    operator, api = _operator()
    _put_cluster(api, "first")
    api.fail("list", PODS.plural, broken(), times=3)
    seen: list[int] = []

    async def script() -> None:
        await asyncio.sleep(0.5)
        seen.append(len(api.writes))
        await asyncio.sleep(60)

    await _during(operator, script)
    assert seen == [0]
    assert _executors(api, "first") == 2


class _KeptOut(FakeApi):
    """Does not let the operator into some namespaces.

    Args:
        closed: Which ones.
    """

    def __init__(self, clock: VirtualClock, closed: set[str]) -> None:
        super().__init__(clock)
        self.closed = closed

    async def list_page(self, resource: Resource[T], namespace: str | None = None, **options: Any) -> Page[T]:
        if namespace in self.closed:
            raise ForbiddenError(403, "Forbidden", f"not in {namespace}")
        return await super().list_page(resource, namespace, **options)


async def test_forbidden_namespace_does_not_delay_the_others() -> None:
    api = _KeptOut(VirtualClock(), {"team-b"})
    operator, _ = _operator({"controller": {"namespaces": ["default", "team-b"]}}, api)
    _put_cluster(api, "first")
    metadata = {"name": "second", "namespace": "team-b", "generation": 1}
    api.put("flameclusters", {"metadata": metadata, "spec": raw_spec(replicas(1))})
    # As when its owner is known of before what is there of it.
    operator.stores.flame_clusters.apply(
        WatchEvent(EventType.ADDED, flame_cluster(metadata=ObjectMeta("second", "team-b", "u", "1")))
    )
    made: list[tuple[int, int]] = []

    async def script() -> None:
        for _ in range(2):
            await asyncio.sleep(60)
            made.append((_executors(api, "first"), _executors(api, "second")))
            api.closed.clear()

    await _during(operator, script)
    assert made == [(2, 0), (2, 1)]


class _SetBack(FakeApi):
    """Lists the Pods of an early copy of etcd once it was set back, or refuses to list them."""

    set_back = False
    refuses: ApiError | None = None

    async def list_page(self, resource: Resource[T], namespace: str | None = None, **options: Any) -> Page[T]:
        if self.refuses is not None and resource is PODS:
            raise self.refuses
        found = await super().list_page(resource, namespace, **options)
        return Page((), "1") if self.set_back and resource is PODS else found


async def test_no_pass_starts_while_a_list_contradicts_a_cache() -> None:
    api = _SetBack(VirtualClock())
    operator, _ = _operator(api=api)
    _put_cluster(api, "first")

    async def script() -> None:
        await asyncio.sleep(60)
        api.set_back = True
        for reflector in operator.reflectors:
            reflector.doubt()
        await asyncio.sleep(0.1)
        _edit_cluster(api, "first", **raw_spec(replicas(4)))
        await asyncio.sleep(60)

    with pytest.raises(TaskDiedError, match="etcd may have been restored"):
        await _during(operator, script)
    assert _executors(api, "first") == 2


@pytest.mark.parametrize(("seconds", "lists"), [(5.0, 1), (40.0, 2)], ids=["a moment", "for long"])
async def test_everything_is_listed_again_after_the_process_stood_still(seconds: float, lists: int) -> None:
    """Watches go on at once if etcd was set back meanwhile and the API server is there again."""
    listed: Counter[str] = Counter()

    class Counting(FakeApi):
        async def list_page(self, resource: Resource[T], namespace: str | None = None, **options: Any) -> Page[T]:
            listed[resource.plural] += 1
            return await super().list_page(resource, namespace, **options)

    operator, _ = _operator(api=Counting(VirtualClock()))

    async def script() -> None:
        await asyncio.sleep(60)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop.virtual_now += seconds
        await asyncio.sleep(15)
        assert listed == dict.fromkeys((each.plural for each in operator.reflectors), lists)

    await _during(operator, script)


async def _contradict(api: _SetBack, operator: Operator, refusal: ApiError) -> None:
    """Let an answer about a Pod contradict the cache while Pods cannot be listed, and edit the FlameCluster."""
    api.refuses = refusal
    next(each for each in operator.reflectors if each.plural == PODS.plural).doubt()
    await asyncio.sleep(0.1)
    _edit_cluster(api, "first", **raw_spec(replicas(4)))


@pytest.mark.parametrize("refusal", [ServerError(503), ForbiddenError(403)], ids=["error", "forbidden"])
async def test_no_pass_starts_between_an_answer_that_contradicts_a_cache_and_the_next_list_for_a_minute_at_most(
    refusal: ApiError,
) -> None:
    api = _SetBack(VirtualClock())
    operator, _ = _operator(api=api)
    _put_cluster(api, "first")
    made: list[int] = []

    async def script() -> None:
        await asyncio.sleep(60)
        await _contradict(api, operator, refusal)
        for _ in range(2):
            await asyncio.sleep(59)
            made.append(_executors(api, "first"))

    await _during(operator, script)
    assert made == [2, 4]


async def test_passes_start_again_after_a_list_that_agrees_with_the_cache() -> None:
    api = _SetBack(VirtualClock())
    operator, _ = _operator(api=api)
    _put_cluster(api, "first")

    async def script() -> None:
        await asyncio.sleep(60)
        await _contradict(api, operator, ServerError(503))
        await asyncio.sleep(10)
        assert _executors(api, "first") == 2
        api.refuses = None
        await asyncio.sleep(30)

    await _during(operator, script)
    assert _executors(api, "first") == 4


async def test_running_pass_finishes_before_the_operator_ends() -> None:
    operator, _ = _operator()
    done: list[Key] = []

    async def slow(key: Key) -> Result:
        await asyncio.sleep(5)
        done.append(key)
        return Result()

    operator._controller.reconcile = slow  # type: ignore[method-assign]

    async def script() -> None:
        await asyncio.sleep(1)
        operator.queue.add(("default", "a"))
        await asyncio.sleep(1)

    await _during(operator, script)
    assert done == [("default", "a")]


async def test_hanging_pass_does_not_prevent_the_end() -> None:
    operator, _ = _operator()

    async def stuck(key: Key) -> Result:
        await asyncio.Event().wait()
        raise AssertionError(key)

    operator._controller.reconcile = stuck  # type: ignore[method-assign]
    started = asyncio.get_running_loop().time()

    async def script() -> None:
        operator.queue.add(("default", "a"))
        await asyncio.sleep(1)

    await _during(operator, script)
    assert asyncio.get_running_loop().time() - started < 30


#: More passes than any of these tests has; who makes as many is in a busy loop.
TOO_MANY = 1000


def _passes(operator: Operator) -> list[float]:
    """When passes begin from now on, on the clock of the event loop.

    A busy loop does nothing any more after too many of them: time would stand still for as long as it goes on.
    """
    times: list[float] = []
    original = operator._controller.reconcile

    async def counting(key: Key) -> Result:
        times.append(asyncio.get_running_loop().time())
        return await original(key) if len(times) < TOO_MANY else Result()

    operator._controller.reconcile = counting  # type: ignore[method-assign]
    return times


async def test_quota_refusal_is_retried_with_backoff_up_to_a_minute() -> None:
    notes = Notes()
    operator, api = _operator(telemetry=notes)
    api.fail("create", PODS.plural, quota(), times=10_000)
    passes = _passes(operator)

    _put_cluster(api, "first", 3)
    await _for(operator, 600)
    assert notes.crashes == 0
    assert 10 <= len(passes) <= 40
    assert passes[-1] - passes[-2] <= 75


async def test_postponed_replacement_causes_no_busy_loop() -> None:
    notes = Notes()
    operator, api = _operator(telemetry=notes)
    passes = _passes(operator)
    series: list[list[float]] = []

    _put_cluster(api, "first", 2)

    async def script() -> None:
        await asyncio.sleep(1)
        _ready_since(api, "2025-01-01T00:00:00Z")
        await asyncio.sleep(3600)
        for delay in (0, 10, 20):
            passes.clear()
            newest = [pod for pod in api.all("pods") if "executor-manager" in pod["metadata"]["name"]][-1]
            api.put("pods", newest | {"status": {"phase": "Failed"}})
            failed = asyncio.get_running_loop().time()
            await asyncio.sleep(delay + 1)
            series.append([time - failed for time in passes])
            # A pass a minute after its grace period looks whether the executor has ended.
            await asyncio.sleep(120)

    await _during(operator, script)
    # A pass deletes what failed, another makes the replacement when it is time, and after each one finds nothing more to do.
    assert series == [[0, 0], [0, 0, 10, 10], [0, 0, 20, 20]]
    assert notes.crashes == 0
    assert {result for result, _ in notes.passes} <= {"success", "requeue", "requeue_after"}
    assert api.find("pods", "first-executor-manager-4") is not None, "all three were replaced"


def _ready_since(api: FakeApi, time: str) -> None:
    for pod in api.all("pods"):
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": time}
        api.put(
            "pods",
            pod | {"spec": pod["spec"] | {"nodeName": "n"}, "status": {"phase": "Running", "conditions": [ready]}},
        )


# --- Settings that change while it runs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "news",
    [
        lambda operator: operator.reconfigure(OperatorConfig.model_validate({"flame": {"initImage": "x"}})),
        Operator.clock_jumped,
    ],
    ids=["other settings of flame", "a jump of the server's clock"],
)
async def test_news_for_all_clusters_enqueue_them_with_low_priority(news: Callable[[Operator], None]) -> None:
    operator, _ = _operator()
    clusters = [flame_cluster(metadata=_meta(name, uid=name)) for name in ("a", "b", "c")]
    operator.stores.flame_clusters.replace(clusters, "5")
    await _queued(operator)

    news(operator)
    operator.stores.pods.apply(WatchEvent(EventType.ADDED, PodView(metadata=_meta(version=6, label="c"))))

    assert await _queued(operator) == ["default/c", "default/a", "default/b"]


@pytest.mark.parametrize("seconds", [10, 10_000])
async def test_resync_period_may_change_during_the_wait(seconds: float) -> None:
    operator, api = _operator({"controller": {"resyncSeconds": 1000}})
    _put_cluster(api, "first")
    passes = _passes(operator)

    async def script() -> None:
        await asyncio.sleep(1)
        _make_ready(api)
        await asyncio.sleep(500)
        passes.clear()
        operator.reconfigure(OperatorConfig.model_validate({"controller": {"resyncSeconds": seconds}}))
        await asyncio.sleep(100)

    await _during(operator, script)
    assert len(passes) == pytest.approx(100 / seconds, abs=2)
    assert bool(passes) == (seconds <= 100)


# --- Failing alone -----------------------------------------------------------------------------------------------------


async def test_unexpected_exception_in_a_pass_is_reported_as_a_crash_and_affects_no_other_cluster() -> None:
    notes = Notes()
    operator, api = _operator({"controller": {"workers": 1}}, telemetry=notes)
    _put_cluster(api, "bad")
    _put_cluster(api, "good")
    original = operator._controller.reconcile
    crashes = 0

    async def reconcile(key: Key) -> Result:
        nonlocal crashes
        if key[1] == "bad":
            crashes += 1
            raise RecursionError("a spec that nobody thought of")
        return await original(key)

    operator._controller.reconcile = reconcile  # type: ignore[method-assign]
    await _for(operator, 5)
    assert _executors(api, "good") == 2
    assert 1 < crashes < 6, "it is retried, with backoff"
    assert notes.crashes == len([each for each, _ in notes.passes if each == "error"]) == crashes


#: Just below what the API server takes.
DEPTH = 9_990
DEEP = (
    b'{"metadata":{"name":"deep","namespace":"default","uid":"u","resourceVersion":"50","generation":1},'
    b'"spec":{"sessionManager":{"image":"a"},"executorManager":{"image":"b"},"configOverrides":%s1%s}}'
    % (b'{"a":' * DEPTH, b"}" * DEPTH)
)


class DeepApi(FakeApi):
    """Has a FlameCluster that is nested deeper than Python likes, which the real API server takes up to ten thousand levels."""

    def _view(self, resource: Resource[T], manifest: dict[str, Any]) -> T:
        if manifest["metadata"]["name"] == "deep":
            return wire.decode(resource.view, DEEP)
        return super()._view(resource, manifest)


async def test_deeply_nested_spec_affects_no_other_cluster() -> None:
    operator, api = _operator(api=DeepApi(VirtualClock()))
    _put_cluster(api, "deep")
    _put_cluster(api, "good")
    await _for(operator, 5)
    assert _executors(api, "good") == 2


async def test_failed_task_ends_the_process() -> None:
    """A process without its watches or workers would look healthy and do nothing."""

    operator, _ = _operator()

    async def dies() -> None:
        raise ValueError("a bug")

    operator._resync = dies  # type: ignore[method-assign]
    with pytest.raises(TaskDiedError, match="resync"):
        await operator.run(asyncio.Event())


# --- What it tells -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (Result(), "success"),
        (Result(outcomes=(wait("A", "", 0.0),)), "requeue"),
        (Result(outcomes=(wait("A", "", 1e6),)), "requeue_after"),
        (Result((broken(),), (wait("A", "", 1e6),)), "error"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_telemetry_receives_result_and_duration_of_each_pass(result: Result, told: str) -> None:
    notes = Notes()
    operator, _ = _operator(telemetry=notes)

    async def reconcile(key: Key) -> Result:
        await asyncio.sleep(2)
        return result

    operator._controller.reconcile = reconcile  # type: ignore[method-assign]

    async def script() -> None:
        operator.queue.add(("default", "a"))
        await asyncio.sleep(2.1)

    await _during(operator, script)
    assert notes.passes[0] == (told, 2)
    assert notes.keys[:2] == [("added", 0), ("taken", 0)]


class _LateApi(FakeApi):
    """Answers writes of a status some time after they took effect, so that the watch is faster."""

    async def replace_status(self, resource: Resource[T], namespace: str, name: str, body: Mapping[str, Any]) -> T:
        answer = await super().replace_status(resource, namespace, name, body)
        await asyncio.sleep(0.1)
        return answer


@pytest.mark.parametrize("api", [FakeApi, _LateApi])
async def test_status_that_the_watch_brings_before_the_answer_causes_no_further_pass(api: type[FakeApi]) -> None:
    notes = Notes()
    operator, server = _operator(api=api(VirtualClock()), telemetry=notes)
    _put_cluster(server, "a")

    async def script() -> None:
        await asyncio.sleep(5)
        _make_ready(server)
        await asyncio.sleep(0.5)
        notes.passes.clear()
        server.writes.clear()
        _edit_cluster(server, "a", commonLabels={"team": "a"}, paused=True)
        await asyncio.sleep(5)

    await _during(operator, script)
    assert [verb for verb, plural, _ in server.writes if plural == "flameclusters"] == ["status"]
    assert len(notes.passes) == 1


async def test_edit_during_a_pass_is_followed_by_a_pass() -> None:
    operator, server = _operator(api=_LateApi(VirtualClock()))
    _put_cluster(server, "a")

    async def script() -> None:
        await asyncio.sleep(5)
        _edit_cluster(server, "a", paused=True)
        await asyncio.sleep(0.05)  # the status is written, and its answer is under way
        _edit_cluster(server, "a", paused=False)
        await asyncio.sleep(5)

    await _during(operator, script)
    status = server.present("flameclusters", "a")["status"]
    assert status["observedGeneration"] == 3
    assert status["reason"] != "Paused"


async def test_end_of_a_flame_cluster_during_a_pass_is_noticed() -> None:
    operator, server = _operator(api=_LateApi(VirtualClock()))
    _put_cluster(server, "a")

    async def script() -> None:
        await asyncio.sleep(5)
        _edit_cluster(server, "a", paused=True)
        await asyncio.sleep(0.05)
        server.remove("flameclusters", "a")
        await asyncio.sleep(5)

    await _during(operator, script)
    assert not operator._controller._states


# --- Its log -----------------------------------------------------------------------------------------------------------


async def _log_of(script: Callable[[FakeApi], Coroutine[Any, Any, None]]) -> Log:
    """Return the log of an operator while a script runs, with the values that are bound to its tasks."""
    with structlog.testing.capture_logs(processors=[add_context]) as lines:
        operator, api = _operator()
        await _during(operator, lambda: script(api))
    return lines


#: The keys on each line of a pass.
PASS = {"namespace", "cluster", "generation", "reconcile_id", "trigger"}
#: The keys on each line that says how a step ended.
STEP = {"subreconciler", "outcome", "writes", "duration_ms"}


async def _eventful(api: FakeApi) -> None:
    """A cluster is made, after some trouble, edited, and paused."""
    _put_cluster(api, "first")
    api.fail("create", PODS.plural, quota(), times=2)
    await asyncio.sleep(5)
    _make_ready(api)
    await asyncio.sleep(5)
    _edit_cluster(api, "first", **raw_spec({"executorManager": {"replicas": 3, "image": "example.com/newer:1"}}))
    await asyncio.sleep(5)
    _edit_cluster(api, "first", paused=True)
    await asyncio.sleep(5)


async def test_each_log_line_of_a_pass_has_cluster_id_and_trigger() -> None:
    lines = [line for line in await _log_of(_eventful) if line["event"] == "subreconciler"]
    log = [line for line in lines if line["outcome"] != "skipped"]

    assert {line["outcome"] for line in log} >= {"done", "wait", "error"}
    for line in log:
        assert line.keys() >= PASS | STEP, line
        assert (line["namespace"], line["cluster"]) == ("default", "first")
    assert {"FlameCluster", "Pod", "retry"} <= {part for line in log for part in line["trigger"].split(",")}


async def test_wait_or_failure_is_logged_with_its_reason() -> None:
    log = [line for line in await _log_of(_eventful) if line.get("outcome") in {"wait", "stop", "error"}]

    assert all(line["reason"] for line in log)
    assert {line["reason"] for line in log} >= {"QuotaExceeded"}
    assert (
        len([line for line in log if line["reason"] == "QuotaExceeded" and "exceeded quota: compute" in line["error"]])
        == 2
    )


async def test_nothing_is_logged_at_rest_above_debug() -> None:
    async def at_rest(api: FakeApi) -> None:
        _put_cluster(api, "first")
        await asyncio.sleep(5)
        _make_ready(api)
        await asyncio.sleep(700)
        structlog.get_logger().info("from here on")
        await asyncio.sleep(3600)
        structlog.get_logger().info("until here")

    events = [(line["event"], line["log_level"]) for line in await _log_of(at_rest)]

    rest = events[events.index(("from here on", "info")) + 1 : events.index(("until here", "info"))]
    assert len(rest) >= 5 * 6, "the resync looks at it"
    assert {level for _, level in rest} == {"debug"}


# --- What is watched ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("namespaces", "watched"), [([], [None]), (["a", "b"], ["a", "b"])], ids=["all namespaces", "some namespaces"]
)
def test_only_configured_namespaces_are_watched_and_children_by_label(
    namespaces: list[str], watched: list[str | None]
) -> None:
    operator, _ = _operator({"controller": {"namespaces": namespaces}})
    found = [(each._namespace, each._resource, each._label_selector) for each in operator.reflectors]

    assert len(found) == len(set(found))
    assert set(found) == {
        (namespace, resource, selector)
        for namespace in watched
        for resource, selector in (
            (FLAME_CLUSTERS, ""),
            (PODS, LABEL),
            (SERVICES, LABEL),
            (CONFIG_MAPS, LABEL),
            (CLAIMS, LABEL),
            (NETWORK_POLICIES, LABEL),
        )
    }
