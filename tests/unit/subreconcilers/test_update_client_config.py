"""UpdateClientConfig."""

from typing import Any

import pytest
import yaml

from flamectl_operator.kube.errors import KubernetesError
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.runtime.outcome import DONE, Kind, Outcome
from flamectl_operator.subreconcilers.update_client_config import UpdateClientConfig
from tests.unit.subreconcilers.errors import REFUSALS, Failure, broken, conflict
from tests.unit.subreconcilers.harness import StepHarness, edited

NAME = "my-flame-client"
WANTED: dict[str, Any] = {"clientConfig": {}}
NOT_WANTED: dict[str, Any] = {"clientConfig": None}


async def _step(world: StepHarness) -> Outcome:
    return await UpdateClientConfig().run(await world.recorded())


def _found(world: StepHarness) -> dict[str, Any]:
    return world.api.present("configmaps", NAME)


async def test_missing_client_config_is_created() -> None:
    world = StepHarness(WANTED)

    assert await _step(world) is DONE
    assert yaml.safe_load(_found(world)["data"]["flame.yaml"])["current-context"] == "my-flame"
    assert world.events.reasons == ["ConfigMapCreated"]


async def test_client_config_is_deleted_when_removed_from_the_spec() -> None:
    world = await edited(WANTED, NOT_WANTED)

    assert await _step(world) is DONE
    assert world.api.find("configmaps", NAME) is None
    assert world.events.reasons == ["ConfigMapDeleted"]
    assert world.api.find("configmaps", "my-flame-config") is not None


async def test_deletion_with_a_lost_answer_is_not_repeated() -> None:
    world = await edited(WANTED, NOT_WANTED)
    world.api.fail("delete", "configmaps", broken(), applied=True)

    assert await _step(world) is DONE
    assert world.api.find("configmaps", NAME) is None


async def test_failed_deletion_is_retried() -> None:
    world = await edited(WANTED, NOT_WANTED)
    world.api.fail("delete", "configmaps", broken())

    with pytest.raises(KubernetesError):
        await _step(world)
    await world.converge()

    assert world.api.find("configmaps", NAME) is None


async def test_client_config_that_changed_meanwhile_is_read_again() -> None:
    world = await edited(WANTED, NOT_WANTED)
    world.api.fail("delete", "configmaps", conflict())

    outcome = await _step(world)

    assert outcome.kind is Kind.WAIT
    assert world.api.find("configmaps", NAME) is not None


@pytest.mark.parametrize(("refusal", "reason"), REFUSALS)
async def test_a_refused_deletion_is_an_error(refusal: Failure, reason: str) -> None:
    world = await edited(WANTED, NOT_WANTED)
    world.api.fail("delete", "configmaps", refusal())

    with pytest.raises(RefusedError) as caught:
        await _step(world)

    assert caught.value.reason == reason
