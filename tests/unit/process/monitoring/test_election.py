"""Health and metrics of replicas with leader election."""

import asyncio
from random import Random
from typing import Any

import pytest

from flamectl_operator.kube.errors import ConnectionFailedError
from flamectl_operator.kube.resources import LEASES
from flamectl_operator.operator import Environment
from flamectl_operator.process.monitoring import Monitor
from flamectl_operator.process.monitoring.monitor import ELECTION_TIMEOUT_SECONDS
from flamectl_operator.process.replica import Host, Replica
from flamectl_operator.runtime.health import report
from flamectl_operator.settings.model import LeaderElectionSettings, OperatorConfig
from tests.unit.builders import raw_spec
from tests.unit.runtime.virtual_time import VirtualClock
from tests.unit.subreconcilers.fake_api import FakeApi

NAME = "flamectl-operator"


class Process:
    """A replica that runs, with its health and metrics.

    Args:
        name: The name of the replica.
        api: The common API server.
        elects: Whether leader election is on.
    """

    def __init__(self, name: str, api: FakeApi, *, elects: bool = True) -> None:
        clock = VirtualClock()
        config = OperatorConfig.model_validate(
            {"leaderElection": {"leaderElect": elects, "resourceNamespace": "default", "resourceName": NAME}}
        )
        self.election: LeaderElectionSettings = config.leader_election
        self.stop = asyncio.Event()
        self.monitor = Monitor(config, clock, self.stop)
        self._replica = Replica(
            lambda _: api, api, config, Environment(clock, Random(name), self.monitor.metrics), Host(name)
        )
        self.monitor.watch(self._replica)
        self._task = asyncio.create_task(self._replica.run(self.stop))

    async def end(self) -> None:
        self.stop.set()
        await self._task

    def value(self, sample: str, **labels: str) -> float | None:
        return self.monitor.metrics.registry.get_sample_value(sample, labels)

    @property
    def leads(self) -> float | None:
        return self.value("leader_election_master_status", name=NAME)

    @property
    def clusters(self) -> float | None:
        """The number of counted FlameClusters; None when the replica counts none."""
        return self.value("flamectl_clusters", state="Pending")

    @property
    def ready(self) -> bool:
        return report("readyz", self.monitor.health.ready)[0]

    @property
    def alive(self) -> bool:
        return report("healthz", self.monitor.health.live)[0]


class HangingApi(FakeApi):
    """Keeps whoever reads waiting, past each timeout: what no client should do."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.let_go = asyncio.Event()

    async def get(self, *arguments: Any, **options: Any) -> Any:
        await self.let_go.wait()
        return await super().get(*arguments, **options)


def _api() -> FakeApi:
    api = FakeApi(VirtualClock())
    metadata = {"name": "my-flame", "namespace": "default", "generation": 1}
    api.put("flameclusters", {"metadata": metadata, "spec": raw_spec()})
    return api


async def test_one_replica_leads_and_both_are_ready() -> None:
    api = _api()
    leader = Process("a", api)
    await asyncio.sleep(1)
    other = Process("b", api)
    await asyncio.sleep(30)

    assert (leader.leads, other.leads) == (1, 0)
    assert (leader.clusters, other.clusters) == (1, None)
    assert leader.ready
    assert other.ready
    await leader.end()
    await other.end()


async def test_next_leader_counts_from_its_term_on() -> None:
    api = _api()
    leader = Process("a", api)
    await asyncio.sleep(1)
    other = Process("b", api)
    await asyncio.sleep(5)
    await leader.end()
    assert (leader.leads, leader.clusters, leader.ready) == (0, None, False)

    await asyncio.sleep(10)
    assert (other.leads, other.clusters, other.ready) == (1, 1, True)
    await other.end()


async def test_replica_that_cannot_read_the_lease_is_not_ready() -> None:
    api = FakeApi(VirtualClock())
    api.fail("get", LEASES.plural, ConnectionFailedError("refused"), times=1000)
    process = Process("a", api)
    await asyncio.sleep(60)

    assert not process.ready
    assert process.alive
    assert process.monitor.health.ready["caches"]() == "the Lease has not been read yet"
    await process.end()


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "standing by"])
async def test_unavailable_server_for_hours_fails_no_liveness_check(*, leads: bool) -> None:
    api = _api()
    other = Process("other", api)
    await asyncio.sleep(1)
    process = other if leads else Process("a", api)
    await asyncio.sleep(5)
    for verb in ("get", "patch"):
        api.fail(verb, LEASES.plural, ConnectionFailedError("refused"), times=1_000_000)

    for _ in range(3 * 60):
        await asyncio.sleep(60)
        assert process.alive
    await process.end()
    await other.end()


async def test_hanging_election_fails_liveness() -> None:
    api = HangingApi(VirtualClock())
    process = Process("a", api)
    await asyncio.sleep(ELECTION_TIMEOUT_SECONDS + process.election.lease_duration_seconds - 1)
    assert process.alive
    await asyncio.sleep(2)
    assert "the election has hung for 76 s" in process.monitor.health.live["leader-election"]()
    api.let_go.set()
    await process.end()
