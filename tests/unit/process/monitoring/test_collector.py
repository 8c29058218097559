"""The metrics that an operator exports about its present state."""

import asyncio
from random import Random
from typing import Any

from prometheus_client import CollectorRegistry

from flamectl_operator.kube.client import EventType, WatchEvent
from flamectl_operator.kube.events import ObjectReference
from flamectl_operator.kube.views import ObjectMeta
from flamectl_operator.operator import Environment, Operator
from flamectl_operator.process.monitoring.collector import OperatorCollector
from flamectl_operator.runtime.workqueue import Priority
from flamectl_operator.settings.model import OperatorConfig
from tests.unit.builders import flame_cluster
from tests.unit.kube.objects import DELETED_AT
from tests.unit.runtime.virtual_time import VirtualClock
from tests.unit.subreconcilers.fake_api import FakeApi

QUEUE = {"name": "flamecluster", "controller": "flamecluster"}


class Scene:
    """An operator that does not run, and a registry that reads it.

    Args:
        namespaces: The namespaces that it watches.
        synced: Whether its caches are.
    """

    def __init__(self, *namespaces: str, synced: bool = True) -> None:
        clock = VirtualClock()
        config = OperatorConfig.model_validate({"controller": {"namespaces": list(namespaces), "workers": 3}})
        self.operator = Operator(FakeApi(clock), config, Environment(clock, Random(0)), "test", "us")
        self.works = True
        self.registry = CollectorRegistry()
        self.collector = OperatorCollector(lambda: self.operator if self.works else None, lambda: 3, clock)
        self.registry.register(self.collector)
        self._revision = 0
        if synced:
            self.sync()

    def sync(self) -> None:
        for reflector in self.operator.reflectors:
            reflector.synced.set()

    def put(self, name: str, *, terminating: bool = False, **status: Any) -> None:
        self._apply(EventType.MODIFIED, name, terminating=terminating, status=status)

    def remove(self, name: str) -> None:
        self._apply(EventType.DELETED, name)

    def _apply(
        self, kind: EventType, name: str, *, terminating: bool = False, status: dict[str, Any] | None = None
    ) -> None:
        self._revision += 1
        metadata = ObjectMeta(
            name=name,
            namespace="team",
            uid=name,
            resource_version=str(self._revision),
            deletion_timestamp=DELETED_AT if terminating else None,
        )
        view = flame_cluster(metadata=metadata, spec={"executorManager": {"replicas": 3}}, status=status or {})
        self.operator.stores.flame_clusters.apply(WatchEvent(kind, view))

    def value(self, sample: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(sample, labels)

    def series(self, metric: str) -> set[tuple[str, ...]]:
        """The label values of all series of a metric."""
        return {
            tuple(sample.labels.values())
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == metric
        }


# The queue


async def test_queue_metrics_show_the_present_queue() -> None:
    scene = Scene()
    queue = scene.operator.queue
    for name in "abc":
        queue.add(("team", name))
    queue.add(("team", "late"), Priority.LOW)
    await queue.get()
    await asyncio.sleep(10)
    await queue.get()
    await asyncio.sleep(5)

    assert scene.value("workqueue_depth", **QUEUE, priority="0") == 1
    assert scene.value("workqueue_depth", **QUEUE, priority="-100") == 1
    assert scene.value("workqueue_unfinished_work_seconds", **QUEUE) == 20
    assert scene.value("workqueue_longest_running_processor_seconds", **QUEUE) == 15
    assert scene.value("controller_runtime_active_workers", controller="flamecluster") == 2
    assert scene.value("controller_runtime_max_concurrent_reconciles", controller="flamecluster") == 3


# Watches


async def test_watch_metrics_take_the_most_silent_watch_of_a_resource() -> None:
    scene = Scene("a", "b")
    pods = [reflector for reflector in scene.operator.reflectors if reflector.plural == "pods"]
    now = asyncio.get_running_loop().time()
    pods[0].restarts, pods[0].last_contact = 2, now - 10
    pods[1].restarts, pods[1].last_contact = 3, now - 60

    assert scene.value("flamectl_watch_restarts_total", resource="pods") == 5
    assert scene.value("flamectl_watch_last_contact_seconds", resource="pods") == 60
    assert scene.series("flamectl_watch_restarts_total") == {
        ("configmaps",),
        ("flameclusters",),
        ("networkpolicies",),
        ("persistentvolumeclaims",),
        ("pods",),
        ("services",),
    }


# The process


async def test_events_that_were_dropped_are_counted() -> None:
    scene = Scene()
    about = ObjectReference("v1", "Pod", "team", "a", "uid")
    for number in range(60):
        scene.operator.events.event(about, "Warning", "Told", str(number))

    dropped = scene.operator.events.dropped
    assert dropped > 0
    assert scene.value("flamectl_events_dropped_total") == dropped


# FlameClusters


async def test_clusters_are_counted_by_state_and_each_state_is_there() -> None:
    scene = Scene()
    scene.put("a", state="Running")
    scene.put("b", state="Running")
    scene.put("c", state="Failed")
    scene.put("d")

    states = {
        state: scene.value("flamectl_clusters", state=state) for state in ("Running", "Pending", "Failed", "Unknown")
    }
    assert states == {"Running": 2, "Pending": 0, "Failed": 1, "Unknown": 1}
    assert len(scene.series("flamectl_clusters")) == 4


async def test_a_cluster_has_its_executors_and_conditions() -> None:
    scene = Scene()
    conditions = [{"type": "Ready", "status": "True"}, {"type": "Degraded", "status": "False"}]
    scene.put("a", executorManager={"ready": 2}, conditions=conditions)

    key = {"namespace": "team", "cluster": "a"}
    assert scene.value("flamectl_executors_desired", **key) == 3
    assert scene.value("flamectl_executors_ready", **key) == 2
    found = {each: scene.value("flamectl_cluster_condition", **key, condition=each) for each in ("Ready", "Degraded")}
    assert found == {"Ready": 1, "Degraded": None}


async def test_ready_is_exported_always_and_exceptional_conditions_while_true() -> None:
    scene = Scene()
    for kind in ("Degraded", "Suspended", "Paused"):
        scene.put("a", conditions=[{"type": kind, "status": "True"}, {"type": "Progressing", "status": "True"}])

        key = {"namespace": "team", "cluster": "a"}
        assert scene.value("flamectl_cluster_condition", **key, condition="Ready") == 0
        assert scene.value("flamectl_cluster_condition", **key, condition=kind) == 1
        assert len(scene.series("flamectl_cluster_condition")) == 2


async def test_series_of_a_deleted_cluster_end() -> None:
    scene = Scene()
    for name in ("a", "b", "c"):
        scene.put(name)
    scene.put("b", terminating=True)
    scene.remove("c")

    assert scene.series("flamectl_executors_desired") == {("team", "a")}
    assert scene.series("flamectl_executors_ready") == {("team", "a")}
    assert {cluster for _, cluster, _ in scene.series("flamectl_cluster_condition")} == {"a"}
    assert scene.value("flamectl_clusters", state="Unknown") == 1


async def test_clusters_are_counted_only_by_the_working_replica_after_sync() -> None:
    scene = Scene(synced=False)
    scene.put("a")
    assert scene.series("flamectl_clusters") == set()

    scene.sync()
    assert scene.series("flamectl_clusters") != set()

    scene.works = False
    assert scene.series("flamectl_clusters") == scene.series("flamectl_executors_desired") == set()
    assert scene.series("workqueue_depth") == set()


async def test_collector_describes_every_metric() -> None:
    scene = Scene()
    scene.put("a")

    described = {(metric.name, metric.type, metric.documentation) for metric in scene.collector.describe()}
    assert described == {(metric.name, metric.type, metric.documentation) for metric in scene.collector.collect()}
    assert all(not metric.samples for metric in scene.collector.describe())
