"""Metrics that are read from the operator's parts at each scrape, so that the series of a FlameCluster end with it."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from flamectl_operator.api.status import ConditionType
from flamectl_operator.kube.cache.reflector import Reflector
from flamectl_operator.operator import Operator
from flamectl_operator.process.monitoring.cluster_samples import EXCEPTIONS, STATES, ClusterSamples, Entry, Numbers
from flamectl_operator.process.monitoring.metrics import CONTROLLER
from flamectl_operator.runtime.clock import Clock
from flamectl_operator.runtime.workqueue import Priority

Family = CounterMetricFamily | GaugeMetricFamily

#: The label `priority` with controller-runtime's values (`handler.LowPriority` is -100).
_PRIORITIES = {Priority.NORMAL: "0", Priority.LOW: "-100"}
_QUEUE = ("name", "controller")
_CLUSTER = ("namespace", "cluster")

#: The labels and the help of each metric. They are gauges, except those of `_COUNTERS`.
_FAMILIES: dict[str, tuple[Sequence[str], str]] = {
    "workqueue_depth": (
        (*_QUEUE, "priority"),
        "Keys that wait for a worker, including keys that were added again while a worker holds them.",
    ),
    "workqueue_unfinished_work_seconds": (_QUEUE, "Seconds of work in progress, summed over all workers."),
    "workqueue_longest_running_processor_seconds": (
        _QUEUE,
        "Seconds that the longest-running worker has been processing its key.",
    ),
    "controller_runtime_active_workers": (("controller",), "Workers that process a key."),
    "controller_runtime_max_concurrent_reconciles": (("controller",), "Number of workers."),
    "flamectl_watch_restarts": (("resource",), "Lists and watches that were restarted after an error."),
    "flamectl_watch_last_contact_seconds": (
        ("resource",),
        "Seconds since the last response of the API server; the longest time among the watches of the resource.",
    ),
    "flamectl_events_dropped": ((), "Events that were not written because of a limit or an error."),
    "flamectl_clusters": (("state",), "FlameClusters, by state."),
    "flamectl_executors_desired": (_CLUSTER, "Wanted executors; 0 while suspended."),
    "flamectl_executors_ready": (_CLUSTER, "Ready executors."),
    "flamectl_object_caches_desired": (_CLUSTER, "Wanted object caches; 0 while suspended."),
    "flamectl_object_caches_ready": (_CLUSTER, "Object caches that are ready."),
    "flamectl_executors_registered": (_CLUSTER, "Executors that are registered with Flame, where it can be asked."),
    "flamectl_executors_draining": (_CLUSTER, "Executors that end their work before they are deleted."),
    "flamectl_sessions_open": (_CLUSTER, "Open sessions, where Flame can be asked."),
    "flamectl_tasks_pending": (_CLUSTER, "Waiting tasks of open sessions."),
    "flamectl_tasks_running": (_CLUSTER, "Running tasks of open sessions."),
    "flamectl_tasks_failed": (_CLUSTER, "Failed tasks of open sessions."),
    "flamectl_sessions_paused": (_CLUSTER, "Open sessions to which Flame assigns no more executors."),
    "flamectl_session_manager_reachable": (_CLUSTER, "Whether the session manager answers the operator."),
    "flamectl_cluster_condition": (
        (*_CLUSTER, "condition"),
        "Whether the FlameCluster is ready, and which exceptional conditions are true.",
    ),
}
_COUNTERS = {"flamectl_watch_restarts", "flamectl_events_dropped"}


class OperatorCollector(Collector):
    """Reads the metrics of the running operator. A replica that stands by has none, so that the sum over replicas is right."""

    def __init__(self, operator: Callable[[], Operator | None], workers: Callable[[], int], clock: Clock) -> None:
        self._operator = operator
        self._workers = workers
        self._clock = clock
        self._samples = ClusterSamples()

    def describe(self) -> Iterable[Family]:
        """Return all families without values."""
        return [
            (CounterMetricFamily if name in _COUNTERS else GaugeMetricFamily)(name, text, labels=labels)
            for name, (labels, text) in _FAMILIES.items()
        ]

    def collect(self) -> Iterable[Family]:
        """Return all families with their present values."""
        families = {family.name: family for family in self.describe()}
        operator = self._operator()
        if operator is not None:
            self._read_queue(operator, families)
            self._read_watches(operator, families)
            families["flamectl_events_dropped"].add_metric((), operator.events.dropped)
            if operator.some_synced:
                clusters = operator.stores.flame_clusters.all()
                _read_clusters(self._samples.sample(each for each in clusters if not each.terminating), families)
        return families.values()

    def _read_queue(self, operator: Operator, families: dict[str, Family]) -> None:
        queue, name = operator.queue, CONTROLLER
        now = self._clock.monotonic()
        ages = [now - since for since in queue.processing.values()]
        for priority, label in _PRIORITIES.items():
            families["workqueue_depth"].add_metric((name, name, label), queue.depth(priority))
        families["workqueue_unfinished_work_seconds"].add_metric((name, name), sum(ages))
        families["workqueue_longest_running_processor_seconds"].add_metric((name, name), max(ages, default=0.0))
        families["controller_runtime_active_workers"].add_metric((name,), len(ages))
        families["controller_runtime_max_concurrent_reconciles"].add_metric((name,), self._workers())

    def _read_watches(self, operator: Operator, families: dict[str, Family]) -> None:
        by_resource: dict[str, list[Reflector[Any]]] = {}
        for reflector in operator.reflectors:
            by_resource.setdefault(reflector.plural, []).append(reflector)
        now = self._clock.monotonic()
        for resource, reflectors in sorted(by_resource.items()):
            restarts = sum(reflector.restarts for reflector in reflectors)
            families["flamectl_watch_restarts"].add_metric((resource,), restarts)
            # A watch that has never received anything has waited since its start.
            since = [each.begun if each.last_contact is None else each.last_contact for each in reflectors]
            if (known := [time for time in since if time is not None]) == since:
                families["flamectl_watch_last_contact_seconds"].add_metric((resource,), now - min(known))


def _read_clusters(entries: Sequence[Entry], families: dict[str, Family]) -> None:
    count = Counter(entry.state for entry in entries)
    for state in STATES:
        families["flamectl_clusters"].add_metric((state,), count[state])
    conditions = families["flamectl_cluster_condition"]
    for entry in entries:
        key = (entry.namespace, entry.name)
        for name, value in zip(Numbers._fields, entry.numbers, strict=True):
            if value is not None:
                families[f"flamectl_{name}"].add_metric(key, value)
        conditions.add_metric((*key, ConditionType.READY), ConditionType.READY in entry.conditions)
        # Only true conditions, which are few, because each series costs time at each scrape.
        for condition in EXCEPTIONS:
            if condition in entry.conditions:
                conditions.add_metric((*key, condition), 1)
