"""What can be read off the operator's parts at the moment when Prometheus asks.

Nothing of it is kept: the series of a FlameCluster end with it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from flamectl_operator.api.status import ConditionType
from flamectl_operator.monitoring.census import EXCEPTIONS, STATES, take
from flamectl_operator.runtime.workqueue import Priority

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from flamectl_operator.kube.reflector import Reflector
    from flamectl_operator.operator import Operator
    from flamectl_operator.runtime.clock import Clock

Family = CounterMetricFamily | GaugeMetricFamily

#: The label `priority` in controller-runtime's words (`handler.LowPriority` is -100).
_PRIORITIES = {Priority.NORMAL: "0", Priority.LOW: "-100"}
_QUEUE = ("name", "controller")
_CLUSTER = ("namespace", "cluster")

#: What kind of metric each is, with its help and its labels.
_FAMILIES: dict[str, tuple[type[Family], str, Sequence[str]]] = {
    "workqueue_depth": (
        GaugeMetricFamily,
        "Keys that need work, those included that a worker has in hand and that were added again.",
        (*_QUEUE, "priority"),
    ),
    "workqueue_unfinished_work_seconds": (
        GaugeMetricFamily,
        "How long workers have been at what they are at, together.",
        _QUEUE,
    ),
    "workqueue_longest_running_processor_seconds": (
        GaugeMetricFamily,
        "How long the worker has been at it that has been longest.",
        _QUEUE,
    ),
    "controller_runtime_active_workers": (GaugeMetricFamily, "Workers that are at work.", ("controller",)),
    "controller_runtime_max_concurrent_reconciles": (GaugeMetricFamily, "Workers that there are.", ("controller",)),
    "flamectl_watch_restarts": (
        CounterMetricFamily,
        "Lists and watches that were begun again after they failed.",
        ("resource",),
    ),
    "flamectl_watch_last_contact_seconds": (
        GaugeMetricFamily,
        "How long ago the API server last gave a sign of life, to the watch that has waited longest.",
        ("resource",),
    ),
    "flamectl_events_dropped": (
        CounterMetricFamily,
        "Events that were not written, be it for their number or for an error.",
        (),
    ),
    "flamectl_clusters": (GaugeMetricFamily, "FlameClusters, by state.", ("state",)),
    "flamectl_executors_desired": (
        GaugeMetricFamily,
        "Executors that there should be; none while suspended.",
        _CLUSTER,
    ),
    "flamectl_executors_ready": (GaugeMetricFamily, "Executors that are ready.", _CLUSTER),
    "flamectl_cluster_condition": (
        GaugeMetricFamily,
        "Whether the FlameCluster is ready, and what other condition of note is true.",
        (*_CLUSTER, "condition"),
    ),
}


class OperatorCollector(Collector):
    """Reads the operator that there is, if there is one.

    Args:
        operator: Gives the operator; None while this process stands by, or has not started. So only the replica that works
            counts FlameClusters, and the sum over all replicas is their number.
        controller: What it is called in labels.
        workers: Gives how many passes it makes at a time.
        clock: The time.
    """

    def __init__(
        self, operator: Callable[[], Operator | None], controller: str, workers: Callable[[], int], clock: Clock
    ) -> None:
        self._operator = operator
        self._controller = controller
        self._workers = workers
        self._clock = clock

    def describe(self) -> Iterable[Family]:
        """All metrics that there may be."""
        return [family(name, text, labels=labels) for name, (family, text, labels) in _FAMILIES.items()]

    def collect(self) -> Iterable[Family]:
        """All metrics, as they are now."""
        families = {family.name: family for family in self.describe()}
        operator = self._operator()
        if operator is not None:
            self._read_queue(operator, families)
            self._read_watches(operator, families)
            families["flamectl_events_dropped"].add_metric((), operator.events.dropped)
            if operator.some_known:
                _read_clusters(operator, families)
        return families.values()

    def _read_queue(self, operator: Operator, families: dict[str, Family]) -> None:
        queue, name = operator.queue, self._controller
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
            # One that has never heard anything has been waiting since it began.
            since = [each.begun if each.last_contact is None else each.last_contact for each in reflectors]
            if (known := [time for time in since if time is not None]) == since:
                families["flamectl_watch_last_contact_seconds"].add_metric((resource,), now - min(known))


def _read_clusters(operator: Operator, families: dict[str, Family]) -> None:
    entries = [take(cluster) for cluster in operator.stores.flame_clusters.all() if not cluster.terminating]
    count = Counter(entry.state for entry in entries)
    for state in STATES:
        families["flamectl_clusters"].add_metric((state,), count[state])
    desired, ready = families["flamectl_executors_desired"], families["flamectl_executors_ready"]
    conditions = families["flamectl_cluster_condition"]
    for entry in entries:
        key = (entry.namespace, entry.name)
        desired.add_metric(key, entry.desired)
        ready.add_metric(key, entry.ready)
        conditions.add_metric((*key, ConditionType.READY), ConditionType.READY in entry.conditions)
        # Only those that are true, which are few: each series costs time at each scrape.
        for condition in EXCEPTIONS:
            if condition in entry.conditions:
                conditions.add_metric((*key, condition), 1)
