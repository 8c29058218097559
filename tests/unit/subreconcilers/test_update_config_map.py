"""UpdateConfigMap."""

from typing import Any

import pytest
import yaml
from pytest_mock import MockerFixture

from flamectl_operator.runtime.outcome import DONE, Outcome
from flamectl_operator.subreconcilers.update_config_map import UpdateConfigMap
from tests.unit.subreconcilers.harness import CM_NAME, KEY, StepHarness, converged


async def _step(world: StepHarness) -> Outcome:
    return await UpdateConfigMap().run(await world.recorded())


def _config(world: StepHarness) -> dict[str, Any]:
    return world.api.present("configmaps", CM_NAME)


async def test_missing_config_map_is_created() -> None:
    world = StepHarness()

    assert await _step(world) is DONE
    assert yaml.safe_load(_config(world)["data"]["flame-cluster.yaml"])["cluster"]["name"] == "my-flame"
    assert _config(world)["metadata"]["annotations"]["flame.xflops.io/config-generation"] == "1"
    assert world.events.reasons == ["ConfigMapCreated"]


async def test_spec_change_is_written_and_increments_the_generation() -> None:
    world = await converged()
    world.edit({"objectCache": {"storage": "/data/x"}})

    assert await _step(world) is DONE
    assert yaml.safe_load(_config(world)["data"]["flame-cluster.yaml"])["cache"]["storage"] == "/data/x"
    assert _config(world)["metadata"]["annotations"]["flame.xflops.io/config-generation"] == "2"


@pytest.mark.parametrize("number", [2**63 - 1, -1])
async def test_generation_at_its_maximum_counts_as_lost(number: int) -> None:
    world = await converged()
    world.change("flameclusters", KEY[1], {"status": {"configGeneration": number}})
    world.edit({"objectCache": {"storage": "/data/x"}})

    await world.converge()

    assert world.status.config_generation == 2


@pytest.mark.parametrize(
    "number", ["", "x", "-1", "1.5", "٣", " 2", "9" * 5000], ids=lambda value: value[:5] or "empty"
)
async def test_invalid_generation_is_ignored(number: str) -> None:
    world = await converged()
    world.change("configmaps", CM_NAME, {"metadata": {"annotations": {"flame.xflops.io/config-generation": number}}})

    result = await world.run_pass()

    assert result.errors == ()
    assert world.status.config_generation == 1
    assert _config(world)["metadata"]["annotations"]["flame.xflops.io/config-generation"] == "1"


async def test_terminating_config_map_is_awaited() -> None:
    world = await converged()
    metadata = {"deletionTimestamp": "2025-06-01T12:00:00Z", "deletionGracePeriodSeconds": 0, "finalizers": ["a/b"]}
    world.change("configmaps", CM_NAME, {"metadata": metadata, "immutable": True, "data": {"x": "y"}})

    outcome = await _step(world)

    assert (outcome.reason, outcome.delay) == ("Terminating", 15)
    assert world.writes == []


async def test_immutable_config_map_is_recreated_when_its_content_must_change() -> None:
    world = await converged()
    world.change("configmaps", CM_NAME, {"immutable": True})
    world.edit({"objectCache": {"storage": "/data/x"}})

    outcome = await _step(world)
    assert (outcome.reason, outcome.delay) == ("Terminating", 0)
    assert world.api.find("configmaps", CM_NAME) is None

    await world.run_pass()
    assert yaml.safe_load(_config(world)["data"]["flame-cluster.yaml"])["cache"]["storage"] == "/data/x"
    assert "immutable" not in _config(world)


async def test_oversized_config_map_is_recreated() -> None:
    world = await converged()
    before = _config(world)
    world.change("configmaps", CM_NAME, {"data": {f"key-{number}": "x" * 1000 for number in range(200)}})

    await world.run_pass()
    world.clock.elapsed += 1
    await world.run_pass()

    assert _config(world)["data"] == before["data"]
    assert _config(world)["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert any("because its content is too large" in message for _, _, message in world.events.told)


async def test_replaced_immutable_config_map_is_not_deleted() -> None:
    world = await converged()
    world.change("configmaps", CM_NAME, {"immutable": True})
    world.edit({"objectCache": {"storage": "/data/x"}})
    world.sync()
    world.api.remove("configmaps", CM_NAME)
    world.squat("configmaps", CM_NAME)

    await world.run_pass(stale=True)

    assert "ownerReferences" not in _config(world)["metadata"]
    assert "ConfigMapDeleted" not in world.events.reasons


async def test_concurrent_edit_is_not_overwritten() -> None:
    world = await converged()
    world.edit({"objectCache": {"storage": "/data/x"}})
    note = {"metadata": {"annotations": {"note": "mine"}}}
    world.api.interference["patch", "configmaps"] = lambda: world.change("configmaps", CM_NAME, note)

    assert (await _step(world)).reason == "Changed"

    await world.run_pass()
    assert _config(world)["metadata"]["annotations"]["note"] == "mine"
    assert "/data/x" in _config(world)["data"]["flame-cluster.yaml"]


async def test_concurrent_edit_is_not_reported_as_a_webhook(mocker: MockerFixture) -> None:
    world = await converged()
    world.change("configmaps", CM_NAME, {"data": {"x": "y"}})
    patch = world.api.merge_patch

    async def edited_before_the_answer_is_read(*arguments: Any) -> Any:
        answer = await patch(*arguments)
        world.change("configmaps", CM_NAME, {"data": {"x": "z"}})
        world.sync()
        return answer

    mocker.patch.object(world.api, "merge_patch", edited_before_the_answer_is_read)
    await world.run_pass()

    assert "ConfigMapUpdated" in world.events.reasons
    assert "ChangesUndone" not in world.events.reasons
