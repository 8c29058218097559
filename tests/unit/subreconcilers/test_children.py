"""Views that an answer brings up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flamectl_operator.kube.resources import PODS
from flamectl_operator.subreconcilers.children import refresh
from tests.unit.builders import OWNER, replicas
from tests.unit.subreconcilers.world import SM_NAME, converged

if TYPE_CHECKING:
    from pytest_mock import MockerFixture


async def test_what_a_watch_brings_during_a_read_is_not_taken_for_what_the_read_finds_gone(
    mocker: MockerFixture,
) -> None:
    world = await converged(replicas(1))
    context, get, before = world.context(), world.api.get, world.session_manager
    assert before is not None

    async def answered_late(*arguments: Any) -> Any:
        world.api.remove("pods", SM_NAME)
        try:
            return await get(*arguments)
        finally:
            world.api.put("pods", before | {"metadata": before["metadata"] | {"uid": "uid-of-the-next"}})
            world.sync(PODS)

    mocker.patch.object(world.api, "get", answered_late)

    assert await refresh(context, PODS, world.stores.pods, SM_NAME) is None
    known = world.stores.pods.get(OWNER.namespace, SM_NAME)
    assert known is not None
    assert known.uid == "uid-of-the-next"
