"""A tenant who writes what costs most, and clients that hold connections open, keep nobody from the operator."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from flamectl_operator.process.descriptors import raise_descriptor_limit
from tests.e2e.scraping import get, scrape, value
from tests.e2e.world import World, flame_cluster, supervised
from tools.installation import WITH_FREE_PORTS, OperatorProcess, allow_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Bytes of a hostile spec, just below what the API server stores.
SIZE = 1_200_000
#: Bytes of memory that the operator may use; its container has 512 MiB.
MEMORY = 200 * 2**20


@pytest.fixture
def elected(world: World, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator that leads by a Lease, and must stop cleanly in the end."""
    settings = tmp_path / "settings.yaml"
    # A machine that stands still for a while must not cost the leader its lead, as a hostile tenant must not.
    timing = {"leaseDurationSeconds": 60, "renewDeadlineSeconds": 40}
    election = {"leaderElect": True, "resourceNamespace": world.namespace, **timing}
    settings.write_text(yaml.safe_dump({"leaderElection": election}), encoding="utf-8")
    arguments = [*WITH_FREE_PORTS, "--namespace", world.namespace, "--config", str(settings)]
    with supervised(
        OperatorProcess(allow_in(world.plane, world.namespace), tmp_path / "operator.log", arguments)
    ) as one:
        yield one


def _hostile(depth: int) -> dict[str, Any]:
    """Lists within each other, as many as fit, and a letter that takes the slow way of rendering."""
    nested: Any = "é"
    for _ in range(depth):
        nested = [nested]
    return {"x": [nested] * (SIZE // (len(json.dumps(nested, ensure_ascii=False).encode()) + 1))}


def _largest(number: int) -> dict[str, Any]:
    """Overrides just below the limits of what is accepted."""
    return {"x": [f"é{number}"] * 4000}


def _create(world: World, name: str, overrides: dict[str, Any]) -> None:
    # Not applied: an annotation cannot hold it.
    manifest = flame_cluster(name, replicas=0, configOverrides=overrides)
    world.kubectl("create", "-f", "-", stdin=json.dumps(manifest))


def _transitions(world: World) -> int:
    return int(world.existing("lease", "flamectl-operator")["spec"].get("leaseTransitions", 0))


def _is_fine(world: World, operator: OperatorProcess, transitions: int = 0) -> None:
    world.wait("the health check to pass", lambda: get(operator.address("health"), "/healthz") == (200, "ok"))
    assert value(scrape(operator), "process_resident_memory_bytes") < MEMORY
    assert _transitions(world) == transitions, "leadership changed"
    assert "leadership lost" not in operator.log.read_text(encoding="utf-8")


def _scale(world: World, executors: int) -> None:
    world.patch("flamecluster", "victim", {"spec": {"executorManager": {"replicas": executors}}})
    world.wait_running("victim", executors=executors)


def test_victim_scales_while_a_tenant_writes_large_and_deep_specs(world: World, elected: OperatorProcess) -> None:
    world.apply(flame_cluster("victim", replicas=1))
    world.wait_running("victim", executors=1)
    for executors in range(2, 8):
        for depth in (1, 3, 55):
            _create(world, f"hostile-{depth}-{executors}", _hostile(depth))
        _scale(world, executors)
        _is_fine(world, elected)

    def refused() -> int:
        clusters = [each for each in world.all("flamecluster") if each["metadata"]["name"].startswith("hostile")]
        return sum(each.get("status", {}).get("state") == "Failed" for each in clusters)

    world.wait("all of them to be refused", lambda: refused() == 18)

    elected.stop()
    elected.start()
    transitions = _transitions(world)
    for executors in (6, 5):
        _scale(world, executors)
        _is_fine(world, elected, transitions)


def test_victim_scales_beside_fifty_specs_of_the_largest_accepted_size(world: World, elected: OperatorProcess) -> None:
    world.apply(flame_cluster("victim", replicas=1))
    world.wait_running("victim", executors=1)
    for number in range(50):
        _create(world, f"large-{number}", _largest(number) | {"y": "z" * 30_000})
        if number % 10 == 0:
            _scale(world, 2 + number // 10)
            _is_fine(world, elected)
    _scale(world, 1)
    _is_fine(world, elected)


def test_probes_answer_while_1100_connections_are_idle(world: World, elected: OperatorProcess) -> None:
    host, _, port = elected.address("health").rpartition(":")
    raise_descriptor_limit()  # of this process, which holds the other ends
    lines = len(elected.log.read_text(encoding="utf-8").splitlines())
    with ExitStack() as stack:
        for _ in range(1100):
            connection = stack.enter_context(socket.socket())
            connection.connect((host, int(port)))
        _is_fine(world, elected)
    assert len(elected.log.read_text(encoding="utf-8").splitlines()) < lines + 100
