"""Nobody keeps the operator from the others: no tenant whose specs cost most, no idle clients, no reader of its log."""

import json
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.process.memory import raise_descriptor_limit
from tests.e2e.flood import flooded
from tests.e2e.hostile import hostile_overrides, in_state, largest_objects, unwelcome_objects
from tests.e2e.namespace import E2ENamespace, flame_cluster, supervised
from tests.e2e.scraping import get, scrape, value
from tools.controlplane.waiting import PATIENCE
from tools.installation import WITH_FREE_PORTS, OperatorProcess, allow_in

#: Bytes of memory that the operator may use; its container has 512 MiB.
MEMORY = 200_000_000
#: Large objects of each kind: a thousand take some minutes, and most of the time is the API server's.
LARGE_OBJECTS = int(os.environ.get("LARGE_OBJECTS", "100"))
#: How many of them are as large as the API server stores them, and how many are smaller.
LARGEST = 30
UNWELCOME = LARGE_OBJECTS - LARGEST
#: Seconds that the kubelet gives a Pod to end.
GRACE = 30


def _elected_settings(world: E2ENamespace, folder: Path) -> Path:
    """Write settings of an operator that leads by a Lease in the test's namespace."""
    settings = folder / "settings.yaml"
    # A machine that stands still for a while must not cost the leader its lead, as a hostile tenant must not.
    timing = {"leaseDurationSeconds": 60, "renewDeadlineSeconds": 40}
    election = {"leaderElect": True, "resourceNamespace": world.namespace, **timing}
    settings.write_text(yaml.safe_dump({"leaderElection": election}), encoding="utf-8")
    return settings


@pytest.fixture
def elected(world: E2ENamespace, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator that leads by a Lease, and must stop cleanly in the end."""
    arguments = [*WITH_FREE_PORTS, "--namespace", world.namespace, "--config", str(_elected_settings(world, tmp_path))]
    with supervised(
        OperatorProcess(allow_in(world.plane, world.namespace), tmp_path / "operator.log", arguments)
    ) as one:
        yield one


def _largest(number: int) -> dict[str, Any]:
    """Overrides just below the limits of what is accepted."""
    return {"x": [f"é{number}"] * 4000}


def _create(world: E2ENamespace, name: str, overrides: dict[str, Any]) -> None:
    world.create(flame_cluster(name, replicas=0, configOverrides=overrides))


def _create_largest(world: E2ENamespace, number: int) -> None:
    _create(world, f"large-{number}", _largest(number) | {"y": "z" * 30_000})


def _lease(world: E2ENamespace) -> dict[str, Any]:
    return dict(world.existing("lease", "flamectl-operator")["spec"])


def _renewed_since(world: E2ENamespace, time: str) -> bool:
    return bool(_lease(world)["renewTime"] != time)


def _transitions(world: E2ENamespace) -> int:
    return int(_lease(world).get("leaseTransitions", 0))


def _is_fine(world: E2ENamespace, operator: OperatorProcess, transitions: int = 0) -> None:
    world.wait("the health check to pass", lambda: get(operator.address("health"), "/healthz") == (200, "ok"))
    assert value(scrape(operator), "process_resident_memory_bytes") < MEMORY
    assert _transitions(world) == transitions, "leadership changed"
    assert "leadership lost" not in operator.log.read_text(encoding="utf-8")


def _scale(world: E2ENamespace, executors: int) -> None:
    world.patch("flamecluster", "victim", {"spec": {"executorManager": {"replicas": executors}}})
    world.wait_running("victim", executors=executors)


def test_victim_scales_while_a_tenant_writes_large_and_deep_specs(
    world: E2ENamespace, elected: OperatorProcess
) -> None:
    world.apply(flame_cluster("victim", replicas=1))
    world.wait_running("victim", executors=1)
    for executors in range(2, 5):
        for depth in (1, 3, 55):
            _create(world, f"hostile-{depth}-{executors}", hostile_overrides(depth))
        _scale(world, executors)
        _is_fine(world, elected)

    # A table, because the objects have 20 MB.
    names = {f"hostile-{depth}-{executors}" for depth in (1, 3, 55) for executors in range(2, 5)}
    world.wait("all of them to be refused", lambda: in_state(world, "Failed") == names)

    elected.stop()
    elected.start()
    transitions = _transitions(world)
    for executors in (3, 2):
        _scale(world, executors)
        _is_fine(world, elected, transitions)


def test_victim_scales_beside_specs_that_are_nested_deeper_than_can_be_decoded(
    world: E2ENamespace, elected: OperatorProcess
) -> None:
    world.apply(flame_cluster("victim", replicas=1))
    world.wait_running("victim", executors=1)
    names = set()
    for depth in (*range(800, 1000, 20), 2000, 9000):
        names.add(f"deep-{depth}")
        manifest = json.dumps(flame_cluster(f"deep-{depth}", configOverrides={"x": "DEEP"}))
        world.kubectl("create", "-f", "-", stdin=manifest.replace('"DEEP"', "[" * depth + "]" * depth))
    for executors in range(2, 5):
        _scale(world, executors)
    world.wait("all of them to be refused", lambda: in_state(world, "Failed") == names)
    _is_fine(world, elected)
    assert "the operator lists all objects again" not in elected.log.read_text(encoding="utf-8")


def test_victim_scales_and_the_operator_stops_in_time_beside_fifty_specs_of_the_largest_accepted_size(
    world: E2ENamespace, elected: OperatorProcess
) -> None:
    world.apply(flame_cluster("victim", replicas=1))
    world.wait_running("victim", executors=1)
    for number in range(50):
        _create_largest(world, number)
        if number % 10 == 0:
            _scale(world, 2 + number // 10)
            _is_fine(world, elected)
    _scale(world, 1)
    _is_fine(world, elected)

    elected.stop()
    for number in range(50):
        # So that the next process has work with each of them.
        world.patch("flamecluster", f"large-{number}", {"spec": {"executorManager": {"maxExecutors": 20}}})
    elected.start()
    elected.process.terminate()
    assert elected.process.wait(PATIENCE) == 0
    log = map(json.loads, elected.log.read_text(encoding="utf-8").splitlines())
    at = {line["event"]: datetime.fromisoformat(line["timestamp"]) for line in log}  # when each event came last
    assert (at["stopped"] - at["stopping"]).total_seconds() < GRACE
    elected.start()
    names = {f"large-{number}" for number in range(50)}
    world.wait("the next process to do the work", lambda: _observed_twice(world) == names)


def _observed_twice(world: E2ENamespace) -> set[str]:
    """The FlameClusters whose second generation was observed, and that run."""
    found = {each["metadata"]["name"]: each["status"] for each in world.all("flamecluster")}
    return {name for name, status in found.items() if (status["state"], status["observedGeneration"]) == ("Running", 2)}


def test_leader_goes_on_and_stops_in_time_while_the_reader_of_its_log_stands_still(
    world: E2ENamespace, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while os.write(reader, b"." * 4096):
            pass  # the pipe is not full yet
    arguments = ["--namespace", world.namespace, "--config", str(_elected_settings(world, tmp_path))]
    to_the_pipe = ("sh", "-c", 'exec "$@" 2>"$0"', str(pipe))
    kubeconfig = allow_in(world.plane, world.namespace)
    operator = OperatorProcess(kubeconfig, tmp_path / "operator.log", arguments, to_the_pipe)
    operator.spawn()
    try:
        world.apply(flame_cluster("victim", replicas=1))
        world.wait_running("victim", executors=1)
        for _ in range(2):
            world.wait("the Lease to be renewed", partial(_renewed_since, world, _lease(world)["renewTime"]))
        _scale(world, 3)
        assert _transitions(world) == 0
        operator.process.terminate()
        assert operator.process.wait(GRACE) == 0
        assert _lease(world).get("holderIdentity", "") == ""
    finally:
        operator.stop()
        written = os.read(reader, 2**20)
        os.close(reader)
    assert set(written) == {ord(".")}, "the operator could write its log"


def test_probes_answer_while_1100_connections_are_idle(world: E2ENamespace, elected: OperatorProcess) -> None:
    host, _, port = elected.address("health").rpartition(":")
    raise_descriptor_limit()  # of this process, which holds the other ends
    lines = len(elected.log.read_text(encoding="utf-8").splitlines())
    with ExitStack() as stack:
        for _ in range(1100):
            connection = stack.enter_context(socket.socket())
            connection.bind(("127.0.0.2", 0))  # not the address of the probe
            connection.connect((host, int(port)))
        _is_fine(world, elected)
    assert len(elected.log.read_text(encoding="utf-8").splitlines()) < lines + 100


def _answers(address: str) -> bool:
    """Whether a probe of the kubelet gets an answer in its time."""
    try:
        with urllib.request.urlopen(f"http://{address}/healthz", timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def test_kubelet_does_not_kill_the_operator_in_a_flood_of_connections(
    world: E2ENamespace, elected: OperatorProcess
) -> None:
    address = elected.address("health")
    host, _, port = address.rpartition(":")
    with flooded(host, int(port), processes=10):
        for _ in range(5):
            # The kubelet kills a container after three failures in a row.
            assert any(_answers(address) for _ in range(3))
    _is_fine(world, elected)


@pytest.mark.timeout(1200)
def test_memory_stays_small_beside_large_objects_of_each_kind_until_they_are_gone(
    world: E2ENamespace, elected: OperatorProcess
) -> None:
    world.apply(flame_cluster("victim", replicas=1))
    world.wait_running("victim", executors=1)
    elected.stop()
    world.create_all(each for number in range(UNWELCOME) for each in unwelcome_objects(number))
    # As large as the API server stores them.
    world.create_all(each for number in range(LARGEST) for each in largest_objects(number))
    elected.start()
    transitions = _transitions(world)
    _scale(world, 2)
    world.wait("all of them to be seen", lambda: len(in_state(world, "Pending")) == UNWELCOME)
    _is_fine(world, elected, transitions)
    for kind in sorted({each["kind"].lower() for each in unwelcome_objects(0)}):
        world.delete_all(kind, f"{CLUSTER_LABEL}=large")
    _scale(world, 1)
    world.wait("all of them to be gone", lambda: in_state(world, "Running") == {"victim"})
    _is_fine(world, elected, transitions)
