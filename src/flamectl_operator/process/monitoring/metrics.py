"""Counters and histograms of the process for Prometheus.

Names, labels and buckets are those of controller-runtime (`pkg/metrics`, `pkg/internal/controller/metrics`) and client-go
(`k8s.io/component-base/metrics/prometheus`), so that their dashboards and alerts work. Metrics without a name there begin with
`flamectl_`. docs/monitoring.md explains each metric.
"""

import platform
from collections.abc import Callable
from functools import cache
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)

from flamectl_operator.runtime.telemetry import Ended, Telemetry
from flamectl_operator.runtime.workflow import Place

#: From 10 ns to 1000 s, as client-go's: `prometheus.ExponentialBuckets(10e-9, 10, 12)`.
QUEUE_BUCKETS = tuple(float(f"1e{exponent}") for exponent in range(-8, 4))

#: Up to a minute, as controller-runtime's.
RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
    *(1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0),
    *(10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)

#: As component-base's.
REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)

#: A step that does nothing takes a fraction of a millisecond; a step that creates hundreds of Pods takes seconds.
STEP_BUCKETS = (0.0001, 0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

#: Image pulls take seconds or many minutes; a wait of an hour needs a person.
READY_BUCKETS = (1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)

#: component-base's code of a request without a response. Error texts would give too many series.
NO_ANSWER = "<error>"
#: The labels `controller` and `name`, as controller-runtime would have them: the kind in lower case.
CONTROLLER = "flamecluster"


class Metrics(Telemetry):
    """The counters and histograms of a process."""

    def __init__(self, version: str) -> None:
        # Creation times would double each counter, and the process's start time gives the same information.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        info = Info("flamectl_build", "Versions of the operator and of Python.", registry=registry)
        info.info({"version": version, "python": platform.python_version()})
        self._make_queue()
        self._make_passes()
        self._make_requests()
        self._make_others()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

    def _make_queue(self) -> None:
        labels, values, buckets = ("name", "controller"), (CONTROLLER, CONTROLLER), QUEUE_BUCKETS
        adds = self._counter("workqueue_adds_total", "Keys that were added to the queue.", *labels)
        retries = self._counter("workqueue_retries_total", "Keys that were added with a delay.", *labels)
        waited = self._histogram(
            "workqueue_queue_duration_seconds", "Seconds that keys wait for a worker.", buckets, *labels
        )
        worked = self._histogram(
            "workqueue_work_duration_seconds", "Seconds that workers process a key.", buckets, *labels
        )
        self._adds, self._retries = adds.labels(*values), retries.labels(*values)
        self._waited, self._worked = waited.labels(*values), worked.labels(*values)

    def _make_passes(self) -> None:
        label = "controller"
        passes = self._counter("controller_runtime_reconcile_total", "Passes, by result.", label, "result")
        self._passes = {result: passes.labels(CONTROLLER, result) for result in get_args(Ended)}
        self._errors = self._counter(
            "controller_runtime_reconcile_errors_total", "Passes that ended with an error.", label
        ).labels(CONTROLLER)
        self._crashes = self._counter(
            "controller_runtime_reconcile_panics_total",
            "Unexpected exceptions in passes and questions to session managers, which are bugs of the operator.",
            label,
        ).labels(CONTROLLER)
        self._pass_seconds = self._histogram(
            "controller_runtime_reconcile_time_seconds", "Seconds that passes take.", RECONCILE_BUCKETS, label
        ).labels(CONTROLLER)
        step = ("subreconciler", "part", "phase")
        seconds = self._histogram(
            "flamectl_subreconciler_duration_seconds", "Seconds that each step of a pass takes.", STEP_BUCKETS, *step
        )
        outcomes = self._counter(
            "flamectl_subreconciler_outcomes_total", "Steps of passes, by outcome.", *step, "outcome"
        )
        conflicts = self._counter(
            "flamectl_stale_view_waits_total",
            "Writes that were postponed because the object had changed since it was read.",
            *step,
        )
        self._doubts = self._counter(
            "flamectl_cache_doubts_total",
            "Answers of the API server that contradicted the cache, after which everything was listed again.",
        )
        # Each step of each pass needs them, and a lookup by labels takes twice as long as the change of a value.
        self._step_seconds, self._step_outcomes = cache(seconds.labels), cache(outcomes.labels)
        self._conflicts = cache(conflicts.labels)
        self._ready_seconds = self._histogram(
            "flamectl_cluster_ready_seconds",
            "Seconds from the creation of a FlameCluster until it is ready for the first time.",
            READY_BUCKETS,
        )

    def _make_requests(self) -> None:
        requests = self._counter(
            "rest_client_requests_total",
            "Attempts of requests to the API server, by status code.",
            *("code", "method", "host"),
        )
        seconds = self._histogram(
            "rest_client_request_duration_seconds",
            "Seconds that attempts of requests take, except watches.",
            REQUEST_BUCKETS,
            *("verb", "host"),
        )
        held_back_seconds = self._histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Seconds that requests wait for the operator's own limits, except watches.",
            REQUEST_BUCKETS,
            *("verb", "host"),
        )
        self._requests, self._request_seconds = cache(requests.labels), cache(seconds.labels)
        self._held_back_seconds = cache(held_back_seconds.labels)

    def _make_others(self) -> None:
        self._leader = self._gauge("leader_election_master_status", "Whether this process holds the Lease.", "name")
        self._lag = self._gauge(
            "flamectl_event_loop_lag_seconds", "Seconds by which the last heartbeat of the event loop was late."
        )
        self._reload_success = self._gauge(
            "flamectl_config_reload_success",
            "Whether the last settings that were read are in force; 0 when they were rejected.",
        )
        self._reload_success.set(1)
        self._restart_needed = self._gauge(
            "flamectl_config_restart_needed", "Whether a changed setting needs a restart."
        )

    def watch_event_loop(self, lag: Callable[[], float]) -> None:
        """Export the lag of the event loop in seconds, read at each scrape."""
        self._lag.set_function(lag)

    def watch_election(self, name: str, leads: Callable[[], bool]) -> None:
        """Export which replica leads."""
        self._leader.labels(name).set_function(leads)

    def watch_config(self, refused: Callable[[], object], restart_needed: Callable[[], object]) -> None:
        """Export whether the last settings that were read are refused, and whether one needs a restart."""
        self._reload_success.set_function(lambda: not refused())
        self._restart_needed.set_function(lambda: bool(restart_needed()))

    def key_added(self) -> None:
        """Count a key that was added to the queue."""
        self._adds.inc()

    def key_retried(self) -> None:
        """Count a key that was added to the queue with a delay."""
        self._retries.inc()

    def key_taken(self, waited: float) -> None:
        """Record how long a key waited for a worker."""
        self._waited.observe(waited)

    def key_done(self, worked: float) -> None:
        """Record how long the work on a key took."""
        self._worked.observe(worked)

    def pass_ended(self, result: Ended, seconds: float) -> None:
        """Count a pass by its result, and record how long it took."""
        self._passes[result].inc()
        self._pass_seconds.observe(seconds)
        if result == "error":
            self._errors.inc()

    def bug_found(self) -> None:
        """Count an unexpected exception."""
        self._crashes.inc()

    def step_ended(self, place: Place, outcome: str, seconds: float, conflicts: int) -> None:
        """Count an outcome and the conflicts of a step, and record how long it took."""
        names = (place.subreconciler, place.part, place.phase)
        self._step_seconds(*names).observe(seconds)
        self._step_outcomes(*names, outcome).inc()
        all_conflicts = self._conflicts(*names)
        if conflicts:
            all_conflicts.inc(conflicts)

    def cache_doubted(self) -> None:
        """Count an answer that contradicted the cache."""
        self._doubts.inc()

    def first_ready(self, seconds: float) -> None:
        """Record how long an object took to become ready for the first time."""
        self._ready_seconds.observe(seconds)

    def request_answered(self, method: str, host: str, code: int | None) -> None:
        """Count an attempt at a request by its status code."""
        self._requests(NO_ANSWER if code is None else code, method, host).inc()

    def request_held_back(self, method: str, host: str, seconds: float) -> None:
        """Record how long a request waited for the operator's own limits."""
        self._held_back_seconds(method, host).observe(seconds)

    def request_ended(self, method: str, host: str, seconds: float) -> None:
        """Record how long an attempt at a request took."""
        self._request_seconds(method, host).observe(seconds)
