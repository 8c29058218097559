"""Somebody changes or deletes a child again and again."""

from collections.abc import Callable
from typing import Any

import pytest

from flamectl_operator.kube.errors import ForbiddenError, ServerError
from flamectl_operator.runtime.outcome import Result
from tests.unit.subreconcilers.harness import (
    CACHE_NAME,
    CM_NAME,
    SM_NAME,
    StepHarness,
    cache_name,
    converged,
    executor_name,
)

#: A cluster with each kind of child.
EVERYTHING = {
    "commonLabels": {"owner": "team-a"},
    "commonAnnotations": {"example.com/cost": "17"},
    "clientConfig": {},
    "networkPolicy": {},
    "objectCache": {"image": "cache:1"},
    "sessionManager": {"persistence": {"size": "1Gi"}, "storage": "fs:///var/lib/flame/session"},
}
#: Seconds between two changes of somebody who flips a field faster than the operator restores it.
STEP = 0.5
SECONDS = 10
UNLABELLED = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "x"}}}
MOVED = {"metadata": {"labels": {"app": "x"}}}

RELABELLED = {"metadata": {"labels": {"owner": "somebody"}}}
REANNOTATED = {"metadata": {"annotations": {"example.com/cost": "0"}}}

CHILDREN = [
    pytest.param("services", SM_NAME, {"spec": {"type": "NodePort"}}, id="Service of the session manager"),
    pytest.param("services", CACHE_NAME, {"spec": {"externalName": "x.example"}}, id="Service of the object cache"),
    pytest.param("configmaps", CM_NAME, {"data": {"flame-cluster.yaml": "x"}}, id="ConfigMap"),
    pytest.param("configmaps", "my-flame-client", {"data": {"flame.yaml": "x"}}, id="ConfigMap for clients"),
    pytest.param("networkpolicies", "my-flame-network-policy", {"spec": {"egress": [{}]}}, id="NetworkPolicy"),
    pytest.param("pods", SM_NAME, MOVED, id="labels of the session manager"),
    pytest.param("pods", cache_name(0), MOVED, id="labels of an object cache"),
    pytest.param("persistentvolumeclaims", SM_NAME, UNLABELLED, id="labels of a claim"),
    pytest.param("services", SM_NAME, RELABELLED, id="common labels of a Service"),
    pytest.param("pods", SM_NAME, RELABELLED, id="common labels of the session manager"),
    pytest.param("pods", executor_name(0), RELABELLED, id="common labels of an executor"),
    pytest.param("persistentvolumeclaims", SM_NAME, RELABELLED, id="common labels of a claim"),
    pytest.param("configmaps", CM_NAME, REANNOTATED, id="common annotations of the ConfigMap"),
]

#: A child that is kept as its manifest says, and one that only has its metadata kept.
ONE_OF_EACH_STEP = [CHILDREN[0], CHILDREN[5]]


def _managed(manager: str, at: str = "2025-06-01T12:00:01Z") -> list[dict[str, Any]]:
    return [
        {"manager": "flamectl-operator", "operation": "Update", "time": "2025-06-01T12:00:09Z"},
        {"manager": "kubectl-create", "operation": "Update", "time": "2025-06-01T11:00:00Z"},
        {"manager": manager, "operation": "Update", "time": at},
    ]


async def _contend(
    world: StepHarness, change: Callable[[], None], seconds: float = SECONDS, step: float = STEP
) -> Result:
    """Change something before each pass, as somebody can who answers each write of the operator."""
    result = await world.run_pass()
    for _ in range(round(seconds / step)):
        change()
        result = await world.run_pass()
        world.clock.elapsed += step
    return result


def _writes(world: StepHarness, plural: str, name: str) -> list[tuple[str, str, str]]:
    return [write for write in world.writes if write[1:] == (plural, name)]


@pytest.mark.parametrize(("plural", "name", "edit"), CHILDREN)
async def test_child_that_somebody_keeps_changing_is_restored_at_once_and_then_once_a_second(
    plural: str, name: str, edit: dict[str, Any]
) -> None:
    world = await converged(EVERYTHING)
    world.change(plural, name, edit)
    await world.run_pass()
    assert len(_writes(world, plural, name)) == 1, "the first repair comes at once"

    await _contend(world, lambda: world.change(plural, name, edit))

    assert SECONDS - 2 <= len(_writes(world, plural, name)) <= SECONDS + 2
    kind = {"services": "Service", "configmaps": "ConfigMap", "networkpolicies": "NetworkPolicy", "pods": "Pod"}
    label = f'{kind.get(plural, "PersistentVolumeClaim")} "{name}"'
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "Contention")
    assert f"{label} is changed again and again; the operator restores it once a second at most" in message


@pytest.mark.parametrize(("plural", "name", "edit"), CHILDREN)
@pytest.mark.parametrize("repaired", [False, True])
async def test_refusal_to_restore_a_child_is_told_for_as_long_as_it_lasts(
    plural: str, name: str, edit: dict[str, Any], *, repaired: bool
) -> None:
    world = await converged(EVERYTHING)
    if repaired:
        world.change(plural, name, edit)
        await world.converge()
        world.clock.elapsed += SECONDS
    world.events.told.clear()
    refusal = ForbiddenError(403, "Forbidden", "ValidatingAdmissionPolicy 'a' denied request: no change")
    world.api.fail("patch", plural, refusal, name=name, times=99)
    world.change(plural, name, edit)

    told = []
    for _ in range(SECONDS):
        await world.run_pass()
        told.append(world.condition("Degraded")[:2])
        world.clock.elapsed += 1

    assert set(told) == {("True", "AdmissionDenied")}
    assert [reason for kind, reason, *_ in world.events.told if kind == "Warning"] == ["AdmissionDenied"]


@pytest.mark.parametrize(("plural", "name", "edit"), CHILDREN)
async def test_requests_that_keep_failing_to_restore_a_child_are_told(
    plural: str, name: str, edit: dict[str, Any]
) -> None:
    world = await converged(EVERYTHING)
    world.api.fail(
        "patch", plural, ServerError(500, "InternalError", "the webhook does not answer"), name=name, times=99
    )
    world.change(plural, name, edit)

    await world.run_passes(2 * SECONDS, seconds=1)

    assert world.condition("Degraded")[:2] == ("True", "RequestsFailing")


@pytest.mark.parametrize(("plural", "name", "edit"), ONE_OF_EACH_STEP)
async def test_contention_costs_no_writes_of_the_status_and_no_events(
    plural: str, name: str, edit: dict[str, Any]
) -> None:
    world = await converged(EVERYTHING)
    await _contend(world, lambda: world.change(plural, name, edit), 10)
    world.writes.clear()
    world.events.told.clear()

    await _contend(world, lambda: world.change(plural, name, edit))

    assert {write[1:] for write in world.writes} == {(plural, name)}
    assert world.events.told == []


@pytest.mark.parametrize(("plural", "name", "edit"), ONE_OF_EACH_STEP)
async def test_end_of_a_contention_is_noticed_without_an_event(plural: str, name: str, edit: dict[str, Any]) -> None:
    world = await converged(EVERYTHING)
    result = await _contend(world, lambda: world.change(plural, name, edit), 10)

    begun = world.clock.elapsed
    while world.condition("Degraded")[1] == "Contention" and world.clock.elapsed < begun + 100:
        assert result.delay
        world.clock.elapsed += result.delay
        result = await world.run_pass()

    assert world.condition("Degraded")[0] == "False"
    assert (world.status.state, world.status.reason) == ("Running", "Healthy")


async def test_common_label_that_a_webhook_rewrites_costs_one_write_a_second_and_is_told() -> None:
    world = await converged(EVERYTHING)
    world.api.webhook = lambda _plural, manifest: manifest["metadata"].get("labels", {}).update({"owner": "platform"})
    world.edit({"commonLabels": {"owner": "team-b"}})

    await _contend(world, lambda: None)

    assert 2 <= len(_writes(world, "pods", SM_NAME)) <= SECONDS + 2
    assert "MetadataUpdated" not in world.events.reasons
    assert world.condition("Degraded")[1] == "ChangesUndone"
    assert "(metadata.labels[owner]); check the webhooks" in world.condition("Degraded")[2]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        pytest.param(_managed("evil\nmanager"), "evil manager", id="another manager"),
        pytest.param(_managed("flamectl-operator")[::2], "flamectl-operator", id="two operators that disagree"),
    ],
)
async def test_contention_names_the_field_manager_that_writes(fields: list[dict[str, Any]], told: str) -> None:
    world = await converged()
    edit = {"spec": {"type": "NodePort"}, "metadata": {"managedFields": fields}}

    await _contend(world, lambda: world.change("services", SM_NAME, edit), 10)

    assert f'again and again by "{told}" (metadata.managedFields)' in world.condition("Degraded")[2]


async def test_writer_that_changes_its_name_with_each_write_causes_no_writes_of_the_status() -> None:
    world = await converged()
    count = iter(range(10_000))

    def change() -> None:
        edit = {"spec": {"type": "NodePort"}, "metadata": {"managedFields": _managed(f"m{next(count)}")}}
        world.change("services", SM_NAME, edit)

    await _contend(world, change, 10)
    world.writes.clear()
    await _contend(world, change)

    assert {plural for _, plural, _ in world.writes} == {"services"}


@pytest.mark.parametrize(
    ("plural", "name"), [("services", SM_NAME), ("configmaps", CM_NAME), ("networkpolicies", "my-flame-network-policy")]
)
async def test_child_that_somebody_keeps_deleting_is_created_once_a_second(plural: str, name: str) -> None:
    world = await converged(EVERYTHING)

    def delete() -> None:
        if world.api.find(plural, name) is not None:
            world.api.remove(plural, name)

    await _contend(world, delete)

    assert SECONDS - 2 <= len(_writes(world, plural, name)) <= SECONDS + 2
    assert world.condition("Degraded")[1] == "Contention"


async def test_config_map_that_somebody_keeps_making_immutable_costs_one_write_a_second() -> None:
    world = await converged()

    def spoil() -> None:
        if world.api.find("configmaps", CM_NAME) is not None:
            world.change("configmaps", CM_NAME, {"immutable": True, "data": {"flame-cluster.yaml": "x"}})

    await _contend(world, spoil)

    assert len(_writes(world, "configmaps", CM_NAME)) <= SECONDS + 2
    assert world.condition("Degraded")[1] == "Contention"


async def test_some_edits_by_hand_are_no_contention() -> None:
    world = await converged()

    await _contend(world, lambda: world.change("services", SM_NAME, {"spec": {"type": "NodePort"}}), 20, step=5)

    assert world.condition("Degraded")[0] == "False"
    assert world.events.reasons.count("ServiceUpdated") == 4


async def test_changes_of_the_spec_are_followed_at_once_and_are_no_contention() -> None:
    world = await converged()

    for number in range(20):
        world.edit({"networkPolicy": {"clients": [{"podSelector": {"matchLabels": {"n": str(number)}}}]}})
        await world.run_pass()
        policy = world.api.find("networkpolicies", "my-flame-network-policy")
        assert f"'n': '{number}'" in str(policy)

    assert world.condition("Degraded")[0] == "False"
