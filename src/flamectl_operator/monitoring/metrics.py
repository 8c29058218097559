"""What a process counts and measures, for Prometheus.

Names, labels and buckets are those of controller-runtime (`pkg/metrics`, `pkg/internal/controller/metrics`) and client-go
(`k8s.io/component-base/metrics/prometheus`), so that dashboards and alerts made for those work; what they have no name for
begins with `flamectl_`. docs/monitoring.md explains each of them.

Each `Metrics` has a registry of its own: there can be many in one process, as in tests. What can be read off the operator's
parts when Prometheus asks is not here, see `flamectl_operator.monitoring.collector`.
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

from flamectl_operator.runtime.observer import Observer, Result

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

#: A step that does nothing takes a fraction of a millisecond; one that creates hundreds of Pods, seconds.
STEP_BUCKETS = (0.0001, 0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

#: Images are pulled in seconds or in many minutes; who waits for an hour waits for a person.
READY_BUCKETS = (1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)

#: What component-base gives as the code of a request that got no answer. Errors' texts would be without number.
NO_ANSWER = "<error>"


class Metrics(Observer):
    """All that is counted and measured while it happens.

    Args:
        controller: The name that it goes by in the labels `controller` and `name`.
        version: Of the program.
    """

    def __init__(self, controller: str, version: str) -> None:
        # When a series began says nothing that the process' start time does not, and doubles each counter.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.controller = controller
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        info = Info("flamectl_build", "Which operator this is, and which Python runs it.", registry=registry)
        info.info({"version": version, "python": platform.python_version()})
        self._make_queue(registry)
        self._make_passes(registry)
        self._make_requests(registry)
        self._make_others(registry)

    def _make_queue(self, registry: CollectorRegistry) -> None:
        labels, values = ("name", "controller"), (self.controller, self.controller)
        self._adds = Counter(
            "workqueue_adds_total", "Keys that were marked as in need of work.", labels, registry=registry
        ).labels(*values)
        self._retries = Counter(
            "workqueue_retries_total", "Keys that were put off to a later time.", labels, registry=registry
        ).labels(*values)
        self._waited = Histogram(
            "workqueue_queue_duration_seconds",
            "How long keys wait for a worker.",
            labels,
            buckets=QUEUE_BUCKETS,
            registry=registry,
        ).labels(*values)
        self._worked = Histogram(
            "workqueue_work_duration_seconds",
            "How long workers work on a key.",
            labels,
            buckets=QUEUE_BUCKETS,
            registry=registry,
        ).labels(*values)

    def _make_passes(self, registry: CollectorRegistry) -> None:
        label = ("controller",)
        self._passes = Counter(
            "controller_runtime_reconcile_total", "Passes, by how they ended.", (*label, "result"), registry=registry
        )
        for result in get_args(Result):
            self._passes.labels(self.controller, result)
        self._errors = Counter(
            "controller_runtime_reconcile_errors_total", "Passes that ended with an error.", label, registry=registry
        ).labels(self.controller)
        self._crashes = Counter(
            "controller_runtime_reconcile_panics_total",
            "Errors in passes that nobody foresaw: bugs of the operator.",
            label,
            registry=registry,
        ).labels(self.controller)
        self._pass_seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long passes take.",
            label,
            buckets=RECONCILE_BUCKETS,
            registry=registry,
        ).labels(self.controller)
        self._step_seconds = Histogram(
            "flamectl_subreconciler_duration_seconds",
            "How long each step of a pass takes.",
            ("subreconciler",),
            buckets=STEP_BUCKETS,
            registry=registry,
        )
        self._step_outcomes = Counter(
            "flamectl_subreconciler_outcomes_total",
            "How each step of a pass ended.",
            ("subreconciler", "outcome"),
            registry=registry,
        )
        self._conflicts = Counter(
            "flamectl_stale_view_waits_total",
            "Writes put off because the object had changed since it was looked at.",
            ("subreconciler",),
            registry=registry,
        )
        self._ready_seconds = Histogram(
            "flamectl_cluster_ready_seconds",
            "From the creation of a FlameCluster to the first time it is ready.",
            buckets=READY_BUCKETS,
            registry=registry,
        )

    def _make_requests(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "rest_client_requests_total",
            "Requests to the API server, each attempt by the code of its answer.",
            ("code", "method", "host"),
            registry=registry,
        )
        self._request_seconds = Histogram(
            "rest_client_request_duration_seconds",
            "How long attempts at requests take, watches aside.",
            ("verb", "host"),
            buckets=REQUEST_BUCKETS,
            registry=registry,
        )

        self._held_back_seconds = Histogram(
            "rest_client_rate_limiter_duration_seconds",
            "How long requests wait for the operator's own limits, watches aside.",
            ("verb", "host"),
            buckets=REQUEST_BUCKETS,
            registry=registry,
        )

    def _make_others(self, registry: CollectorRegistry) -> None:
        self._leader = Gauge(
            "leader_election_master_status", "Whether this process leads, by the lease.", ("name",), registry=registry
        )
        self._lag = Gauge(
            "flamectl_event_loop_lag_seconds", "How late the event loop was with its last beat.", registry=registry
        )
        self._reload_success = Gauge(
            "flamectl_config_reload_success",
            "Whether the settings that were read last are in force; 0 when they were refused.",
            registry=registry,
        )
        self._reload_success.set(1)
        self._restart_needed = Gauge(
            "flamectl_config_restart_needed",
            "Whether the settings were changed by something that takes a restart.",
            registry=registry,
        )

    def watch_event_loop(self, lag: Callable[[], float]) -> None:
        """Shows how late the event loop is, in seconds, asked at each scrape."""
        self._lag.set_function(lag)

    def watch_election(self, name: str, leads: Callable[[], bool]) -> None:
        """Shows who leads.

        Args:
            name: Name of the lease.
            leads: Whether this process does, asked at each scrape.
        """
        self._leader.labels(name).set_function(leads)

    def watch_config(self, refused: Callable[[], object], restart_needed: Callable[[], object]) -> None:
        """Shows how reading the settings again went.

        Args:
            refused: Why those that were read last are not in force; false if they are.
            restart_needed: What in them takes a restart; false if nothing does.
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

    def pass_ended(self, result: Result, seconds: float) -> None:
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
