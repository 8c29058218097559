"""Executors that end in any way, and their nodes in Flame's table."""

import asyncio
from typing import Any

import pytest
from pytest_mock import MockerFixture

from flamectl_operator.planning.planners.lost_nodes import NODE_REPORT_INTERVAL_SECONDS
from flamectl_operator.reconcile.session_manager_io import CALLS_LIMIT_SECONDS, POD_READS_AT_ONCE, POD_READS_PER_SECOND
from flamectl_operator.subreconcilers.release_lost_nodes import ReleaseLostNodes
from tests.unit.builders import replicas
from tests.unit.subreconcilers.flame_harness import FlameHarness, busy, converged
from tests.unit.subreconcilers.harness import executor_name


def _terminate(world: FlameHarness, executor_id: int) -> None:
    """Mark a Pod for deletion; it stays."""
    world.change("pods", executor_name(executor_id), {"metadata": {"deletionTimestamp": "2025-06-01T12:00:00Z"}})


async def test_lost_node_that_an_old_answer_shows_idle_is_reported_after_its_release() -> None:
    world = await converged(replicas(2))
    session, idle = world.model.open_session("s", tasks=6, seconds=20), world.asked.known
    await world.live(3)
    world.asked.known = idle

    world.set_executor(0, "failed")
    await world.run_pass()
    assert ("release", executor_name(0)) in world.asked.calls
    await world.live(300, until=lambda: session.done)

    assert session.done
    assert ("report", executor_name(0)) in world.asked.calls


@pytest.mark.parametrize("lost", ["label", "owner"])
async def test_executor_that_has_ended_and_lost_its_label_or_owner_leaves_the_table(lost: str) -> None:
    world = await converged(replicas(2))
    world.set_executor(0, "failed")
    if lost == "label":
        world.unlabel("pods", executor_name(0))
    else:
        world.change("pods", executor_name(0), {"metadata": {"ownerReferences": []}})
    await world.live(60)

    assert executor_name(0) not in world.model.nodes


async def test_node_whose_pod_has_failed_and_terminates_is_not_released_before_its_tasks_run_elsewhere() -> None:
    world, session = await busy(replicas(2), 6, 20)
    world.set_executor(0, "failed")
    await world.live(2)
    assert ("report", executor_name(0)) in world.asked.calls

    _terminate(world, 0)
    await world.run_pass()

    assert ("release", executor_name(0)) not in world.asked.calls
    await world.live(300, until=lambda: session.done)
    assert session.done


async def test_lost_node_on_which_executors_stay_listed_is_reported_again_without_an_event() -> None:
    world, _ = await busy(replicas(2), 2, 30)
    world.set_executor(0, "failed")
    await world.live(1)
    # Somebody releases the node again, so the session manager does not notice the loss.
    world.model.release_node(executor_name(0))
    world.asked.calls.clear()
    world.asked.poll()

    [delay] = [each.delay for each in (await world.run_pass()).outcomes if each.reason == "Changed"]
    assert delay is not None
    assert 0 < delay <= NODE_REPORT_INTERVAL_SECONDS
    world.clock.elapsed += delay
    world.asked.poll()
    await world.run_pass()

    assert ("report", executor_name(0)) in world.asked.calls


async def test_call_that_fails_is_repeated() -> None:
    world = await converged(replicas(1))
    world.api.remove("pods", executor_name(0))
    await world.tick()
    world.asked.calls.clear()
    world.model.register_node(executor_name(0), 1)
    world.asked.poll()

    world.asked.broken = "lost for a moment"
    result = await world.run_pass()
    assert result.errors == ()
    world.asked.broken = None
    await world.live(5)

    assert executor_name(0) not in world.model.nodes


def _with_lost_nodes(count: int) -> FlameHarness:
    """A FlameCluster whose session manager lists nodes of executors before its first one."""
    world = FlameHarness(replicas(1))
    for each in range(count):
        world.model.register_node(executor_name(each), 1)
    return world


async def test_session_manager_that_lists_lost_nodes_again_and_again_causes_few_reads(mocker: MockerFixture) -> None:
    world = _with_lost_nodes(3000)
    mocker.patch.object(world.model, "release_node")
    read = mocker.spy(world.api, "get")

    await world.live(60)

    assert POD_READS_AT_ONCE <= read.call_count <= POD_READS_AT_ONCE + 70 * POD_READS_PER_SECOND


async def test_pass_ends_soon_though_reads_are_slow_and_a_session_manager_lists_many_lost_nodes(
    mocker: MockerFixture,
) -> None:
    world = _with_lost_nodes(200)
    get, now, longest = world.api.get, asyncio.get_running_loop().time, 0.0

    async def slow(resource: Any, namespace: str, name: str) -> Any:
        await asyncio.sleep(0.5)
        return await get(resource, namespace, name)

    mocker.patch.object(world.api, "get", slow)
    for _ in range(300):
        begun = now()
        await world.tick()
        longest = max(longest, now() - begun)

    assert longest < 3 * CALLS_LIMIT_SECONDS
    assert set(world.model.nodes) == {*map(executor_name, world.executor_ids)}


async def test_nodes_with_ids_that_cannot_be_ours_are_left_alone_and_told_once() -> None:
    world = FlameHarness(replicas(1))
    name = executor_name(9_999_999_998)
    world.model.register_node(name, 0)

    await world.live(60)

    assert name in world.model.nodes
    assert world.status.executor_manager.next_id == 1
    assert world.events.reasons.count("ForeignNodes") == 1


async def test_node_whose_pod_lives_is_not_gone_though_a_plan_and_the_session_manager_say_so() -> None:
    world = await converged(replicas(1))
    run = await world.begin()
    node = executor_name(0)

    assert await ReleaseLostNodes()._gone(run, [node]) == []
    world.set_executor(0, "failed")
    world.sync()
    assert await ReleaseLostNodes()._gone(run, [node]) == [node]
