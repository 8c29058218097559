from typing import Any

import pytest

from flamectl_operator.kube.errors import ServerError
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS
from tests.unit.builders import raw_spec
from tests.unit.subreconcilers.harness import KEY, StepHarness, converged


def fail_after_one_read(world: StepHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer the next read of the FlameCluster, and fail all further ones."""
    get = world.api.get

    async def answer_once(*request: Any) -> Any:
        try:
            return await get(*request)
        finally:
            world.api.fail("get", "flameclusters", ServerError(503, "ServiceUnavailable", "no leader"), times=9)

    monkeypatch.setattr(world.api, "get", answer_once)


@pytest.mark.parametrize("recreated", [False, True], ids=["deleted", "recreated"])
async def test_flame_cluster_that_one_read_calls_gone_is_gone_although_the_next_read_fails(
    monkeypatch: pytest.MonkeyPatch, *, recreated: bool
) -> None:
    world = await converged()
    world.edit({"executorManager": {"replicas": 4}})
    world.sync(FLAME_CLUSTERS)
    world.api.remove("flameclusters", KEY[1])
    if recreated:
        world.apply(raw_spec(), uid="uid-of-another")
    fail_after_one_read(world, monkeypatch)
    await world.run_pass(stale=True)
    assert world.stores.flame_clusters.get(*KEY) is None
