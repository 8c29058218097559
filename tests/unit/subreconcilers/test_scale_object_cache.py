"""ScaleObjectCache, and the part of ReplaceStalePods that is about object caches."""

import pytest

from flamectl_operator.kube.errors import KubernetesError
from flamectl_operator.subreconcilers.scale_object_cache import ScaleObjectCache
from tests.unit.builders import cached, later, merged, replicas
from tests.unit.subreconcilers.errors import invalid, quota
from tests.unit.subreconcilers.harness import SM_NAME, StepHarness, cache_name, converged, edited

NEW_IMAGE = {"objectCache": {"image": "new"}}


async def test_unlabelled_object_cache_is_found_on_suspend() -> None:
    world = await converged(cached())
    world.unlabel("pods", cache_name(0))
    world.edit({"suspend": True})

    await world.converge()

    assert world.cache_ordinals == []


async def _replaced(world: StepHarness, ordinal: int = 0) -> str:
    """Let the failed Pod be replaced and return the uid of its successor."""
    await world.run_passes(2, ready=True)
    return world.uid(cache_name(ordinal))


async def test_backoff_of_object_caches_survives_a_restart_of_the_operator() -> None:
    world = await converged(cached())
    for _ in range(2):
        world.set_pod(cache_name(0), "failed", since=world.clock.now())
        await _replaced(world)
    before = world.uid(cache_name(0))

    world.restart()
    await world.run_pass()

    assert world.uid(cache_name(0)) == before
    assert (world.status.object_cache.failures, world.status.object_cache.next_attempt) == (2, later(10))


# --- Stale ones --------------------------------------------------------------------------------------------------------


async def test_the_session_manager_comes_before_and_executors_after_the_object_caches() -> None:
    world = await converged(merged(cached(), replicas(2)))
    world.edit(merged(NEW_IMAGE, {"sessionManager": {"image": "new"}, "configOverrides": {"a": 1}}))

    await world.run_passes(20, ready=True)

    assert world.deleted.index(SM_NAME) < world.deleted.index(cache_name(0))
    assert world.condition("Ready")[0] == "True"


async def test_stale_executors_wait_for_the_object_caches() -> None:
    world = await edited(merged(cached(), replicas(2)), merged(NEW_IMAGE, {"executorManager": {"image": "new"}}))

    await world.run_pass()
    assert world.deleted == [cache_name(0)]
    world.let_pods_become_ready()
    await world.run_pass()
    assert world.deleted == [cache_name(0)]
    world.set_pod(cache_name(0), "ready")
    await world.run_pass()
    assert len(world.deleted) == 2


async def test_object_cache_stays_when_its_replacement_would_be_refused() -> None:
    world = await edited(cached(), NEW_IMAGE)
    world.api.fail("dry run", "pods", invalid(), times=10)

    await world.run_pass()

    assert world.deleted == []
    assert world.condition("Degraded")[0] == "True"


# --- What goes wrong -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [quota(), invalid()])
async def test_the_first_refusal_ends_the_creation(error: KubernetesError) -> None:
    world = await converged(cached(5))
    for ordinal in range(5):
        world.api.remove("pods", cache_name(ordinal))
    world.api.fail("create", "pods", error, name=cache_name(0))
    run = await world.recorded()

    with pytest.raises(Exception, match=r"."):
        await ScaleObjectCache().run(run)

    assert [name for verb, _, name in world.writes if verb == "create"] == [cache_name(0)]


async def test_stale_object_cache_stays_when_another_fails_before_the_deletion() -> None:
    world = await edited(cached(2), NEW_IMAGE)

    def fail_the_other() -> None:
        world.set_pod(cache_name(0), "crashing")
        world.sync()

    world.api.interference["delete", "pods"] = fail_the_other
    await world.run_pass()

    assert world.deleted == []
