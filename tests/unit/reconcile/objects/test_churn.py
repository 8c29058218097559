"""Pods that something deletes as soon as they are created."""

from typing import Any

import pytest

from tests.unit.builders import cached, replicas
from tests.unit.subreconcilers.errors import lost
from tests.unit.subreconcilers.harness import SM_NAME, StepHarness, cache_name, converged


def _delete(world: StepHarness, prefix: str) -> int:
    found = [each["metadata"]["name"] for each in world.api.all("pods") if each["metadata"]["name"].startswith(prefix)]
    for name in found:
        world.api.remove("pods", name)
    return len(found)


@pytest.mark.parametrize(
    ("changes", "prefix", "what", "most"),
    [
        pytest.param(replicas(2), "my-flame-executor-manager-", "Executors", 10, id="executors"),
        pytest.param(replicas(20), "my-flame-executor-manager-", "Executors", 60, id="many executors"),
        pytest.param({}, SM_NAME, f'Pods "{SM_NAME}"', 10, id="session manager"),
        pytest.param(cached(), cache_name(0), f'Pods "{cache_name(0)}"', 10, id="object cache"),
    ],
)
async def test_pods_that_are_deleted_at_once_are_created_a_few_times_and_then_at_a_pace(
    changes: dict[str, Any], prefix: str, what: str, most: int
) -> None:
    world = await converged(changes)
    deleted = 0
    for _ in range(50):
        deleted += _delete(world, prefix)
        await world.run_pass()

    assert most <= deleted <= most + 2 * int(changes.get("executorManager", {}).get("replicas", 1))
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "Contention")
    assert message.startswith(f"{what} vanish again and again")

    world.clock.elapsed += 10
    await world.converge()
    assert world.condition("Ready")[0] == "False"
    world.clock.elapsed += 61
    await world.converge()
    assert world.status.reason == "Healthy"


async def test_deletions_now_and_then_hold_nothing_back() -> None:
    world = await converged(replicas(2))
    for _ in range(50):
        assert _delete(world, "my-flame-executor-manager-") == 2
        await world.run_pass()
        world.clock.elapsed += 3

    assert world.condition("Degraded")[0] == "False"


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "answers lost"])
async def test_replacements_after_changes_of_the_spec_hold_nothing_back(*, answered: bool) -> None:
    world = await converged(replicas(3, type="Recreate"))
    if not answered:
        world.api.fail("delete", "pods", lost(), applied=True, times=1000)
    for number in range(10):
        world.edit({"executorManager": {"env": [{"name": "A", "value": str(number)}]}})
        await world.converge()

    assert max(world.executor_ids) >= 30
    assert world.condition("Degraded")[0] == "False"
