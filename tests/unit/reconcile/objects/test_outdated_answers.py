"""Answers that are older than the cache: etcd was set back to a copy, and its resourceVersions may have been passed since."""

from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from flamectl_operator.api.constants import PLURAL
from flamectl_operator.kube.cache.contradictions import OutdatedAnswerError
from flamectl_operator.kube.client import EventType, WatchEvent
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import PODS
from flamectl_operator.reconcile.objects.cluster_reads import ClusterReads
from tests.unit.builders import OWNER
from tests.unit.subreconcilers.errors import conflict
from tests.unit.subreconcilers.harness import CM_NAME, StepHarness, converged, executor_name


async def doubting() -> tuple[StepHarness, list[str]]:
    """Return a converged cluster, and what will be reported to contradict the cache."""
    world, doubts = await converged(), list[str]()
    world.stores.doubts.subscribe(doubts.append)
    return world, doubts


def set_back(world: StepHarness, plural: str, name: str, by: int, **changes: Any) -> None:
    """Give an object an earlier resourceVersion, and no watch reports it."""
    found = world.api.present(plural, name)
    version = int(found["metadata"]["resourceVersion"]) - by
    found["metadata"]["resourceVersion"] = str(version)
    found.update(changes)


async def errors_of_a_status_write(world: StepHarness) -> list[type[Exception]]:
    """Make a pass with an old view of the FlameCluster write the status, and return the types of its errors."""
    world.set_executor(0, "failed")
    world.sync(PODS)
    return [type(error) for error in (await world.run_pass(stale=True)).errors]


async def test_status_conflict_with_an_older_object_raises_doubts_and_ends_the_pass() -> None:
    world, doubts = await doubting()
    set_back(world, PLURAL, OWNER.name, 1)
    assert OutdatedAnswerError in await errors_of_a_status_write(world)
    assert f'FlameCluster "{OWNER.name}" has resourceVersion' in doubts[0]


async def test_status_conflict_with_an_earlier_generation_raises_doubts_although_somebody_wrote_it_since() -> None:
    world, doubts = await doubting()
    world.edit({"executorManager": {"replicas": 4}})
    await world.converge()
    set_back(world, PLURAL, OWNER.name, -1)
    world.api.present(PLURAL, OWNER.name)["metadata"]["generation"] -= 1
    assert OutdatedAnswerError in await errors_of_a_status_write(world)
    assert f'FlameCluster "{OWNER.name}" has generation 1, but generation 2 was seen before' in doubts[0]


async def test_status_conflict_with_a_newer_object_raises_no_doubts() -> None:
    world, doubts = await doubting()
    world.edit({"executorManager": {"replicas": 4}})
    assert await errors_of_a_status_write(world) == []
    assert doubts == []


async def test_conflict_without_a_change_raises_no_doubts() -> None:
    world, doubts = await doubting()
    world.api.fail("status", PLURAL, conflict())
    assert await errors_of_a_status_write(world) == []
    assert doubts == []


async def test_object_that_changed_without_a_new_version_raises_doubts_and_is_taken() -> None:
    world, doubts = await doubting()
    found = world.api.present(PLURAL, OWNER.name)
    set_back(world, PLURAL, OWNER.name, 0, spec={**found["spec"], "paused": True})
    world.api.fail("status", PLURAL, conflict())
    await errors_of_a_status_write(world)
    assert doubts == [f'FlameCluster "{OWNER.name}" changed without a new resourceVersion']
    cluster = world.stores.flame_clusters.get(OWNER.namespace, OWNER.name)
    assert cluster is not None
    assert cluster.spec["paused"]


async def test_object_that_two_answers_show_in_two_ways_raises_doubts_once_for_each_version() -> None:
    world, doubts = await doubting()
    name = executor_name(0)

    async def read_differently() -> None:
        world.sync()
        status = world.pod(name)["status"]
        set_back(world, "pods", name, 0, status={**status, "message": "in another way"})
        await ClusterReads(OWNER, world.context).refresh(PODS, name)
        set_back(world, "pods", name, 0, status=status)

    await read_differently()
    await read_differently()
    assert len(doubts) == 1

    world.change("pods", name, {"metadata": {"annotations": {"a": "b"}}})
    await read_differently()
    assert len(doubts) == 2


async def test_created_object_with_a_used_version_raises_doubts() -> None:
    world, doubts = await doubting()
    world.api.remove("configmaps", CM_NAME)
    world.sync()
    world.api.version = 5
    result = await world.run_pass(stale=True)
    assert [type(error) for error in result.errors] == [OutdatedAnswerError]
    assert f'ConfigMap "{CM_NAME}" has resourceVersion 6' in doubts[0]


def see_deletion(world: StepHarness, name: str) -> None:
    """The watch brings the deletion of a Pod, and etcd loses it."""
    pod = world.stores.pods.get(OWNER.namespace, name)
    assert pod is not None
    world.stores.pods.apply(WatchEvent(EventType.DELETED, at_version(pod, world.api.version + 1)))
    world.api.version += 1


def at_version(pod: PodView, version: int) -> PodView:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, resource_version=str(version)))


async def test_new_holder_of_the_lock_that_lists_a_pod_which_the_watch_had_deleted_raises_doubts() -> None:
    world, doubts = await doubting()
    world.edit({"executorManager": {"replicas": 4}})
    await world.converge()
    world.edit({"executorManager": {"replicas": 1}})
    world.sync()
    see_deletion(world, executor_name(0))
    result = await world.run_pass(stale=True)
    assert OutdatedAnswerError in map(type, result.errors)
    assert f'Pod "{executor_name(0)}" has resourceVersion' in doubts[0]
    assert world.leaving_ids == []


async def test_pod_that_is_read_though_the_watch_had_deleted_it_raises_doubts() -> None:
    world, doubts = await doubting()
    see_deletion(world, executor_name(0))
    reads = ClusterReads(OWNER, world.context)
    with pytest.raises(OutdatedAnswerError):
        await reads.refresh(PODS, executor_name(0))
    assert f'Pod "{executor_name(0)}" has resourceVersion' in doubts[0]


async def test_pod_that_the_watch_has_not_brought_yet_raises_no_doubts() -> None:
    world, doubts = await doubting()
    see_deletion(world, executor_name(0))
    world.change("pods", executor_name(0), {"metadata": {"labels": {"other": "1"}}})
    reads = ClusterReads(OWNER, world.context)
    assert await reads.refresh(PODS, executor_name(0)) is not None
    await reads.refresh_pods()
    assert doubts == []


async def test_pod_without_its_label_that_was_not_watched_raises_no_doubts() -> None:
    world, doubts = await doubting()
    world.unlabel("pods", executor_name(0))
    world.sync()
    reads = ClusterReads(OWNER, world.context)
    assert await reads.refresh(PODS, executor_name(0)) is not None
    assert doubts == []


async def test_large_pod_that_is_read_again_stays_as_it_was_and_raises_no_doubts() -> None:
    world, doubts = await doubting()
    resources = {kind: {f"example.com/{number}": "1" for number in range(4)} for kind in ("limits", "requests")}
    sidecars = [{"name": f"sidecar-{number}", "image": "x" * 50, "resources": resources} for number in range(16)]
    world.change("pods", executor_name(0), {"status": {"containerStatuses": sidecars}})
    world.sync()
    before = world.stores.pods.get(OWNER.namespace, executor_name(0))
    assert await ClusterReads(OWNER, world.context).refresh(PODS, executor_name(0)) == before
    assert world.stores.pods.get(OWNER.namespace, executor_name(0)) == before
    assert doubts == []


async def test_pod_that_goes_while_it_is_listed_raises_no_doubts() -> None:
    world, doubts = await doubting()

    world.api.interference["list", PODS.plural] = lambda: see_deletion(world, executor_name(0))
    await ClusterReads(OWNER, world.context).refresh_pods()
    assert doubts == []


async def test_status_that_is_refused_again_and_again_is_logged_once_and_repeated_ever_more_slowly() -> None:
    world, _ = await doubting()
    world.api.fail("status", PLURAL, conflict(), times=7)
    world.set_executor(0, "failed")
    world.sync()
    with capture_logs() as log:
        delays = [(await world.run_pass(stale=True)).delay for _ in range(7)]
    assert delays == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    refused = "the API server refuses each status, because the FlameCluster is not as the cache has it"
    assert [line["event"] for line in log].count(refused) == 1

    await world.run_pass()
    assert world.status.unhealthy_pods
