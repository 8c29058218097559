"""A replica of the operator in its terms of leadership."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from flamectl_operator.desired.network_policy import operators
from flamectl_operator.kube.events import ObjectReference
from flamectl_operator.kube.views import ObjectMeta
from flamectl_operator.operator import Environment
from flamectl_operator.process import replica as replica_module
from flamectl_operator.process.replica import Host, Replica, lock_identity, restarted_pod_uid
from flamectl_operator.reconcile.spec_renderer import SpecRenderer
from flamectl_operator.runtime.telemetry import UNMEASURED
from flamectl_operator.settings.model import FlameSettings, OperatorConfig
from tests.unit.builders import NOW, OWNER, flame_cluster, raw_spec
from tests.unit.subreconcilers.fake_api import FakeApi, ManualClock
from tests.unit.subreconcilers.harness import Recorded

CONFIG_MAP = ObjectReference("v1", "ConfigMap", "flamectl-system", "flamectl-operator-config", "u")


class Term:
    """An operator that does nothing for as long as it runs."""

    terms: "list[Term]"

    def __init__(
        self, _client: object, config: OperatorConfig, clock: ManualClock, *more: object, **_names: object
    ) -> None:
        self.renderer = more[-1]
        self.configs = [config]
        self.events = Recorded(FakeApi(clock), clock)
        self.jumps = 0
        self.terms.append(self)

    def reconfigure(self, config: OperatorConfig) -> None:
        self.configs.append(config)

    def clock_jumped(self) -> None:
        self.jumps += 1

    async def run(self, stop: asyncio.Event) -> None:
        await stop.wait()


@pytest.fixture
def terms(monkeypatch: pytest.MonkeyPatch) -> list[Term]:
    monkeypatch.setattr(Term, "terms", [], raising=False)
    monkeypatch.setattr(replica_module, "Operator", Term)
    return Term.terms


def _replica(config: OperatorConfig, seed: int = 0, pod_uid: str = "") -> Replica:
    api = FakeApi(ManualClock(NOW))
    environment = Environment(ManualClock(NOW), Random(seed))
    return Replica(lambda _guard: api, api, config, environment, Host("host", pod_uid))


def _config(workers: int) -> OperatorConfig:
    return OperatorConfig.model_validate({"controller": {"maxCreatesPerPass": workers}})


@asynccontextmanager
async def _leading(replica: Replica) -> AsyncIterator[None]:
    """The replica leads until the end of the block."""
    stop = asyncio.Event()
    running = asyncio.create_task(replica.run(stop))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    yield
    stop.set()
    await running


async def _lead(replica: Replica) -> None:
    """Lead for one term that ends at once."""
    async with _leading(replica):
        pass


async def test_new_settings_apply_in_this_and_later_terms(terms: list[Term]) -> None:
    one, two, three = (_config(number) for number in (1, 2, 3))
    replica = _replica(one)

    async with _leading(replica):
        replica.reconfigure(two)
    assert terms[0].configs == [one, two]

    replica.reconfigure(three)
    await _lead(replica)
    assert terms[1].configs == [three]
    assert terms[0].configs == [one, two]


async def test_operator_of_this_term_hears_of_a_jump_of_the_servers_clock(terms: list[Term]) -> None:
    replica = _replica(_config(1))
    replica.clock_jumped()
    async with _leading(replica):
        replica.clock_jumped()
    replica.clock_jumped()
    assert [term.jumps for term in terms] == [1]


async def test_each_term_reuses_the_plans_of_the_previous_term(terms: list[Term]) -> None:
    replica = _replica(_config(1))
    await _lead(replica)
    await _lead(replica)
    assert isinstance(terms[0].renderer, SpecRenderer)
    assert terms[0].renderer is terms[1].renderer


async def test_plans_know_the_namespace_of_the_operator(terms: list[Term], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_module, "own_namespace", lambda: "flamectl-system")
    await _lead(_replica(_config(1)))

    renderer = terms[0].renderer
    assert isinstance(renderer, SpecRenderer)
    metadata = ObjectMeta(OWNER.name, OWNER.namespace, OWNER.uid, "1", 1)
    cluster = flame_cluster(metadata, raw_spec({"networkPolicy": {}}))
    planned = await renderer.render(OWNER, cluster, FlameSettings(), UNMEASURED)

    assert planned.desired is not None
    assert planned.desired.network_policy is not None
    assert operators(planned.desired.network_policy["spec"]) == ["flamectl-system"]


async def test_events_are_written_by_the_leading_replica(terms: list[Term]) -> None:
    replica = _replica(_config(1))
    replica.record_event(CONFIG_MAP, "Normal", "TooEarly", "nobody works yet")

    async with _leading(replica):
        replica.record_event(CONFIG_MAP, "Normal", "InTime", "")
    replica.record_event(CONFIG_MAP, "Normal", "TooLate", "")

    assert [term.events.reasons for term in terms] == [["InTime"]]


@pytest.mark.parametrize(
    ("controller", "election", "namespace", "identity"),
    [
        pytest.param({}, {}, "flamectl-system", "flamectl-system/flamectl-operator", id="in a cluster"),
        pytest.param({}, {"resourceName": "blue"}, "flamectl-system", "flamectl-system/blue", id="another Lease"),
        pytest.param({}, {"resourceNamespace": "leases"}, "flamectl-system", "leases/flamectl-operator",
            id="the Lease is elsewhere"),
        pytest.param({}, {"resourceNamespace": "leases"}, None, "leases/flamectl-operator",
            id="outside, the Lease's namespace is set"),
        pytest.param({}, {}, None, "host", id="outside"),
        pytest.param({}, {"resourceName": "blue"}, None, "host", id="outside, a Lease without a namespace is none"),
        pytest.param({"lockIdentity": "mine"}, {}, "flamectl-system", "mine", id="set, in a cluster"),
        pytest.param({"lockIdentity": "mine"}, {"resourceNamespace": "leases"}, None, "mine", id="set, outside"),
    ],
)  # fmt: skip
def test_lock_identity_of_a_deployment(
    controller: dict[str, str], election: dict[str, str], namespace: str | None, identity: str
) -> None:
    config = OperatorConfig.model_validate({"controller": controller, "leaderElection": election})

    assert lock_identity(config, "host", namespace) == identity


# --- The process that may know that its predecessor is dead


@pytest.mark.parametrize(
    ("environment", "pid", "uid"),
    [({"POD_UID": "u"}, 1, "u"), ({"POD_UID": "u"}, 7, ""), ({}, 1, ""), ({"POD_UID": ""}, 1, "")],
    ids=["first process", "process beside the first", "no uid", "empty uid"],
)
def test_only_the_first_process_of_a_container_uses_the_uid(environment: dict[str, str], pid: int, uid: str) -> None:
    assert restarted_pod_uid(environment, pid) == uid


def test_replica_succeeds_only_the_former_container_of_its_pod() -> None:
    first, second, other = (_replica(OperatorConfig(), *each) for each in ((1, "uid"), (2, "uid"), (3, "uid2")))
    assert second.candidate.succeeds(first.candidate.identity)
    assert not second.candidate.succeeds(other.candidate.identity)
    assert not other.candidate.succeeds(first.candidate.identity)


def test_replica_without_uid_succeeds_no_container() -> None:
    first, second, other = (_replica(OperatorConfig(), *each) for each in ((1,), (2,), (3, "uid")))
    assert not second.candidate.succeeds(first.candidate.identity)
    assert not second.candidate.succeeds(other.candidate.identity)
