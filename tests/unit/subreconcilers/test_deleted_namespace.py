"""A namespace or a FlameCluster that is being deleted: permissions and Pods may go before the watch shows it."""

import pytest
from structlog.testing import capture_logs

from flamectl_operator.kube.errors import ForbiddenError, NamespaceTerminatingError
from flamectl_operator.kube.resources import PODS
from tests.unit.builders import OWNER, cached, merged, replicas
from tests.unit.subreconcilers.harness import CM_NAME, StepHarness, converged, executor_name

GOING = NamespaceTerminatingError(403, "Forbidden", "unable to create: namespace default is being terminated")


def _refused(what: str) -> ForbiddenError:
    return ForbiddenError(403, "Forbidden", f'{what} is forbidden: User "operator" cannot create resource "{what}"')


async def _warnings(world: StepHarness) -> list[str]:
    with capture_logs() as lines:
        await world.run_passes(4, seconds=1)
    return [str(line) for line in lines if line["log_level"] in {"warning", "error"}]


def _take_permissions(world: StepHarness) -> None:
    for plural in ("configmaps", "pods"):
        world.api.fail("create", plural, _refused(plural), times=100)
    world.api.fail("status", "flameclusters", _refused("flameclusters/status"), times=100)


@pytest.mark.parametrize("first", ["pods", "configmaps"])
async def test_permissions_that_go_with_the_namespace_cause_no_warning(first: str) -> None:
    world = await converged(replicas(2))
    world.api.fail("create", "configmaps", GOING, times=2)
    world.api.fail("create", "pods", GOING, times=2)
    world.api.fail("dry run", "configmaps", GOING)
    world.api.remove(first, executor_name(1) if first == "pods" else CM_NAME)
    assert await _warnings(world) == []

    world.api.remove("configmaps", CM_NAME)
    _take_permissions(world)
    world.edit(replicas(3))

    assert await _warnings(world) == []


@pytest.mark.parametrize("gone", [True, False], ids=["background", "foreground"])
async def test_pods_that_go_with_a_flame_cluster_whose_watch_is_late_cause_no_warning_and_no_write(
    *, gone: bool
) -> None:
    world = await converged(merged(cached(1), replicas(2)))
    if gone:
        world.api.remove("flameclusters", OWNER.name)
    else:
        going = {"deletionTimestamp": "2030-01-01T00:00:00Z", "generation": 2}
        world.change("flameclusters", OWNER.name, {"metadata": going})
    for pod in world.api.all("pods"):
        world.api.remove("pods", pod["metadata"]["name"])
    world.sync(PODS)

    with capture_logs() as lines:
        await world.run_passes(2, stale=True)

    assert [line for line in lines if line["log_level"] in {"warning", "error"}] == []
    assert world.events.reasons == []
    assert world.writes == []


async def test_lost_pods_are_told_while_the_flame_cluster_may_not_be_read() -> None:
    world = await converged(replicas(2))
    world.api.remove("pods", executor_name(1))
    world.api.fail("get", "flameclusters", _refused("flameclusters"), times=9)

    await world.run_pass()

    assert "ExecutorsLost" in world.events.reasons


async def test_permissions_that_go_without_the_namespace_cause_warnings() -> None:
    world = await converged(replicas(2))
    _take_permissions(world)
    world.edit(replicas(3))

    assert await _warnings(world)
