"""UpdateNetworkPolicy."""

from typing import Any

from flamectl_operator.desired.network_policy import operators
from tests.unit.subreconcilers.errors import forbidden
from tests.unit.subreconcilers.harness import StepHarness, converged

NAME = "my-flame-network-policy"
CLIENT = {"podSelector": {"matchLabels": {"flame-client": "true"}}}
WANTED: dict[str, Any] = {"networkPolicy": {"clients": [CLIENT]}}
NOT_WANTED: dict[str, Any] = {"networkPolicy": None}
LABEL = {"flame.xflops.io/cluster": "my-flame"}


def _found(world: StepHarness) -> dict[str, Any]:
    return world.api.present("networkpolicies", NAME)


def _writes(world: StepHarness) -> list[tuple[str, str, str]]:
    return [write for write in world.writes if write[1] == "networkpolicies"]


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
