"""AddServices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flamectl_operator.runtime.outcome import DONE
from flamectl_operator.subreconcilers.add_services import AddServices
from flamectl_operator.subreconcilers.refusals import RefusedError
from tests.unit.builders import desired
from tests.unit.subreconcilers.errors import REFUSALS, already_exists, conflict, forbidden
from tests.unit.subreconcilers.world import CACHE_NAME, SM_NAME, World, converged

if TYPE_CHECKING:
    from collections.abc import Callable

    from flamectl_operator.kube.errors import KubernetesError
    from flamectl_operator.runtime.outcome import Outcome

BOTH = [SM_NAME, CACHE_NAME]


async def _step(world: World) -> Outcome:
    return await AddServices().reconcile(await world.opened())


def _spec(world: World, name: str) -> dict[str, Any]:
    found = world.api.find("services", name)
    assert found is not None
    spec: dict[str, Any] = found["spec"]
    return spec


async def test_both_are_made() -> None:
    world = World()

    assert await _step(world) is DONE
    assert [_spec(world, name) for name in BOTH] == [manifest["spec"] for manifest in desired().services]
    assert world.events.reasons == ["ServiceCreated", "ServiceCreated"]


async def test_they_are_left_alone_when_they_are_as_they_should_be() -> None:
    world = await converged()
    world.change("services", SM_NAME, {"spec": {"clusterIP": "10.0.0.1"}, "metadata": {"annotations": {"note": "x"}}})

    assert await _step(world) is DONE
    assert world.writes == []


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"spec": {"selector": {"app": "web"}}}, id="selector"),
        pytest.param({"spec": {"selector": {"more": "x"}}}, id="selects less"),
        pytest.param({"spec": {"ports": [{"name": "web", "port": 80, "targetPort": 80}]}}, id="ports"),
        pytest.param({"spec": {"type": "NodePort"}}, id="type"),
        pytest.param({"metadata": {"labels": {"app.kubernetes.io/name": "x"}}}, id="label"),
    ],
)
async def test_a_hand_edit_is_undone_and_what_others_own_is_kept(name: str, edit: dict[str, Any]) -> None:
    world = await converged()
    before = dict(_spec(world, name))
    world.change("services", name, edit)
    world.change("services", name, {"spec": {"clusterIP": "10.0.0.1"}, "metadata": {"annotations": {"note": "x"}}})

    assert await _step(world) is DONE
    assert _spec(world, name) == before | {"clusterIP": "10.0.0.1"}
    found = world.api.find("services", name)
    assert found is not None
    assert found["metadata"]["annotations"]["note"] == "x"
    assert found["metadata"]["labels"]["app.kubernetes.io/name"] == "flame"


@pytest.mark.parametrize("name", BOTH)
async def test_a_deleted_one_comes_back(name: str) -> None:
    world = await converged()
    world.api.remove("services", name)

    assert await _step(world) is DONE
    assert world.api.find("services", name) is not None


@pytest.mark.parametrize("name", BOTH)
async def test_ours_without_its_label_gets_it_back(name: str) -> None:
    world = await converged()
    world.unlabel("services", name)

    assert await _step(world) is DONE
    found = world.api.find("services", name)
    assert found is not None
    assert found["metadata"]["labels"]["flame.xflops.io/cluster"] == "my-flame"


@pytest.mark.parametrize(("taken", "other"), [(SM_NAME, CACHE_NAME), (CACHE_NAME, SM_NAME)])
async def test_a_foreign_one_is_named_and_keeps_nothing_else_from_being_done(taken: str, other: str) -> None:
    world = World()
    world.squat("services", taken)

    outcome = await _step(world)

    assert outcome.reason == "NameConflict"
    assert taken in outcome.message
    assert _spec(world, taken) == {}
    assert world.api.find("services", other) is not None


@pytest.mark.parametrize(("error", "reason"), REFUSALS)
@pytest.mark.parametrize(("refused", "other"), [(SM_NAME, CACHE_NAME), (CACHE_NAME, SM_NAME)])
async def test_one_that_is_refused_does_not_keep_the_other(
    refused: str, other: str, error: Callable[[], KubernetesError], reason: str
) -> None:
    world = World()
    world.api.fail("create", "services", error(), name=refused)

    with pytest.raises(RefusedError) as raised:
        await _step(world)

    assert raised.value.reason == reason
    assert world.api.find("services", other) is not None


async def test_one_that_appears_and_is_gone_again_is_looked_for_soon() -> None:
    world = World()
    world.api.fail("create", "services", already_exists(), name=SM_NAME)

    outcome = await _step(world)

    assert (outcome.reason, outcome.delay) == ("Changed", 0.25)


async def test_a_conflict_is_no_error() -> None:
    world = await converged()
    world.change("services", SM_NAME, {"spec": {"type": "NodePort"}})
    world.api.fail("patch", "services", conflict())

    assert (await _step(world)).reason == "Changed"


async def test_after_a_conflict_the_next_pass_knows_what_the_watch_has_not_told() -> None:
    world = await converged()
    before = dict(_spec(world, SM_NAME))
    world.change("services", SM_NAME, {"spec": {"type": "NodePort"}})
    world.sync()
    world.change("services", SM_NAME, {"metadata": {"annotations": {"note": "x"}}})

    await world.run_pass(stale=True)
    assert _spec(world, SM_NAME) != before
    await world.run_pass(stale=True)

    assert _spec(world, SM_NAME) == before


async def test_one_that_a_repair_finds_gone_is_made_by_the_next_pass() -> None:
    world = await converged()
    world.change("services", SM_NAME, {"spec": {"type": "NodePort"}})
    world.sync()
    world.api.remove("services", SM_NAME)

    await world.run_pass(stale=True)
    assert world.another_pass_follows
    await world.run_pass(stale=True)

    assert world.api.find("services", SM_NAME) is not None


async def test_a_name_conflict_degrades_whatever_becomes_of_the_other_service() -> None:
    world = await converged()
    world.change(
        "services", SM_NAME, {"metadata": {"deletionTimestamp": "2025-06-01T12:00:00Z", "finalizers": ["cloud/lb"]}}
    )
    world.api.remove("services", CACHE_NAME)
    world.squat("services", CACHE_NAME)

    await world.run_pass()

    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "NameConflict")
    assert CACHE_NAME in message


async def test_a_name_conflict_is_said_also_when_the_other_service_is_refused() -> None:
    world = World()
    world.squat("services", SM_NAME)
    world.api.fail("create", "services", forbidden(), name=CACHE_NAME)

    await world.run_pass()

    _, _, message = world.condition("Degraded")
    assert SM_NAME in message
    assert str(forbidden()) in message
