from collections.abc import Callable

import pytest

from flamectl_operator.process.monitoring.metrics import Metrics
from flamectl_operator.runtime.workflow import Place

QUEUE = {"name": "flamecluster", "controller": "flamecluster"}
CONTROLLER = {"controller": "flamecluster"}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("1.2.3")


def value(metrics: Metrics, sample: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(sample, labels)


def buckets(metrics: Metrics, metric: str) -> list[str]:
    """The upper bounds of a histogram's buckets."""
    return [
        sample.labels["le"]
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == f"{metric}_bucket"
    ]


def test_creation_times_are_not_exported(metrics: Metrics) -> None:
    names = {sample.name for family in metrics.registry.collect() for sample in family.samples}
    assert {name for name in names if name.endswith("_created")} == set()


def test_process_metrics_are_exported(metrics: Metrics) -> None:
    assert (value(metrics, "process_resident_memory_bytes") or 0) > 0
    assert value(metrics, "python_gc_collections_total", generation="0") is not None
    [info] = [family for family in metrics.registry.collect() if family.name == "flamectl_build"]
    assert info.samples[0].labels["version"] == "1.2.3"


@pytest.mark.parametrize(
    ("tell", "sample", "labels"),
    [
        (Metrics.key_added, "workqueue_adds_total", QUEUE),
        (Metrics.key_retried, "workqueue_retries_total", QUEUE),
        (lambda metrics: metrics.key_taken(0.5), "workqueue_queue_duration_seconds_count", QUEUE),
        (lambda metrics: metrics.key_done(0.5), "workqueue_work_duration_seconds_count", QUEUE),
        (Metrics.bug_found, "controller_runtime_reconcile_panics_total", CONTROLLER),
        (lambda metrics: metrics.first_ready(5), "flamectl_cluster_ready_seconds_count", {}),
        (lambda metrics: metrics.pass_ended("requeue_after", 1), "controller_runtime_reconcile_total",
            CONTROLLER | {"result": "requeue_after"}),
        (lambda metrics: metrics.pass_ended("success", 1), "controller_runtime_reconcile_time_seconds_count", CONTROLLER),
        (lambda metrics: metrics.pass_ended("error", 1), "controller_runtime_reconcile_errors_total", CONTROLLER),
    ],
)  # fmt: skip
def test_counters_start_at_zero(
    metrics: Metrics, tell: Callable[[Metrics], None], sample: str, labels: dict[str, str]
) -> None:
    assert value(metrics, sample, **labels) == 0
    tell(metrics)
    tell(metrics)
    assert value(metrics, sample, **labels) == 2


def test_steps_are_counted_by_name_and_outcome(metrics: Metrics) -> None:
    metrics.step_ended(Place("Shear"), "done", 0.25, 0)
    metrics.step_ended(Place("Shear"), "wait", 0.5, 3)
    labels = {"subreconciler": "Shear", "part": "", "phase": ""}
    assert value(metrics, "flamectl_subreconciler_outcomes_total", **labels, outcome="done") == 1
    assert value(metrics, "flamectl_subreconciler_outcomes_total", **labels, outcome="wait") == 1
    assert value(metrics, "flamectl_subreconciler_duration_seconds_sum", **labels) == 0.75
    assert value(metrics, "flamectl_stale_view_waits_total", **labels) == 3


def test_parts_and_phases_of_a_stage_are_counted_apart(metrics: Metrics) -> None:
    metrics.step_ended(Place("Shear", "Sort"), "done", 0.25, 0)
    metrics.step_ended(Place("Shear", phase="closing"), "done", 0.5, 0)

    name = "flamectl_subreconciler_duration_seconds_sum"
    assert value(metrics, name, subreconciler="Shear", part="Sort", phase="") == 0.25
    assert value(metrics, name, subreconciler="Shear", part="", phase="closing") == 0.5


def test_requests_are_counted_by_code_method_and_host(metrics: Metrics) -> None:
    metrics.request_answered("POST", "here:6443", 201)
    metrics.request_answered("GET", "here:6443", None)
    metrics.request_ended("POST", "here:6443", 0.25)
    metrics.request_held_back("POST", "here:6443", 0.5)
    for code, method in (("201", "POST"), ("<error>", "GET")):
        assert value(metrics, "rest_client_requests_total", code=code, method=method, host="here:6443") == 1
    assert value(metrics, "rest_client_request_duration_seconds_sum", verb="POST", host="here:6443") == 0.25
    assert value(metrics, "rest_client_rate_limiter_duration_seconds_sum", verb="POST", host="here:6443") == 0.5


def test_settings_metrics_are_read_at_each_scrape(metrics: Metrics) -> None:
    refused = ""
    needed: tuple[str, ...] = ("flock.size",)
    assert value(metrics, "flamectl_config_reload_success") == 1
    assert value(metrics, "flamectl_config_restart_needed") == 0
    metrics.watch_config(lambda: refused, lambda: needed)
    assert value(metrics, "flamectl_config_reload_success") == 1
    assert value(metrics, "flamectl_config_restart_needed") == 1
    refused, needed = "no such flock", ()
    assert value(metrics, "flamectl_config_reload_success") == 0
    assert value(metrics, "flamectl_config_restart_needed") == 0


def test_buckets_equal_the_expected_ones(metrics: Metrics) -> None:
    queue = [
        "1e-08", "1e-07", "1e-06", "1e-05", "0.0001", "0.001", "0.01", "0.1", "1.0",
        "10.0", "100.0", "1000.0", "+Inf",
    ]  # fmt: skip
    assert buckets(metrics, "workqueue_queue_duration_seconds") == queue
    assert buckets(metrics, "workqueue_work_duration_seconds") == queue
    passes = buckets(metrics, "controller_runtime_reconcile_time_seconds")
    assert (len(passes), passes[0], passes[-2]) == (41, "0.005", "60.0")
    metrics.request_ended("GET", "here", 0.01)
    requests = buckets(metrics, "rest_client_request_duration_seconds")
    assert (len(requests), requests[0], requests[-2]) == (13, "0.005", "60.0")
    metrics.request_held_back("GET", "here", 0.01)
    assert buckets(metrics, "rest_client_rate_limiter_duration_seconds") == requests
