"""Counters and histograms of the process for Prometheus.

Names, labels and buckets are those of controller-runtime (`pkg/metrics`, `pkg/internal/controller/metrics`) and client-go
(`k8s.io/component-base/metrics/prometheus`), so that their dashboards and alerts work. Metrics without a name there begin with
`flamectl_`. docs/monitoring.md explains each metric.

Each `Metrics` has its own registry, because there can be many in one process, as in tests. Values that are read at each scrape
are in `flamectl_operator.process.monitoring.collector`.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, get_args

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

from flamectl_operator.runtime.observer import Ended, Observer

if TYPE_CHECKING:
    from collections.abc import Callable

    from flamectl_operator.runtime.observer import StepReport

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


class Metrics(Observer):
    """The counters and histograms of a process.

    Args:
        controller: The value of the labels `controller` and `name`.
        version: The version of the program.
    """

    def __init__(self, controller: str, version: str) -> None:
        # Creation times would double each counter, and the process's start time gives the same information.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.controller = controller
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        info = Info("flamectl_build", "Versions of the operator and of Python.", registry=registry)
        info.info({"version": version, "python": platform.python_version()})
        self._make_queue(registry)
        self._make_passes(registry)
        self._make_requests(registry)
        self._make_others(registry)

    def _make_queue(self, registry: CollectorRegistry) -> None:
        labels, values = ("name", "controller"), (self.controller, self.controller)
        self._adds = Counter(
            "workqueue_adds_total", "Keys that were added to the queue.", labels, registry=registry
        ).labels(*values)
        self._retries = Counter(
            "workqueue_retries_total", "Keys that were added with a delay.", labels, registry=registry
        ).labels(*values)
        self._waited = Histogram(
            "workqueue_queue_duration_seconds",
            "Seconds that keys wait for a worker.",
            labels,
            buckets=QUEUE_BUCKETS,
            registry=registry,
        ).labels(*values)
        self._worked = Histogram(
            "workqueue_work_duration_seconds",
            "Seconds that workers process a key.",
            labels,
            buckets=QUEUE_BUCKETS,
            registry=registry,
        ).labels(*values)

    def _make_passes(self, registry: CollectorRegistry) -> None:
        label = ("controller",)
        self._passes = Counter(
            "controller_runtime_reconcile_total", "Passes, by result.", (*label, "result"), registry=registry
        )
        for result in get_args(Ended):
            self._passes.labels(self.controller, result)
        self._errors = Counter(
            "controller_runtime_reconcile_errors_total", "Passes that ended with an error.", label, registry=registry
        ).labels(self.controller)
        self._crashes = Counter(
            "controller_runtime_reconcile_panics_total",
            "Unexpected exceptions in passes, which are bugs of the operator.",
            label,
            registry=registry,
        ).labels(self.controller)
        self._pass_seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Seconds that passes take.",
            label,
            buckets=RECONCILE_BUCKETS,
            registry=registry,
        ).labels(self.controller)
        self._step_seconds = Histogram(
            "flamectl_subreconciler_duration_seconds",
            "Seconds that each step of a pass takes.",
            ("subreconciler",),
            buckets=STEP_BUCKETS,
            registry=registry,
        )
        self._step_outcomes = Counter(
            "flamectl_subreconciler_outcomes_total",
            "Steps of passes, by outcome.",
            ("subreconciler", "outcome"),
            registry=registry,
        )
        self._conflicts = Counter(
            "flamectl_stale_view_waits_total",
            "Writes that were postponed because the object had changed since it was read.",
            ("subreconciler",),
            registry=registry,
        )
        self._ready_seconds = Histogram(
            "flamectl_cluster_ready_seconds",
            "Seconds from the creation of a FlameCluster until it is ready for the first time.",
            buckets=READY_BUCKETS,
            registry=registry,
        )

    def _make_requests(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rest_client_requests_total",
            "Attempts of requests to the API server, by status code.",
            ("code", "method", "host"),
            registry=registry,
        )
        self._request_seconds = Histogram(
            "rest_client_request_duration_seconds",
            "Seconds that attempts of requests take, except watches.",
            ("verb", "host"),
            buckets=REQUEST_BUCKETS,
            registry=registry,
        )

        self._held_back_seconds = Histogram(
            "rest_client_rate_limiter_duration_seconds",
            "Seconds that requests wait for the operator's own limits, except watches.",
            ("verb", "host"),
            buckets=REQUEST_BUCKETS,
            registry=registry,
        )

    def _make_others(self, registry: CollectorRegistry) -> None:
        self._leader = Gauge(
            "leader_election_master_status", "Whether this process holds the Lease.", ("name",), registry=registry
        )
        self._lag = Gauge(
            "flamectl_event_loop_lag_seconds",
            "Seconds by which the last heartbeat of the event loop was late.",
            registry=registry,
        )
        self._reload_success = Gauge(
            "flamectl_config_reload_success",
            "Whether the last settings that were read are in force; 0 when they were rejected.",
            registry=registry,
        )
        self._reload_success.set(1)
        self._restart_needed = Gauge(
            "flamectl_config_restart_needed",
            "Whether a changed setting needs a restart.",
            registry=registry,
        )

    def watch_event_loop(self, lag: Callable[[], float]) -> None:
        """Export the lag of the event loop in seconds, read at each scrape."""
        self._lag.set_function(lag)

    def watch_election(self, name: str, leads: Callable[[], bool]) -> None:
        """Export which replica leads.

        Args:
            name: The name of the Lease.
            leads: Returns whether this process leads; called at each scrape.
        """
        self._leader.labels(name).set_function(leads)

    def watch_config(self, refused: Callable[[], object], restart_needed: Callable[[], object]) -> None:
        """Export the result of reading the settings again.

        Args:
            refused: Returns a true value if the last settings that were read are not in force.
            restart_needed: Returns a true value if a setting needs a restart.
        """
        self._reload_success.set_function(lambda: not refused())
        self._restart_needed.set_function(lambda: bool(restart_needed()))

    def key_added(self) -> None:
        """See `Observer`."""
        self._adds.inc()

    def key_retried(self) -> None:
        """See `Observer`."""
        self._retries.inc()

    def key_taken(self, waited: float) -> None:
        """See `Observer`."""
        self._waited.observe(waited)

    def key_done(self, worked: float) -> None:
        """See `Observer`."""
        self._worked.observe(worked)

    def pass_ended(self, result: Ended, seconds: float) -> None:
        """See `Observer`."""
        self._passes.labels(self.controller, result).inc()
        self._pass_seconds.observe(seconds)
        if result == "error":
            self._errors.inc()

    def pass_crashed(self) -> None:
        """See `Observer`."""
        self._crashes.inc()

    def step_ended(self, report: StepReport) -> None:
        """See `Observer`."""
        self._step_seconds.labels(report.name).observe(report.seconds)
        self._step_outcomes.labels(report.name, report.outcome).inc()
        self._conflicts.labels(report.name).inc(report.conflicts)

    def first_ready(self, seconds: float) -> None:
        """See `Observer`."""
        self._ready_seconds.observe(seconds)

    def request_answered(self, method: str, host: str, code: int | None) -> None:
        """See `Observer`."""
        self._requests.labels(NO_ANSWER if code is None else code, method, host).inc()

    def request_held_back(self, method: str, host: str, seconds: float) -> None:
        """See `Observer`."""
        self._held_back_seconds.labels(method, host).observe(seconds)

    def request_ended(self, method: str, host: str, seconds: float) -> None:
        """See `Observer`."""
        self._request_seconds.labels(method, host).observe(seconds)
