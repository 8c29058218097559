"""Leader election: terms, and Leases that cannot be renewed or are taken, deleted or released."""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from flamectl_operator.kube.errors import (
    ConflictError,
    ConnectionFailedError,
    ConnectionLostError,
    ForbiddenError,
    KubernetesError,
    NotLeadingError,
)
from flamectl_operator.kube.leader_election import Candidate, ContendedLease, Fence, LeaderElector
from tests.unit.runtime.virtual_time import VirtualClock
from tests.unit.subreconcilers.fake_api import FakeApi

LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}


class Api(FakeApi):
    """Of which each process has one view, so that its requests can hang."""

    def __init__(self, shared: FakeApi) -> None:
        super().__init__(shared.clock, objects=shared.objects)
        self.shared = shared
        self.way = asyncio.Event()
        self.way.set()

    async def get(self, *arguments: Any, **options: Any) -> Any:
        await self.way.wait()
        return await self.shared.get(*arguments, **options)

    async def create(self, *arguments: Any, **options: Any) -> Any:
        await self.way.wait()
        return await self.shared.create(*arguments, **options)

    async def merge_patch(self, *arguments: Any, **options: Any) -> Any:
        await self.way.wait()
        return await self.shared.merge_patch(*arguments, **options)


class Process:
    """A candidate that notes its terms."""

    def __init__(self, name: str, shared: FakeApi, clock: VirtualClock, predecessors: str = "") -> None:
        self.name = name
        self.clock = clock
        self.api = Api(shared)
        self.fence = Fence(clock)
        self.stop = asyncio.Event()
        self.terms: list[tuple[float, float | None]] = []
        self.failure: Exception | None = None
        self.elected = asyncio.Event()
        self.elector = LeaderElector(
            self.api,
            self.fence,
            Candidate(name, predecessors),
            ContendedLease("system", "operator"),
            clock,
            Random(name),
        )
        self.task = asyncio.create_task(self.elector.run(self.term, self.stop))

    @property
    def leads(self) -> bool:
        return bool(self.terms) and self.terms[-1][1] is None

    async def term(self) -> None:
        begun = self.clock.monotonic()
        self.terms.append((begun, None))
        self.elected.set()
        try:
            while not self.stop.is_set():
                if self.failure is not None:
                    raise self.failure
                await asyncio.sleep(0.1)
        finally:
            self.terms[-1] = (begun, self.clock.monotonic())
            self.elected.clear()

    async def killed(self) -> None:
        """Kill the candidate: nothing of it reaches the API server any more."""
        self.api.way.clear()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Scene:
    """Processes that contend for one Lease."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.api = FakeApi(self.clock)
        self.processes: list[Process] = []

    def start(self, name: str, predecessors: str = "") -> Process:
        self.processes.append(Process(name, self.api, self.clock, predecessors))
        return self.processes[-1]

    async def leader(self, name: str, predecessors: str = "") -> Process:
        """Start a process and let it become the leader."""
        process = self.start(name, predecessors)
        await self.until_leading(process)
        return process

    async def leader_and_candidate(self, seconds: float) -> tuple[Process, Process]:
        """A process has become the leader, and another has contended for some seconds."""
        first, second = await self.leader("first"), self.start("second")
        await asyncio.sleep(seconds)
        return first, second

    @property
    def lease(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.api.objects["leases", "system", "operator"]["spec"]
        return spec

    def held_by(self, holder: str) -> None:
        self.put({"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3})

    def put(self, spec: dict[str, Any] | None) -> None:
        """Somebody writes the Lease."""
        metadata = {"name": "operator", "namespace": "system"}
        self.api.put("leases", LEASE | {"metadata": metadata} | ({} if spec is None else {"spec": spec}))

    def blank(self, **rest: Any) -> None:
        """Clear the name of the holder, as a user does to force a failover."""
        lease = self.api.objects["leases", "system", "operator"]
        self.api.put("leases", lease | {"spec": lease["spec"] | {"holderIdentity": ""} | rest})

    async def until_leading(self, process: Process, limit: float = 60) -> float:
        """Let time pass until then, and say how much."""
        begun = self.clock.monotonic()
        async with asyncio.timeout(limit):
            await process.elected.wait()
        return self.clock.monotonic() - begun


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    with capture_logs():
        scene = Scene()
        yield scene
        for process in scene.processes:
            process.api.way.set()
            process.task.cancel()
        await asyncio.gather(*(process.task for process in scene.processes), return_exceptions=True)


async def test_first_candidate_leads_at_once_and_writes_the_lease(scene: Scene) -> None:
    first = scene.start("first")
    assert await scene.until_leading(first) < 1
    assert first.fence.open
    assert scene.lease["holderIdentity"] == "first"
    assert scene.lease["leaseDurationSeconds"] == 15
    assert scene.lease["acquireTime"] == scene.lease["renewTime"]


@pytest.mark.parametrize("there", [True, False], ids=["patch", "create"])
async def test_process_does_not_lead_by_an_answer_that_names_another(scene: Scene, *, there: bool) -> None:
    if there:
        scene.held_by("")

    def give_to_another(_plural: str, manifest: dict[str, Any]) -> None:
        manifest["spec"]["holderIdentity"] = "other"

    scene.api.webhook = give_to_another
    first = scene.start("first")
    await asyncio.sleep(120)
    assert scene.lease["holderIdentity"] == "other"
    assert not first.elected.is_set()
    assert not first.fence.open


async def test_a_leader_stays_leader(scene: Scene) -> None:
    first, second = await scene.leader_and_candidate(600)
    assert len(first.terms) == 1
    assert first.leads
    assert not second.terms
    assert scene.lease["leaseTransitions"] == 0
    assert scene.lease["renewTime"] > scene.lease["acquireTime"]


async def test_another_takes_over_when_the_leader_is_gone(scene: Scene) -> None:
    first, second = await scene.leader_and_candidate(60)
    await first.killed()
    assert 11 <= await scene.until_leading(second) <= 15 + 2 * 2.4
    assert scene.lease["holderIdentity"] == "second"
    assert scene.lease["leaseTransitions"] == 1


async def test_the_next_container_of_the_leaders_pod_leads_at_once(scene: Scene) -> None:
    first = await scene.leader("pod_uid_1", "pod_uid_")
    await asyncio.sleep(60)
    await first.killed()
    second = scene.start("pod_uid_2", "pod_uid_")
    assert await scene.until_leading(second) < 0.1
    assert scene.lease["leaseTransitions"] == 1


@pytest.mark.parametrize(
    ("name", "predecessors"),
    [("other_uid2_2", "other_uid2_"), ("pod_uid2_2", "pod_uid2_"), ("pod_2", "")],
    ids=["another Pod", "a later Pod of the same name", "no Pod"],
)
async def test_a_process_of_another_pod_waits_for_the_lease(scene: Scene, name: str, predecessors: str) -> None:
    first = await scene.leader("pod_uid_1", "pod_uid_")
    standby = scene.start(name, predecessors)
    await asyncio.sleep(60)
    assert first.leads
    assert not standby.terms
    await first.killed()
    assert await scene.until_leading(standby) >= 11


async def test_clean_stop_lets_the_next_candidate_lead_at_its_next_attempt(scene: Scene) -> None:
    first, second = await scene.leader_and_candidate(10)
    first.stop.set()
    await first.task
    assert not first.fence.open
    assert scene.lease["holderIdentity"] == ""
    assert await scene.until_leading(second) <= 2.4 + 0.1


async def test_waiting_candidate_stops_when_asked(scene: Scene) -> None:
    scene.held_by("other")
    process = scene.start("process")
    await asyncio.sleep(5)
    process.stop.set()
    await process.task
    assert not process.terms
    assert scene.lease["holderIdentity"] == "other"


async def test_former_leader_contends_again(scene: Scene) -> None:
    first, second = await scene.leader_and_candidate(10)
    first.api.way.clear()
    await scene.until_leading(second)
    first.api.way.set()
    await asyncio.sleep(30)
    assert second.leads
    assert not first.leads
    second.stop.set()
    await second.task
    await scene.until_leading(first)
    assert len(first.terms) == 2


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ConnectionFailedError("down"), id="no connection"),
        pytest.param(ForbiddenError(403, "Forbidden", "no"), id="forbidden"),
        pytest.param(ConflictError(409, "Conflict", "changed"), id="conflict"),
    ],
)
async def test_a_few_failed_renewals_cost_nothing(scene: Scene, error: KubernetesError) -> None:
    first, _ = await scene.leader_and_candidate(30)
    scene.api.fail("patch", "leases", error, times=3)
    await asyncio.sleep(30)
    assert not scene.api.faults
    assert len(first.terms) == 1
    assert first.leads


async def test_a_renewal_whose_answer_was_lost_costs_nothing(scene: Scene) -> None:
    first = await scene.leader("first")
    scene.api.fail("patch", "leases", ConnectionLostError("lost"), applied=True, times=2)
    await asyncio.sleep(30)
    assert not scene.api.faults
    assert len(first.terms) == 1
    assert scene.lease["leaseTransitions"] == 0


async def test_term_ends_without_the_api_server_and_another_begins_after_its_return(scene: Scene) -> None:
    first = await scene.leader("first")
    await asyncio.sleep(1)
    scene.api.fail("patch", "leases", ConnectionFailedError("down"), times=10**6)
    scene.api.fail("get", "leases", ConnectionFailedError("down"), times=10**6)
    await asyncio.sleep(60)
    [(begun, ended)] = first.terms
    assert ended is not None
    assert 8 <= ended - begun <= 11
    scene.api.faults.clear()
    assert await scene.until_leading(first) <= 2.5
    assert not first.task.done()


async def test_foreign_lease_expires_by_our_own_clock(scene: Scene) -> None:
    scene.held_by("other")
    process = scene.start("process")
    assert 15 <= await scene.until_leading(process) <= 15 + 2.5
    assert scene.lease["leaseTransitions"] == 4


async def test_a_longer_duration_of_the_holder_counts(scene: Scene) -> None:
    scene.put({"holderIdentity": "other", "leaseDurationSeconds": 40})
    assert await scene.until_leading(scene.start("process")) >= 40


@pytest.mark.parametrize("holder", ["", "nobody"])
async def test_lease_that_somebody_wrote_by_hand_for_decades_is_free_after_minutes(scene: Scene, holder: str) -> None:
    first = await scene.leader("first")
    await first.killed()
    scene.put(
        scene.lease | {"holderIdentity": holder, "leaseDurationSeconds": 2**31 - 1, "leaseTransitions": 2**31 - 1}
    )
    assert 600 <= await scene.until_leading(scene.start("second"), 700) <= 600 + 2.5


async def test_deleted_lease_is_not_taken_before_its_holder_must_have_noticed(scene: Scene) -> None:
    first, second = await scene.leader_and_candidate(30)
    first.api.way.clear()
    scene.api.remove("leases", "operator", "system")
    await scene.until_leading(second)
    [(_, ended)] = first.terms
    assert ended is not None
    assert ended < second.terms[0][0]


@pytest.mark.parametrize("released", [False, True], ids=["held", "released"])
async def test_lease_of_an_etcd_that_was_set_back_is_not_taken_before_its_holder_must_have_noticed(
    scene: Scene, *, released: bool
) -> None:
    second = await scene.leader("second")
    if released:
        second.stop.set()
        await second.task
        second = scene.start("third")
        second.api.way.clear()
    copy = scene.api.objects["leases", "system", "operator"]
    second.api.way.clear()
    first = await scene.leader("first")
    second.api.way.set()
    await asyncio.sleep(5)

    scene.api.objects["leases", "system", "operator"] = copy
    first.api.way.clear()
    before = len(second.terms)
    async with asyncio.timeout(60):
        while len(second.terms) == before:
            assert not (first.fence.open and second.fence.open)
            await asyncio.sleep(0.1)
    ended = first.terms[0][1]
    assert ended is not None
    assert ended < second.terms[-1][0]


async def test_leader_goes_on_after_etcd_was_set_back_within_its_term(scene: Scene) -> None:
    first, second = await scene.leader_and_candidate(5)
    copy = scene.api.objects["leases", "system", "operator"]
    await asyncio.sleep(20)
    scene.api.objects["leases", "system", "operator"] = copy
    await asyncio.sleep(60)
    assert len(first.terms) == 1
    assert first.leads
    assert not second.terms


async def test_leader_whose_identity_was_cleared_continues(scene: Scene) -> None:
    first, second = scene.start("first"), scene.start("second")
    await scene.until_leading(first)
    for _ in range(20):
        await asyncio.sleep(7.3)
        scene.blank()
    assert len(first.terms) == 1
    assert first.leads
    assert not second.terms


@pytest.mark.parametrize("wiped", [False, True], ids=["name", "all"])
async def test_lease_with_a_cleared_holder_is_awaited(scene: Scene, *, wiped: bool) -> None:
    first, second = await scene.leader_and_candidate(30)
    await first.killed()
    await asyncio.sleep(5)
    if wiped:
        scene.put({})
    else:
        scene.blank()
    assert 15 <= await scene.until_leading(second) <= 15 + 2 * 2.4


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": ""}, {"holderIdentity": "", "leaseDurationSeconds": 15}])
async def test_lease_without_any_holder_is_free(scene: Scene, spec: dict[str, Any] | None) -> None:
    scene.put(spec)
    assert await scene.until_leading(scene.start("process")) < 1


async def test_foreign_name_in_the_lease_ends_the_term_at_once(scene: Scene) -> None:
    first = await scene.leader("first")
    scene.held_by("usurper")
    await asyncio.sleep(2.05)
    assert not first.leads
    assert not first.fence.open


async def test_failed_term_releases_the_lease_and_is_not_repeated(scene: Scene) -> None:
    first = await scene.leader("first")
    first.failure = RuntimeError("broken")
    with pytest.raises(RuntimeError, match="broken"):
        await first.task
    assert scene.lease["holderIdentity"] == ""
    assert not first.fence.open


async def test_failed_release_does_not_prevent_the_end(scene: Scene) -> None:
    first = await scene.leader("first")
    first.api.way.clear()
    first.stop.set()
    begun = scene.clock.monotonic()
    await first.task
    assert scene.clock.monotonic() - begun <= 3 + 2.5


async def test_a_fence_closes_by_itself(scene: Scene) -> None:
    fence = Fence(scene.clock)
    assert not fence.open
    fence.extend(scene.clock.boottime() + 10)
    fence.check()
    await asyncio.sleep(10)
    with pytest.raises(NotLeadingError, match="is not the leader"):
        fence.check()


@pytest.mark.parametrize("seed", range(6))
async def test_there_are_never_two_leaders_whichever_request_hangs(scene: Scene, seed: int) -> None:
    random = Random(seed)
    processes = [scene.start(name) for name in ("a", "b", "c")]
    terms = 0
    for _ in range(300):
        process = random.choice(processes)
        if random.random() < 0.3:
            process.api.way.clear() if process.api.way.is_set() else process.api.way.set()
        if random.random() < 0.05:
            scene.api.fail("patch", "leases", ConnectionLostError("lost"), applied=random.random() < 0.5)
        if random.random() < 0.02 and ("leases", "system", "operator") in scene.api.objects:
            scene.api.remove("leases", "operator", "system")
        if random.random() < 0.1 and ("leases", "system", "operator") in scene.api.objects:
            scene.blank()
        await asyncio.sleep(random.uniform(0, 6))
        leading = [each.name for each in processes if each.leads and each.fence.open]
        assert len(leading) <= 1
        terms = sum(len(each.terms) for each in processes)
    assert terms > 3
