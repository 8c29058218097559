"""What every kind of child has in common: edits are reverted, foreign objects stay, and trouble with a write is told."""

from typing import Any

import pytest

from flamectl_operator.desired import names
from flamectl_operator.reconcile.objects.outcomes import TAKEN_NAME_RECHECK_SECONDS
from tests.unit.builders import OWNER, merged
from tests.unit.subreconcilers.errors import REFUSALS, Failure, already_exists, broken, conflict, refusal_of
from tests.unit.subreconcilers.harness import (
    CACHE_NAME,
    CM_NAME,
    EARLIER,
    OTHER,
    SM_NAME,
    SOMEBODY,
    StepHarness,
    cache_name,
    converged,
    edited,
)

#: A cluster with each kind of child that has a name of its own.
EVERYTHING = {"clientConfig": {}, "networkPolicy": {}, "objectCache": {"image": "cache:1"}}
CLIENT_NAME = names.client_config(OWNER.name)
POLICY_NAME = names.network_policy(OWNER.name)
PODS = [("pods", SM_NAME), ("pods", cache_name(0))]
OTHERS = [
    ("configmaps", CM_NAME),
    ("configmaps", CLIENT_NAME),
    ("services", SM_NAME),
    ("services", CACHE_NAME),
    ("networkpolicies", POLICY_NAME),
]
CHILDREN = pytest.mark.parametrize(("plural", "name"), OTHERS + PODS)
#: The children that the spec may leave out.
OPTIONAL = pytest.mark.parametrize(
    ("field", "plural", "name"),
    [("clientConfig", "configmaps", CLIENT_NAME), ("networkPolicy", "networkpolicies", POLICY_NAME)],
)
KINDS = {"configmaps": "ConfigMap", "networkpolicies": "NetworkPolicy"}
OVERSIZED = [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.1/32"] * 9999}}]}]
POLICY_EDITS: list[dict[str, Any]] = [
    {"ingress": [{}]},
    {"ingress": []},
    {"podSelector": {"matchLabels": {"app": "x"}}},
    {"podSelector": {"matchLabels": None}},
    {"podSelector": {"matchExpressions": None}},
    {"policyTypes": ["Ingress", "Egress"], "egress": [{"to": []}]},
    {"ingress": OVERSIZED},
]
OWNED = OWNER.owner_reference()
BESIDE = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web-uid"}
EDITS: list[tuple[str, str, dict[str, Any]]] = [
    ("configmaps", CM_NAME, {"data": {"flame-cluster.yaml": "edited"}}),
    ("configmaps", CM_NAME, {"metadata": {"annotations": {"flame.xflops.io/config-hash": "x"}}}),
    ("configmaps", CLIENT_NAME, {"data": {"flame.yaml": "edited"}}),
    *(("configmaps", name, {"data": {"more": "x"}}) for name in (CM_NAME, CLIENT_NAME)),
    *(("services", name, {"spec": {"type": "NodePort", "selector": {"app": "x"}}}) for name in (SM_NAME, CACHE_NAME)),
    *(("networkpolicies", POLICY_NAME, {"spec": edit}) for edit in POLICY_EDITS),
    *((*child, {"metadata": {"labels": {"app.kubernetes.io/name": "x"}}}) for child in OTHERS),
    *((*child, {"metadata": {"labels": {"app": "web"}}}) for child in PODS),
    *((*child, {"metadata": {"ownerReferences": [OWNED | {"kind": "Web"}]}}) for child in OTHERS),
    *((*child, {"metadata": {"ownerReferences": [BESIDE, OWNED | {"name": "x"}]}}) for child in OTHERS),
]


@pytest.mark.parametrize(("plural", "name", "edit"), EDITS, ids=lambda each: str(each)[:60])
async def test_edit_by_hand_is_reverted_and_fields_of_others_are_kept(
    plural: str, name: str, edit: dict[str, Any]
) -> None:
    world = await converged(EVERYTHING)
    theirs: dict[str, Any] = {"metadata": {"annotations": {"note": "x"}}}
    if plural == "services":
        theirs["spec"] = {"clusterIP": "10.0.0.1"}
    if edit.get("spec") == {"ingress": OVERSIZED}:
        theirs = {}  # such an object is made anew
    before = merged(world.api.present(plural, name), theirs)
    world.change(plural, name, merged(edit, theirs))

    await world.converge()
    world.clock.elapsed += 1
    await world.converge()

    after = world.api.present(plural, name)
    assert (after.get("data"), after.get("spec")) == (before.get("data"), before.get("spec"))
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert after["metadata"].get("annotations") == before["metadata"].get("annotations")
    assert after["metadata"]["ownerReferences"][-1] == OWNED
    assert world.status.config_generation == 1
    assert world.deleted == []


@pytest.mark.parametrize("labels", [{"flame.xflops.io/cluster": "my-flame"}, {}], ids=["visible", "invisible"])
@pytest.mark.parametrize(
    ("references", "reason", "words"),
    [
        pytest.param([], "NameConflict", "has no owner", id="nobody's"),
        pytest.param([SOMEBODY], "NameConflict", "is controlled by ReplicaSet web", id="somebody's"),
        pytest.param([OTHER], "NameConflict", "is controlled by FlameCluster other", id="another FlameCluster's"),
        pytest.param([EARLIER], "NameNotFree", "earlier FlameCluster", id="an earlier FlameCluster's"),
    ],
)
@CHILDREN
async def test_foreign_object_is_reported_and_not_changed(
    plural: str, name: str, labels: dict[str, str], references: list[dict[str, Any]], reason: str, words: str
) -> None:
    world = StepHarness(EVERYTHING)
    world.squat(plural, name, labels=labels, ownerReferences=references)
    before = world.api.find(plural, name)

    result = await world.run_pass()

    wanted = reason.replace("Name", "Service") if (plural, reason) == ("services", "NameConflict") else reason
    [found] = [each for each in result.outcomes if each.reason == wanted and name in each.message]
    assert words in found.message
    assert found.delay == TAKEN_NAME_RECHECK_SECONDS
    assert world.api.find(plural, name) == before


@pytest.mark.parametrize(("error", "reason"), REFUSALS)
@pytest.mark.parametrize(("plural", "name"), OTHERS)
@pytest.mark.parametrize("verb", ["create", "patch"])
async def test_refusal_is_reported_in_the_servers_words(
    plural: str, name: str, verb: str, error: Failure, reason: str
) -> None:
    world = StepHarness(EVERYTHING) if verb == "create" else await converged(EVERYTHING)
    if verb == "patch":
        world.change(plural, name, {"metadata": {"labels": {"app.kubernetes.io/name": "x"}}})
    world.api.fail(verb, plural, error(), name=name, times=99)

    await world.run_passes(4, ready=True)

    assert world.condition("Degraded") == ("True", reason, refusal_of(error()))
    # Pods need the ConfigMap and nothing else of these.
    assert world.executor_ids == ([] if (verb, name) == ("create", CM_NAME) else [0])


@OPTIONAL
async def test_child_that_the_spec_no_longer_asks_for_is_deleted(field: str, plural: str, name: str) -> None:
    world = await edited({field: {}}, {field: None})

    await world.run_pass()

    assert world.api.find(plural, name) is None
    assert [reason for reason in world.events.reasons if reason.endswith("Deleted")] == [f"{KINDS[plural]}Deleted"]
    assert world.api.find("configmaps", CM_NAME) is not None


@pytest.mark.parametrize(
    ("error", "applied", "errors"),
    [(broken, True, 0), (broken, False, 1), (conflict, False, 0)],
    ids=["its answer was lost", "it failed", "the child has changed"],
)
@OPTIONAL
async def test_deletion_of_a_child_is_repeated_until_the_child_is_gone(
    field: str, plural: str, name: str, error: Failure, *, applied: bool, errors: int
) -> None:
    world = await edited({field: {}}, {field: None})
    world.api.fail("delete", plural, error(), name=name, applied=applied)

    assert len((await world.run_pass()).errors) == errors
    assert (world.api.find(plural, name) is None) == applied
    await world.converge()
    assert world.api.find(plural, name) is None


@pytest.mark.parametrize(("error", "reason"), REFUSALS)
@OPTIONAL
async def test_refused_deletion_of_a_child_is_reported(
    field: str, plural: str, name: str, error: Failure, reason: str
) -> None:
    world = await edited({field: {}}, {field: None})
    world.api.fail("delete", plural, error(), name=name)

    await world.run_pass()

    assert world.condition("Degraded")[:2] == ("True", reason)


@OPTIONAL
async def test_foreign_object_stays_where_the_spec_asks_for_none(field: str, plural: str, name: str) -> None:
    world = StepHarness({field: None})
    world.squat(plural, name, labels={"flame.xflops.io/cluster": OWNER.name}, ownerReferences=[SOMEBODY], uid="foreign")

    await world.converge()

    assert (plural, name) not in {write[1:] for write in world.writes}


@CHILDREN
async def test_conflict_in_a_repair_is_not_an_error(plural: str, name: str) -> None:
    world = await converged(EVERYTHING)
    world.change(plural, name, {"metadata": {"labels": {"app" if plural == "pods" else "app.kubernetes.io/name": "x"}}})
    world.api.fail("patch", plural, conflict(), name=name)

    result = await world.run_pass()

    assert result.errors == ()
    assert "Changed" in [each.reason for each in result.outcomes]


@CHILDREN
async def test_name_conflict_with_a_vanished_object_is_rechecked_soon(plural: str, name: str) -> None:
    world = StepHarness(EVERYTHING)
    world.api.fail("create", plural, already_exists(), name=name)

    result = await world.run_pass()

    assert ("Changed", 0.25) in [(each.reason, each.delay) for each in result.outcomes]


@CHILDREN
async def test_creation_with_a_lost_answer_is_not_repeated(plural: str, name: str) -> None:
    world = StepHarness(EVERYTHING)
    world.api.fail("create", plural, broken(), name=name, applied=True)

    await world.converge()

    assert world.writes.count(("create", plural, name)) == 1
    assert world.status.reason == "Healthy"


@CHILDREN
async def test_child_that_lost_its_owner_reference_is_told_from_a_foreign_one(plural: str, name: str) -> None:
    world = await converged(EVERYTHING)
    owners = world.api.present(plural, name)["metadata"]["ownerReferences"]
    world.change(plural, name, {"metadata": {"ownerReferences": []}})
    await world.run_pass()

    message = world.condition("Degraded")[2]
    assert "it has no owner, but the labels of this FlameCluster (give it back its metadata.ownerReferences" in message
    world.change(plural, name, {"metadata": {"ownerReferences": owners}})
    await world.converge()
    assert world.status.reason == "Healthy"
