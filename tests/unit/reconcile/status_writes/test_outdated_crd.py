"""An installed CRD that is older or newer than the operator."""

from typing import Any

import pytest
from pytest_mock import MockerFixture

from flamectl_operator.reconcile.status_writes.status_recorder import CRD_RECHECK_SECONDS
from tests.unit.builders import replicas
from tests.unit.subreconcilers.errors import Failure, broken, conflict
from tests.unit.subreconcilers.harness import KEY, StepHarness
from tests.unit.support import Log

#: The durable fields: nothing may be done unless all of these are stored.
PROMISES = ["executorManager.nextId", "executorManager.attemptId", "observedGeneration", "sessionManager.revision"]
#: The fields of the HLD's status; all others came later.
HLD = ("state", "message", "configGeneration", "sessionManager", "executorManager")


def told(log: Log) -> list[list[str]]:
    return [line["fields_not_stored"] for line in log if "fields_not_stored" in line]


def stored(world: StepHarness) -> Any:
    return world.api.objects["flameclusters", *KEY]["status"]


def of_the_hld(world: StepHarness) -> None:
    """The CRD of the HLD, which knows little more than state and message."""
    later = ("nextId", "current", "updated", "outdated", "selector", "revision", "failures", "attemptId")
    world.api.unknown = (
        *("observedGeneration", "configHash", "conditions", "generations", "unhealthyPods"),
        *("sessionManager.revision", "sessionManager.failures"),
        *(f"executorManager.{field}" for field in later),
    )


@pytest.mark.parametrize("field", PROMISES)
async def test_crd_without_durable_fields_stops_the_operator_with_a_reason(field: str) -> None:
    world = StepHarness(replicas(2))
    world.api.unknown = (field,)

    result = await world.run_pass()

    assert {verb for verb, *_ in world.writes} == {"status"}
    assert result.delay == CRD_RECHECK_SECONDS
    assert f"The installed CRD is older than the operator and does not store status.{field}" in stored(world)["message"]
    assert "flamectl-operator crd | kubectl apply --server-side --force-conflicts -f -" in stored(world)["message"]
    assert ("Warning", "OutdatedCRD") in {(kind, reason) for kind, reason, _ in world.events.told}


@pytest.mark.parametrize("hld", [True, False], ids=["the HLD's", "a little older"])
async def test_outdated_crd_prevents_all_changes(log: Log, *, hld: bool) -> None:
    world = StepHarness(replicas(2))
    of_the_hld(world)
    world.api.unknown = world.api.unknown if hld else ("executorManager.nextId",)
    await world.run_passes(3)
    version, events = world.api.version, len(world.events.told)
    await world.run_passes(5)

    assert world.api.version == version
    assert len(world.events.told) == events
    assert len(told(log)) == 1


def _use_up_no_ids(status: dict[str, Any]) -> None:
    status["executorManager"]["nextId"] = 0


async def test_durable_field_that_a_webhook_changes_is_named_and_prevents_all_changes(
    log: Log,
) -> None:
    world = StepHarness(replicas(2))
    world.api.status_webhook = _use_up_no_ids
    for _ in range(3):
        result = await world.run_pass()

    assert {verb for verb, *_ in world.writes} == {"status"}
    assert result.delay == CRD_RECHECK_SECONDS
    assert world.condition("Degraded")[:2] == ("True", "ChangesUndone")
    assert "A webhook changes status.executorManager.nextId" in world.condition("Degraded")[2]
    assert "CRD" not in stored(world)["message"]
    assert told(log) == []

    world.api.status_webhook = lambda _status: None
    await world.converge()
    assert world.executor_ids == [0, 1]


@pytest.mark.parametrize("hld", [True, False], ids=["the HLD's", "a little older"])
async def test_updated_crd_starts_the_work(*, hld: bool) -> None:
    world = StepHarness(replicas(2))
    of_the_hld(world)
    world.api.unknown = world.api.unknown if hld else ("executorManager.nextId",)
    await world.run_passes(3)
    assert world.executor_ids == []

    world.api.unknown = ()
    await world.converge()

    assert world.executor_ids == [0, 1]
    assert stored(world)["message"] == "All components healthy"


async def test_missing_non_durable_field_is_logged_once(log: Log) -> None:
    world = StepHarness(replicas(2))
    world.api.unknown = ("generations", "executorManager.selector")
    await world.converge()
    writes = len(world.writes)
    await world.run_passes(3)

    assert world.executor_ids == [0, 1]
    assert len(world.writes) == writes
    assert told(log)[0] == ["status.executorManager.selector", "status.generations"]
    assert len(told(log)) == 1


@pytest.mark.parametrize("error", [broken, conflict])
async def test_outdated_crd_is_reported_after_a_failed_status_write(error: Failure, mocker: MockerFixture) -> None:
    world = StepHarness(replicas(2))
    world.api.unknown = ("executorManager.nextId",)
    write, writes = world.api.replace_status, list[int]()

    async def the_second_one_fails(*arguments: Any) -> Any:
        writes.append(1)
        if len(writes) == 2:
            raise error()
        return await write(*arguments)

    mocker.patch.object(world.api, "replace_status", the_second_one_fails)
    await world.run_passes(3)

    assert "The installed CRD is older than the operator" in stored(world)["message"]
