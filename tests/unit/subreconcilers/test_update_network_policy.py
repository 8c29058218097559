"""UpdateNetworkPolicy."""

from typing import Any

from flamectl_operator.desired.network_policy import operators
from flamectl_operator.runtime.outcome import DONE
from flamectl_operator.subreconcilers.update_network_policy import UpdateNetworkPolicy
from tests.unit.subreconcilers.errors import forbidden
from tests.unit.subreconcilers.harness import SOMEBODY, StepHarness, converged, edited

NAME = "my-flame-network-policy"
CLIENT = {"podSelector": {"matchLabels": {"flame-client": "true"}}}
WANTED: dict[str, Any] = {"networkPolicy": {"clients": [CLIENT]}}
NOT_WANTED: dict[str, Any] = {"networkPolicy": None}
LABEL = {"flame.xflops.io/cluster": "my-flame"}


def _found(world: StepHarness) -> dict[str, Any]:
    return world.api.present("networkpolicies", NAME)


def _writes(world: StepHarness) -> list[tuple[str, str, str]]:
    return [write for write in world.writes if write[1] == "networkpolicies"]


async def test_policy_is_there_before_the_pods() -> None:
    world = StepHarness(WANTED)

    await world.run_pass()

    created = [plural for verb, plural, _ in world.writes if verb == "create"]
    assert created.index("networkpolicies") < created.index("pods")
    assert world.events.reasons.count("NetworkPolicyCreated") == 1


async def test_changed_clients_change_the_policy_and_no_pod() -> None:
    world = await edited(WANTED, {"networkPolicy": {"clients": []}})

    await world.converge()

    assert [rule["from"] for rule in _found(world)["spec"]["ingress"] if CLIENT in rule["from"]] == []
    assert {plural for _, plural, _ in world.writes} == {"networkpolicies", "flameclusters"}


async def test_foreign_policy_of_its_name_is_not_changed_where_none_is_wanted() -> None:
    world = StepHarness(NOT_WANTED)
    world.squat("networkpolicies", NAME, labels=LABEL, ownerReferences=[SOMEBODY], uid="foreign")

    assert await UpdateNetworkPolicy().run(await world.recorded()) is DONE
    assert _writes(world) == []


async def test_generation_is_not_reconciled_before_the_policy_is_written() -> None:
    world = await converged()
    world.edit(WANTED)
    world.api.fail("create", "networkpolicies", forbidden(), name=NAME)

    await world.run_pass()

    assert world.status.generations.reconciled == 1
    assert world.status.generations.needs_network_policy_update == 2
    await world.converge()
    assert world.status.generations.reconciled == 2
    assert world.status.generations.needs_network_policy_update == 0


# --- Two operators in different namespaces -------------------------------------------------------------------------------


async def _two_operators() -> tuple[StepHarness, StepHarness]:
    one = StepHarness(WANTED, operator_namespace="one")
    await one.converge()
    two = one.rival("them", operator_namespace="two")
    await two.converge()
    return one, two


async def test_two_operators_of_one_cluster_let_each_other_in_and_rest() -> None:
    one, two = await _two_operators()
    one.writes.clear()

    await one.run_pass()
    await two.run_pass()

    assert operators(_found(one)["spec"]) == ["one", "two"]
    assert _writes(one) == []


async def test_each_of_two_operators_reverts_an_edit_of_the_clients() -> None:
    one, two = await _two_operators()
    wanted = _found(one)["spec"]
    *others, _clients, operator = wanted["ingress"]
    rules = [*others, {"ports": [{"port": 8080, "protocol": "TCP"}]}, operator]
    one.change("networkpolicies", NAME, {"spec": {"ingress": rules}})

    await two.run_pass()

    assert _found(one)["spec"] == wanted
