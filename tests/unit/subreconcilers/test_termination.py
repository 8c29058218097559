"""Executors with a hook for their end: somebody else deletes them amid their work, or the operator does for its own reasons."""

from typing import Any

import pytest

from flamectl_operator.kube.resources import PODS
from tests.unit.builders import OWNER, merged, replicas
from tests.unit.subreconcilers.flame_harness import FlameHarness, busy, converged
from tests.unit.subreconcilers.harness import StepHarness, executor_name
from tests.unit.subreconcilers.harness import converged as converged_without_flame

HOOK: dict[str, Any] = {"executorManager": {"drain": {"onTermination": {"enabled": True, "maxSeconds": 300}}}}


def _with_hook(count: int, **changes: Any) -> dict[str, Any]:
    return merged(merged(replicas(count), HOOK), {"executorManager": changes})


async def _evict(world: FlameHarness, name: str) -> None:
    """Delete a Pod as the eviction API does: it stays for its own grace period."""
    pod = world.pod(name)
    await world.api.delete(PODS, OWNER.namespace, name, uid=pod["metadata"]["uid"])


@pytest.fixture
def graces() -> dict[str, int | None]:
    """The grace period that each deletion of a Pod by the operator names, by the name of the Pod."""
    return {}


def _note(world: StepHarness, graces: dict[str, int | None], monkeypatch: pytest.MonkeyPatch) -> None:
    delete = world.api.delete

    async def noted(resource: Any, namespace: str, name: str, **options: Any) -> Any:
        graces[name] = options.get("grace_period_seconds")
        return await delete(resource, namespace, name, **options)

    monkeypatch.setattr(world.api, "delete", noted)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"suspend": True}, id="suspension"),
        pytest.param(replicas(0, type="RollingUpdate"), id="scale-down without a drain"),
        pytest.param({"executorManager": {"image": "executor:2"}}, id="rollout without a drain"),
        pytest.param({"executorManager": {"image": "executor:2", "updateStrategy": {"type": "Recreate"}}}, id="Recreate"),
        pytest.param({"sessionManager": {"image": "manager:2"}}, id="another session manager"),
        pytest.param({"suspend": True, "executorManager": {"drain": {"onTermination": {"enabled": False}}}},
            id="suspension after the hook was turned off"),
    ],
)  # fmt: skip
async def test_deletion_by_the_operator_names_the_grace_period_without_the_hook(
    change: dict[str, Any], graces: dict[str, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await converged_without_flame(_with_hook(1))
    _note(world, graces, monkeypatch)

    world.edit(change)
    await world.converge()

    assert graces[executor_name(0)] == 10


async def test_executor_with_the_hook_is_deleted_with_one_second_after_its_drain(
    graces: dict[str, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await converged(_with_hook(1))
    _note(world, graces, monkeypatch)

    world.edit(_with_hook(0))
    await world.live(20)

    assert graces == {executor_name(0): 1}


async def test_operator_does_not_delete_an_executor_that_somebody_else_has_deleted(
    graces: dict[str, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, _ = await busy(_with_hook(2), 10, 20)
    await _evict(world, executor_name(0))
    _note(world, graces, monkeypatch)

    await world.live(100)

    assert graces == {}
