"""UpdateNetworkPolicy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flamectl_operator.desired.network_policy import operators
from flamectl_operator.kube.errors import KubernetesError
from flamectl_operator.reconcile.refusals import RefusedError
from flamectl_operator.runtime.outcome import DONE, Kind, Outcome
from flamectl_operator.subreconcilers.update_network_policy import UpdateNetworkPolicy
from tests.unit.subreconcilers.errors import REFUSALS, broken, conflict, forbidden
from tests.unit.subreconcilers.harness import SOMEBODY, StepHarness, converged

NAME = "my-flame-network-policy"
CLIENT = {"podSelector": {"matchLabels": {"flame-client": "true"}}}
WANTED: dict[str, Any] = {"networkPolicy": {"clients": [CLIENT]}}
NOT_WANTED: dict[str, Any] = {"networkPolicy": None}
LABEL = {"flame.xflops.io/cluster": "my-flame"}


async def _step(world: StepHarness) -> Outcome:
    return await UpdateNetworkPolicy().run(await world.recorded())


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


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"spec": {"ingress": [{}]}}, id="everybody is let in"),
        pytest.param({"spec": {"ingress": []}}, id="nobody is let in"),
        pytest.param({"spec": {"podSelector": {"matchLabels": {"app": "x"}}}}, id="a label more is asked for"),
        pytest.param({"spec": {"podSelector": {"matchLabels": None}}}, id="other clusters are selected"),
        pytest.param({"spec": {"podSelector": {"matchExpressions": None}}}, id="all Pods are selected"),
        pytest.param({"spec": {"policyTypes": ["Ingress", "Egress"], "egress": [{"to": []}]}}, id="egress"),
        pytest.param({"metadata": {"labels": {"app.kubernetes.io/name": "x"}}}, id="label"),
        pytest.param(
            {"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.1/32"] * 9999}}]}]}},
            id="too large to keep",
        ),
    ],
)
async def test_manual_edit_is_reverted(edit: dict[str, Any]) -> None:
    world = await converged(WANTED)
    before = _found(world)
    world.change("networkpolicies", NAME, edit)

    await world.converge()
    world.clock.elapsed += 1
    await world.converge()

    assert _found(world)["spec"] == before["spec"]
    assert _found(world)["metadata"]["labels"] == before["metadata"]["labels"]


async def test_changed_clients_change_the_policy_and_no_pod() -> None:
    world = await converged(WANTED)
    world.edit({"networkPolicy": {"clients": []}})

    await world.converge()

    assert [rule["from"] for rule in _found(world)["spec"]["ingress"] if CLIENT in rule["from"]] == []
    assert {plural for _, plural, _ in world.writes} == {"networkpolicies", "flameclusters"}


async def test_creation_with_a_lost_answer_is_not_repeated() -> None:
    world = StepHarness(WANTED)
    world.api.fail("create", "networkpolicies", broken(), applied=True)

    assert await _step(world) is DONE
    assert len(_writes(world)) == 1


async def test_policy_that_changed_meanwhile_is_read_again() -> None:
    world = await converged(WANTED)
    world.edit({"networkPolicy": {"clients": []}})
    world.api.fail("patch", "networkpolicies", conflict())

    outcome = await _step(world)

    assert outcome.kind is Kind.WAIT


@pytest.mark.parametrize(("refusal", "reason"), REFUSALS)
async def test_a_refused_policy_is_an_error_and_the_cluster_comes_up(
    refusal: Callable[[], KubernetesError], reason: str
) -> None:
    world = StepHarness(WANTED)
    world.api.fail("create", "networkpolicies", refusal(), times=99)

    with pytest.raises(RefusedError) as caught:
        await _step(world)
    await world.run_passes(4, ready=True)

    assert caught.value.reason == reason
    assert world.condition("Degraded")[:2] == ("True", reason)
    assert world.executor_ids == [0]


@pytest.mark.parametrize("wanted", [WANTED, NOT_WANTED])
async def test_foreign_policy_of_its_name_is_not_changed(wanted: dict[str, Any]) -> None:
    world = StepHarness(wanted)
    world.squat("networkpolicies", NAME, labels=LABEL, ownerReferences=[SOMEBODY], uid="foreign")
    before = _found(world)

    outcome = await _step(world)

    assert _found(world) == before
    assert [write for write in _writes(world) if write[0] != "create"] == []
    assert (outcome is DONE) == (wanted is NOT_WANTED)
    assert outcome is DONE or outcome.reason == "NameConflict"


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
