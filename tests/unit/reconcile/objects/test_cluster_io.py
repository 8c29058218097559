"""Lost and misleading answers of the API server."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from pytest_mock import MockerFixture

from flamectl_operator.kube.errors import NotFoundError, UndecodableError
from flamectl_operator.kube.resources import PODS, Resource
from tests.unit.builders import OWNER, replicas
from tests.unit.subreconcilers.errors import forbidden, lost, quota
from tests.unit.subreconcilers.harness import SM_NAME, StepHarness, converged, edited, executor_name


async def test_404_for_the_resource_does_not_count_as_deleted() -> None:
    """The version of the CRD is not served for a moment, or a proxy answers."""
    world = await converged(replicas(2))
    world.set_executor(0, "starting")
    unserved = NotFoundError(404, message="404 page not found")
    world.api.fail("status", "flameclusters", unserved)
    world.api.fail("get", "flameclusters", unserved)
    assert len((await world.run_pass()).errors) == 1
    world.set_executor(0, "ready")
    world.edit(replicas(1))
    world.api.fail("delete", "pods", unserved, name=executor_name(1))
    assert len((await world.run_pass()).errors) == 1

    known = world.stores.pods.get(OWNER.namespace, executor_name(1))
    assert known is not None
    await world.run_pass(stale=True)
    assert world.leaving_ids == [1]


async def test_unknown_create_is_read_again_after_a_forbidden_read() -> None:
    """An API server that has just started refuses everything for a moment."""
    world = StepHarness(replicas(1))
    world.api.fail("create", "pods", lost(), name=executor_name(0), applied=True)
    world.api.fail("get", "pods", forbidden(), name=executor_name(0))
    await world.run_pass()

    await world.run_pass(stale=True)
    await world.run_pass(stale=True)

    assert world.executor_ids == [0]


async def test_spec_read_during_a_pass_triggers_a_pass_though_a_step_fails(mocker: MockerFixture) -> None:
    world = await edited(replicas(2), replicas(1))
    world.sync()
    world.api.fail("create", "pods", quota(), times=100)
    get = world.api.get

    async def edited_after_the_first(*arguments: Any) -> Any:
        mocker.patch.object(world.api, "get", edited_before)
        return await get(*arguments)

    async def edited_before(*arguments: Any) -> Any:
        mocker.patch.object(world.api, "get", get)
        world.edit(replicas(3))
        return await get(*arguments)

    mocker.patch.object(world.api, "get", edited_after_the_first)

    first = await world.run_pass(stale=True)
    await world.run_pass(stale=True)

    assert first.delay == 0
    assert world.deleted == []
    assert world.status.observed_generation == 3


async def test_watch_event_during_a_read_is_kept_when_the_read_finds_nothing(mocker: MockerFixture) -> None:
    world = await converged(replicas(1))
    run, get, before = await world.begin(), world.api.get, world.session_manager
    assert before is not None

    async def answered_late(*arguments: Any) -> Any:
        world.api.remove("pods", SM_NAME)
        try:
            return await get(*arguments)
        finally:
            world.api.put("pods", before | {"metadata": before["metadata"] | {"uid": "uid-of-the-next"}})
            world.sync(PODS)

    mocker.patch.object(world.api, "get", answered_late)

    assert await run.io.reads.refresh(PODS, SM_NAME) is None
    known = world.stores.pods.get(OWNER.namespace, SM_NAME)
    assert known is not None
    assert known.uid == "uid-of-the-next"


async def test_unknown_writes_are_read_in_parallel(mocker: MockerFixture) -> None:
    world = await converged(replicas(3))
    run = await world.begin()
    run.io.reads.unknown_writes |= {executor_name(number) for number in range(3)}
    get, together = world.api.get, asyncio.Barrier(3)

    async def waiting_for_the_others(*arguments: Any) -> Any:
        await together.wait()
        return await get(*arguments)

    mocker.patch.object(world.api, "get", waiting_for_the_others)

    async with asyncio.timeout(10):
        await run.io.reads.resolve_unknown_writes()

    assert run.io.reads.unknown_writes == set()


async def test_patch_that_is_answered_with_another_object_has_an_unknown_outcome(mocker: MockerFixture) -> None:
    world = await edited(replicas(1), {"commonLabels": {"team": "a"}})
    patch = world.api.merge_patch

    async def of_another(resource: Resource[Any], namespace: str, name: str, body: Mapping[str, Any]) -> Any:
        found = await patch(resource, namespace, name, body)
        if name != executor_name(0):
            return found
        return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, uid="another"))

    mocker.patch.object(world.api, "merge_patch", of_another)

    result = await world.run_pass()

    assert [type(error) for error in result.errors] == [UndecodableError]
    known = world.stores.pods.get(OWNER.namespace, executor_name(0))
    assert known is not None
    assert known.uid != "another"
