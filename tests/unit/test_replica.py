"""One of the processes of an operator: what it does in each of its terms."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from flamectl_operator import replica as replica_module
from flamectl_operator.kube.events import ObjectReference
from flamectl_operator.replica import Replica, lock_identity
from flamectl_operator.settings import OperatorConfig
from tests.unit.builders import NOW
from tests.unit.subreconcilers.fake_api import FakeApi, ManualClock
from tests.unit.subreconcilers.world import Recorded

CONFIG_MAP = ObjectReference("v1", "ConfigMap", "flamectl-system", "flamectl-operator-config", "u")


class Term:
    """An operator that does nothing for as long as it runs."""

    terms: list[Term]

    def __init__(
        self, _client: object, config: OperatorConfig, clock: ManualClock, *_more: object, **_names: object
    ) -> None:
        self.configs = [config]
        self.events = Recorded(FakeApi(clock), clock)
        self.terms.append(self)

    def reconfigure(self, config: OperatorConfig) -> None:
        self.configs.append(config)

    async def run(self, stop: asyncio.Event) -> None:
        await stop.wait()


@pytest.fixture
def terms(monkeypatch: pytest.MonkeyPatch) -> list[Term]:
    monkeypatch.setattr(Term, "terms", [], raising=False)
    monkeypatch.setattr(replica_module, "Operator", Term)
    return Term.terms


def _replica(config: OperatorConfig) -> Replica:
    api = FakeApi(ManualClock(NOW))
    return Replica(lambda _guard: api, api, config, ManualClock(NOW), Random(0), "host")


def _config(workers: int) -> OperatorConfig:
    return OperatorConfig.model_validate({"controller": {"maxCreatesPerPass": workers}})


async def test_other_settings_hold_in_this_term_and_in_those_to_come(terms: list[Term]) -> None:
    one, two, three = (_config(number) for number in (1, 2, 3))
    replica = _replica(one)

    stop = asyncio.Event()
    running = asyncio.create_task(replica.run(stop))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    replica.reconfigure(two)
    stop.set()
    await running
    assert terms[0].configs == [one, two]

    replica.reconfigure(three)
    await replica.run(stop)
    assert terms[1].configs == [three]
    assert terms[0].configs == [one, two]


async def test_events_are_told_by_the_one_that_works(terms: list[Term]) -> None:
    replica = _replica(_config(1))
    replica.tell(CONFIG_MAP, "Normal", "TooEarly", "nobody works yet")

    stop = asyncio.Event()
    running = asyncio.create_task(replica.run(stop))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    replica.tell(CONFIG_MAP, "Normal", "InTime", "")
    stop.set()
    await running
    replica.tell(CONFIG_MAP, "Normal", "TooLate", "")

    assert [term.events.reasons for term in terms] == [["InTime"]]


@pytest.mark.parametrize(
    ("controller", "election", "namespace", "identity"),
    [
        pytest.param({}, {}, "flamectl-system", "flamectl-system/flamectl-operator", id="in a cluster"),
        pytest.param({}, {"resourceName": "blue"}, "flamectl-system", "flamectl-system/blue", id="another Lease"),
        pytest.param(
            {},
            {"resourceNamespace": "leases"},
            "flamectl-system",
            "leases/flamectl-operator",
            id="the Lease is elsewhere",
        ),
        pytest.param(
            {},
            {"resourceNamespace": "leases"},
            None,
            "leases/flamectl-operator",
            id="outside, the Lease's namespace is set",
        ),
        pytest.param({}, {}, None, "host", id="outside"),
        pytest.param({}, {"resourceName": "blue"}, None, "host", id="outside, a Lease without a namespace is none"),
        pytest.param({"lockIdentity": "mine"}, {}, "flamectl-system", "mine", id="set, in a cluster"),
        pytest.param({"lockIdentity": "mine"}, {"resourceNamespace": "leases"}, None, "mine", id="set, outside"),
    ],
)
def test_who_a_deployment_is_in_leases_of_flame_clusters(
    controller: dict[str, str], election: dict[str, str], namespace: str | None, identity: str
) -> None:
    config = OperatorConfig.model_validate({"controller": controller, "leaderElection": election})

    assert lock_identity(config, "host", namespace) == identity
