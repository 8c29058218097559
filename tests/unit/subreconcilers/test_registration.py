"""Executors that run without being registered with their session manager."""

from pytest_mock import MockerFixture

from flamectl_operator.flame.answer_memory import Key
from flamectl_operator.flame.knowledge import OFF
from flamectl_operator.flame.watcher import Target
from flamectl_operator.reconcile.executor_ids import FIRST_ANSWER_SECONDS
from flamectl_operator.subreconcilers.scale_executors import ScaleExecutors
from tests.unit.builders import OWNER, replicas, rolling, stored
from tests.unit.subreconcilers.flame_harness import FlameHarness, converged
from tests.unit.subreconcilers.harness import SM_NAME, executor_name

_QUICK = {"flame": {"registrationDeadlineSeconds": 30}}


async def test_status_says_that_all_executors_are_registered() -> None:
    world = await converged(replicas(2))
    assert world.status.executor_manager.registered == 2
    assert world.condition("ExecutorsRegistered")[:2] == ("True", "AllRegistered")
    assert world.condition("SessionManagerReachable")[:2] == ("True", "Answers")
    assert world.status.message == "All components healthy"


async def test_executor_that_never_registers_is_named_and_then_replaced() -> None:
    world = FlameHarness(replicas(2), _QUICK)
    world.cut_off = {executor_name(0)}
    await world.live(25)
    assert world.status.executor_manager.registered == 1
    assert world.condition("ExecutorsRegistered")[:2] == ("False", "ExecutorNotRegistered")
    assert executor_name(0) in (world.status.message or "")
    assert "is not registered with Flame" in (world.status.message or "")
    assert world.condition("Ready")[0] == "False"

    await world.live(20)

    assert world.executor_ids == [1, 2]
    await world.live(5)
    assert world.status.message == "All components healthy"


async def test_status_names_the_executor_while_its_failure_is_recorded_before_the_replacement() -> None:
    world = FlameHarness(replicas(2), _QUICK)
    world.cut_off = {executor_name(0)}
    await world.live(25)
    world.clock.elapsed += 20
    world.asked.poll()

    await world.recorded()

    assert world.executor_ids == [0, 1]
    assert world.status.executor_manager.failures == 1
    assert executor_name(0) in (world.status.message or "")
    assert world.condition("Ready")[0] == "False"


async def test_session_manager_that_does_not_answer_costs_no_executor() -> None:
    world = await converged(replicas(3), _QUICK)
    world.asked.broken = "Network is unreachable"
    await world.live(120)

    assert world.executor_ids == [0, 1, 2]
    assert world.condition("SessionManagerReachable")[:2] == ("False", "Unreachable")
    assert world.condition("ExecutorsRegistered")[0] == "Unknown"
    assert world.status.executor_manager.registered is None


async def test_executor_with_a_released_node_keeps_its_work() -> None:
    world = await converged(replicas(1), _QUICK)
    world.model.open_session("s", tasks=1, seconds=300)
    await world.live(3)
    world.model.release_node(executor_name(0))
    await world.live(200)

    assert world.executor_ids == [0]


async def test_session_manager_that_is_not_ready_makes_the_conditions_unknown() -> None:
    world = await converged(replicas(1))
    world.set_pod(SM_NAME, "starting")
    await world.run_pass()
    assert world.condition("SessionManagerReachable")[:2] == ("Unknown", "SessionManagerNotReady")
    assert world.condition("ExecutorsRegistered")[0] == "Unknown"


async def test_executors_lost_to_a_restarted_session_manager_are_replaced_one_by_one() -> None:
    world = await converged(rolling(6, 3, 0) | stored(size="1Gi"), storage="fs:///var/lib/flame/session")
    world.model.stop()
    world.set_pod(SM_NAME, "starting", restarts=1)
    await world.run_pass()
    for lost in (0, 1):
        world.model.managers[executor_name(lost)].reachable = False
        del world.model.nodes[executor_name(lost)]
    world.model.start()
    world.set_pod(SM_NAME, "ready", restarts=1)
    await world.live(55)
    assert world.executor_ids == [0, 1, 2, 3, 4, 5]

    fewest = 6
    for _ in range(60):
        await world.tick()
        fewest = min(fewest, len(world.executor_ids))

    assert fewest == 5
    assert world.executor_ids == [2, 3, 4, 5, 6, 7]


async def test_session_manager_that_does_not_answer_for_two_minutes_is_told_once_and_forgotten_with_the_next_answer() -> (
    None
):
    world = await converged(replicas(2))
    world.events.told.clear()
    world.asked.broken = "Network is unreachable"
    await world.live(75 + 50)
    assert world.condition("SessionManagerReachable")[:2] == ("False", "Unreachable")
    assert world.status.reason == "Healthy"
    assert world.condition("Degraded")[0] == "False"

    await world.live(60)

    assert world.status.reason == "SessionManagerNotReachable"
    assert world.condition("Degraded")[:2] == ("True", "SessionManagerNotReachable")
    assert world.condition("Ready")[0] == "True"
    assert "Network is unreachable" in (world.status.message or "")
    assert "executors are deleted without a drain" in (world.status.message or "")
    await world.live(600)
    assert [each for each in world.events.told if each[0] == "Warning"] == [
        ("Warning", "SessionManagerNotReachable", world.condition("Degraded")[2])
    ]

    world.asked.broken = None
    await world.live(5)

    assert world.condition("Degraded")[0] == "False"
    assert world.status.reason == "Healthy"


async def test_pass_follows_when_the_session_manager_has_not_answered_for_two_minutes() -> None:
    world = await converged(replicas(2))
    world.asked.broken = "Network is unreachable"
    await world.live(80)
    since = next(each for each in world.status.conditions if each.type == "SessionManagerReachable")
    left = (since.last_transition_time - world.clock.now()).total_seconds() + 60

    result = await world.run_pass()

    assert result.delay is not None
    assert result.delay <= left


async def test_silence_is_still_told_after_a_restart_of_the_operator() -> None:
    world = await converged(replicas(2))
    world.asked.broken = "Network is unreachable"
    await world.live(75 + 80)
    said = world.condition("Degraded")
    assert said[:2] == ("True", "SessionManagerNotReachable")

    world.restart()
    world.asked.target, world.asked.known = None, OFF
    for _ in range(5):
        await world.run_pass()
        assert world.condition("Degraded") == said
        await world.live(10)


async def lose_newest_and_status(world: FlameHarness) -> None:
    """While no operator runs, the two newest executors and the status are lost. Flame still lists their nodes."""
    for executor_id in (1, 2):
        world.api.remove("pods", executor_name(executor_id))
    world.model.kill_executor_manager(executor_name(1))
    world.model.kill_executor_manager(executor_name(2))
    world.change("flameclusters", OWNER.name, {"status": None})
    world.restart()
    world.asked.target, world.asked.known = None, OFF


async def test_ids_that_the_status_has_lost_are_not_used_when_the_first_answer_comes_in_the_midst_of_a_pass(
    mocker: MockerFixture,
) -> None:
    world = await converged(replicas(3))
    await lose_newest_and_status(world)
    follow = world.asked.follow

    def answered_at_once(key: Key, target: Target | None, *, busy: bool) -> None:
        follow(key, target, busy=busy)
        world.asked.poll()

    mocker.patch.object(world.asked, "follow", answered_at_once)
    await world.run_pass()
    await world.live(10)

    assert len(world.executor_ids) == 3
    assert min(world.executor_ids[1:]) > 2


async def test_operator_that_has_just_started_does_not_wait_long_for_an_answer() -> None:
    world = await converged(replicas(3))
    await lose_newest_and_status(world)
    result = await world.run_pass()
    assert result.delay == FIRST_ANSWER_SECONDS
    world.clock.elapsed += FIRST_ANSWER_SECONDS
    await world.run_pass()
    assert len(world.executor_ids) == 3


async def test_executors_are_created_in_the_pass_in_which_the_wait_for_an_answer_ends() -> None:
    world = await converged(replicas(3))
    await lose_newest_and_status(world)
    await world.run_pass()
    world.clock.elapsed += FIRST_ANSWER_SECONDS - 1
    pass_ = await world.recorded()
    assert pass_.plan.scale.create == 0

    world.clock.elapsed += 1
    await ScaleExecutors().run(pass_)

    assert len(world.executor_ids) == 3
