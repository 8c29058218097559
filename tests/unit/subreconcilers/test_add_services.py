"""AddServices."""

from typing import Any

import pytest

from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.runtime.outcome import DONE, Outcome
from flamectl_operator.subreconcilers.add_services import AddServices
from tests.unit.builders import desired
from tests.unit.subreconcilers.errors import REFUSALS, Failure, forbidden
from tests.unit.subreconcilers.harness import CACHE_NAME, SM_NAME, StepHarness, converged

BOTH = [SM_NAME, CACHE_NAME]


async def _step(world: StepHarness) -> Outcome:
    return await AddServices().run(await world.recorded())


def _spec(world: StepHarness, name: str) -> dict[str, Any]:
    found = world.api.present("services", name)
    spec: dict[str, Any] = found["spec"]
    return spec


async def test_both_services_are_created() -> None:
    world = StepHarness()

    assert await _step(world) is DONE
    wanted = (desired().session_manager_service, desired().object_cache_service)
    assert [_spec(world, name) for name in BOTH] == [manifest["spec"] for manifest in wanted]
    assert world.events.reasons == ["ServiceCreated", "ServiceCreated"]


@pytest.mark.parametrize(("error", "reason"), REFUSALS)
@pytest.mark.parametrize(("refused", "other"), [(SM_NAME, CACHE_NAME), (CACHE_NAME, SM_NAME)])
async def test_refused_service_does_not_prevent_the_other(
    refused: str, other: str, error: Failure, reason: str
) -> None:
    world = StepHarness()
    world.api.fail("create", "services", error(), name=refused)

    with pytest.raises(RefusedError) as raised:
        await _step(world)

    assert raised.value.reason == reason
    assert world.api.find("services", other) is not None


async def test_service_missing_at_its_repair_is_created_by_the_next_pass() -> None:
    world = await converged()
    world.change("services", SM_NAME, {"spec": {"type": "NodePort"}})
    world.sync()
    world.api.remove("services", SM_NAME)

    await world.run_pass(stale=True)
    assert world.another_pass_follows
    world.clock.elapsed += 1
    await world.run_pass(stale=True)

    assert world.api.find("services", SM_NAME) is not None


async def test_name_conflict_sets_degraded_whatever_the_other_service() -> None:
    world = await converged()
    world.change(
        "services", SM_NAME, {"metadata": {"deletionTimestamp": "2025-06-01T12:00:00Z", "finalizers": ["cloud/lb"]}}
    )
    world.api.remove("services", CACHE_NAME)
    world.squat("services", CACHE_NAME)

    await world.run_pass()

    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "ServiceConflict")
    assert CACHE_NAME in message


async def test_name_conflict_is_reported_when_the_other_service_is_refused() -> None:
    world = StepHarness()
    world.squat("services", SM_NAME)
    world.api.fail("create", "services", forbidden(), name=CACHE_NAME)

    await world.run_pass()

    _, _, message = world.condition("Degraded")
    assert SM_NAME in message
    assert str(forbidden()) in message


async def test_webhook_that_takes_owner_references_off_is_named_at_the_creation() -> None:
    def take_off(_plural: str, manifest: dict[str, Any]) -> None:
        manifest["metadata"].pop("ownerReferences", None)

    world = StepHarness()
    world.api.webhook = take_off

    outcome = await _step(world)

    assert outcome.reason == "ChangesUndone"
    assert "check the webhooks that change it" in outcome.message
    assert "check the webhooks that change it" in (await _step(world)).message
