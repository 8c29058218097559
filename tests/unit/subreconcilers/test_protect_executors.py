"""Executors with work carry the annotations that keep autoscalers of nodes away."""

from typing import Any

from tests.unit.builders import merged, replicas
from tests.unit.subreconcilers.errors import lost
from tests.unit.subreconcilers.flame_harness import FlameHarness, converged
from tests.unit.subreconcilers.harness import executor_name

EVICT, DISRUPT = "cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt"
PROTECT: dict[str, Any] = {"executorManager": {"drain": {"protectBusy": True}}}


def _protected(world: FlameHarness, executor_id: int = 0) -> bool:
    pod = world.pod(executor_name(executor_id))
    annotations = pod["metadata"]["annotations"]
    found = (annotations.get(EVICT), annotations.get(DISRUPT))
    assert found in {("false", "true"), (None, None)}
    return found == ("false", "true")


def _patches(world: FlameHarness) -> int:
    return sum(verb == "patch" and plural == "pods" for verb, plural, _ in world.writes)


async def test_executor_is_protected_while_it_works() -> None:
    world = await converged(merged(replicas(1), PROTECT))
    world.model.open_session("s", tasks=1, seconds=100)

    await world.live(5)
    assert _protected(world)
    assert _patches(world) == 1

    await world.live(200)
    assert not _protected(world)
    assert _patches(world) == 2


async def test_patch_whose_answer_is_lost_is_not_repeated() -> None:
    world = await converged(merged(replicas(1), PROTECT))
    world.api.fail("patch", "pods", lost(), applied=True)
    world.model.open_session("s", tasks=1, seconds=100)

    await world.live(30)

    assert _protected(world)
    assert _patches(world) == 1
