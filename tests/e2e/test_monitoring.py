"""Health checks and metrics of a real operator."""

import json
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from prometheus_client.samples import Sample

from tests.e2e.namespace import E2ENamespace, flame_cluster, supervised
from tests.e2e.scraping import get, scrape, value
from tests.unit.process.monitoring.everything import everything
from tools.controlplane import Plane
from tools.controlplane.waiting import PATIENCE, wait_until
from tools.installation import NAMESPACE, ROOT, WITH_FREE_PORTS, OperatorProcess, allow_in

CLUSTER = {"cluster": "my-flame"}


@pytest.fixture
def observed(world: E2ENamespace, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator that serves health and metrics; it must stop cleanly in the end."""
    arguments = [*WITH_FREE_PORTS, "--namespace", world.namespace]
    process = OperatorProcess(allow_in(world.plane, world.namespace), tmp_path / "operator.log", arguments)
    with supervised(process):
        yield process


def _is_well(operator: OperatorProcess, path: str) -> bool:
    """Return whether the operator is healthy. After a stall, the event loop is unhealthy until its next heartbeat."""
    return get(operator.address("health"), path) == (200, "ok")


def test_working_operator_is_alive_and_ready(observed: OperatorProcess) -> None:
    health = observed.address("health")
    wait_until(partial(_is_well, observed, "/healthz"), "it to be alive")
    wait_until(partial(_is_well, observed, "/readyz"), "it to be ready")
    checks = ["[+]ping ok", "[+]event-loop ok", "[+]workers ok", "[+]watches ok", "[+]leader-election ok"]
    passed = [*checks, "healthz check passed"]
    wait_until(lambda: get(health, "/healthz?verbose")[1].splitlines() == passed, "all checks to pass")
    assert get(health, "/readyz/caches") == (200, "ok")
    assert get(health, "/metrics")[0] == 404


def test_metrics_are_the_documented_ones_follow_the_cluster_and_end_with_it(
    world: E2ENamespace, observed: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=3, objectCache={"image": "xflops/flame-object-cache:v0.6.0"}))
    world.wait_running(executors=3)

    def all_seen() -> list[Sample] | None:
        samples = scrape(observed)
        running = value(samples, "flamectl_clusters", state="Running")
        ready = value(samples, "flamectl_cluster_condition", condition="Ready", **CLUSTER)
        seen = (running, ready, value(samples, "flamectl_executors_ready", **CLUSTER)) == (1, 1, 3)
        # The watch may bring back a status before the pass that has written it is counted.
        timed = value(samples, "flamectl_cluster_ready_seconds_count")
        # Nobody answers as the session manager. The operator tells that after a while, so each pass at rest ends with a wait.
        ended = value(samples, "controller_runtime_reconcile_total", result="requeue_after")
        return samples if seen and timed and ended else None

    samples: list[Sample] = world.wait("the status to come back on the watch, and its pass to end", all_seen)
    assert value(samples, "flamectl_clusters") == 1
    assert value(samples, "flamectl_executors_desired", namespace=world.namespace, **CLUSTER) == 3
    assert value(samples, "flamectl_cluster_ready_seconds_count") == 1
    # A ConfigMap, two Services, five Pods, and as many events at least.
    assert value(samples, "rest_client_requests_total", method="POST", code="201") >= 8
    assert value(samples, "rest_client_requests_total", method="GET", code="200") >= 8
    assert value(samples, "rest_client_request_duration_seconds_count", verb="PUT") >= 1
    assert value(samples, "controller_runtime_reconcile_total", result="requeue_after") >= 1
    assert value(samples, "controller_runtime_reconcile_errors_total") == 0
    assert value(samples, "controller_runtime_max_concurrent_reconciles") == 32
    assert value(samples, "workqueue_adds_total") >= value(samples, "workqueue_queue_duration_seconds_count") >= 1
    assert value(samples, "flamectl_subreconciler_outcomes_total", subreconciler="ScaleExecutors") >= 1
    assert 0 < value(samples, "process_resident_memory_bytes") < 2**30
    for resource in ("flameclusters", "pods", "services", "configmaps"):
        assert 0 <= value(samples, "flamectl_watch_last_contact_seconds", resource=resource) < 300

    known = {(sample.name, frozenset(sample.labels)) for metric in everything() for sample in metric.samples}
    # There is no election here and no Flame that answers, and `everything` has seen both.
    absent = {
        *("leader_election_master_status", "flamectl_executors_registered", "flamectl_executors_draining"),
        *("flamectl_sessions_open", "flamectl_sessions_paused"),
        *("flamectl_tasks_pending", "flamectl_tasks_running", "flamectl_tasks_failed"),
    }
    complete = {each for each in known if each[0] not in absent}

    def served() -> set[tuple[str, frozenset[str]]]:
        return {(sample.name, frozenset(sample.labels)) for sample in scrape(observed)}

    world.wait("the status to come back on the watch", lambda: served() >= complete)
    assert served() == complete

    world.kubectl("delete", "flamecluster/my-flame")

    def forgotten() -> bool:
        return not any(sample.labels.get("cluster") == "my-flame" for sample in scrape(observed))

    world.wait("the series of the cluster to end", forgotten)


def _leads(operator: OperatorProcess) -> float:
    return value(scrape(operator), "leader_election_master_status", name="flamectl-operator")


def test_both_replicas_are_ready_and_only_the_leader_counts_clusters(world: E2ENamespace, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    # A machine that stands still for a while must not cost the leader its lead; it gives it back when it ends.
    timing = {"leaseDurationSeconds": 300, "renewDeadlineSeconds": 200}
    election = {"leaderElect": True, "resourceNamespace": world.namespace, **timing}
    settings.write_text(yaml.safe_dump({"leaderElection": election}), encoding="utf-8")
    arguments = [*WITH_FREE_PORTS, "--namespace", world.namespace, "--config", str(settings)]
    kubeconfig = allow_in(world.plane, world.namespace)
    world.apply(flame_cluster(replicas=1))
    with (
        OperatorProcess(kubeconfig, tmp_path / "first.log", arguments) as first,
        OperatorProcess(kubeconfig, tmp_path / "second.log", arguments) as second,
    ):
        assert (_leads(first), _leads(second)) == (1, 0)
        for each in (first, second):
            world.wait("it to be ready", partial(_is_well, each, "/readyz"))
        world.wait("the leader to count", lambda: value(scrape(first), "flamectl_clusters") == 1)
        assert not [sample for sample in scrape(second) if sample.name == "flamectl_clusters"]

        assert first.stop() == 0
        world.wait("the other to lead", lambda: _leads(second) == 1)
        world.wait("the other to count", lambda: value(scrape(second), "flamectl_clusters") == 1)
        world.wait("the other to be alive", partial(_is_well, second, "/healthz"))


def test_metrics_show_refused_settings_and_pending_restarts(world: E2ENamespace, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("controller: {resyncSeconds: 600}", encoding="utf-8")
    arguments = [*WITH_FREE_PORTS, "--namespace", world.namespace, "--config", str(settings)]
    log = tmp_path / "operator.log"

    def says(operator: OperatorProcess, success: float, restart: float) -> bool:
        samples = scrape(operator)
        found = [value(samples, f"flamectl_config_{name}") for name in ("reload_success", "restart_needed")]
        return found == [success, restart]

    with OperatorProcess(allow_in(world.plane, world.namespace), log, arguments) as operator:
        assert says(operator, 1, 0)
        settings.write_text("controller: {resyncSeconds: soon}", encoding="utf-8")
        world.wait("the refusal to be seen", lambda: says(operator, 0, 0))
        settings.write_text("controller: {workers: 3}", encoding="utf-8")
        world.wait("the need of a restart to be seen", lambda: says(operator, 1, 1))
        assert operator.stop() == 0


def test_monitoring_manifests_can_be_rendered(control_plane: Plane) -> None:
    rendered = control_plane.kubectl("kustomize", str(ROOT / "config" / "monitoring")).stdout
    objects = {each["kind"]: each for each in yaml.safe_load_all(rendered)}
    assert objects.keys() == {"ConfigMap", "PodMonitor", "PrometheusRule"}
    assert {each["metadata"]["namespace"] for each in objects.values()} == {NAMESPACE}
    [dashboard] = objects["ConfigMap"]["data"].values()
    assert json.loads(dashboard)["panels"]


def _kubeconfig(plane: Plane, folder: Path, server: str) -> Path:
    content = yaml.safe_load(plane.kubeconfig.read_text(encoding="utf-8"))
    content["clusters"][0]["cluster"]["server"] = server
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


@pytest.mark.parametrize("options", [[], ["--config-map", "default/anything"]], ids=["", "which has its settings"])
def test_operator_without_an_api_server_is_alive_and_not_ready(
    installed: Plane, tmp_path: Path, options: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE)
        kubeconfig = _kubeconfig(installed, tmp_path, f"https://127.0.0.1:{silent.getsockname()[1]}")
        process = OperatorProcess(kubeconfig, tmp_path / "operator.log", [*WITH_FREE_PORTS, *options])
        with supervised(process, wait=False) as operator, silent.accept()[0]:
            health: str = wait_until(lambda: operator.address("health"), "the ports")
            wait_until(lambda: get(health, "/healthz") == (200, "ok"), "it to be alive")
            ready = get(health, "/readyz")
            assert operator.stop() == 0

    assert (ready[0], "[-]caches failed: " in ready[1]) == (500, True)
