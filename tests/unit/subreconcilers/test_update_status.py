"""UpdateStatus, at the beginning and at the end of a pass."""

from typing import Any

import pytest
from pytest_mock import MockerFixture

from flamectl_operator.api.constants import RESTARTED_AT_ANNOTATION
from flamectl_operator.kube.cache.changes import Change
from flamectl_operator.kube.errors import ForbiddenError
from flamectl_operator.kube.resources import PODS
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.runtime.outcome import Result
from flamectl_operator.subreconcilers.update_status import UpdateStatus
from tests.unit.builders import desired, merged, replicas
from tests.unit.subreconcilers.errors import Failure, broken, conflict, forbidden, lost, quota, refusal_of
from tests.unit.subreconcilers.harness import KEY, SM_NAME, StepHarness, converged, edited, executor_name


def _status_writes(world: StepHarness) -> int:
    return len([write for write in world.writes if write[0] == "status"])


# --- Statuses that wait ------------------------------------------------------------------------------------------------


async def _created_slowly(seconds: float) -> tuple[StepHarness, Result]:
    """Return a FlameCluster whose objects took so many seconds each to create, and the result of the pass."""
    world = StepHarness(replicas(3))

    def answer_late() -> None:
        world.clock.elapsed += seconds

    for plural in ("configmaps", "services", "pods"):
        world.api.interference["create", plural] = answer_late
    return world, await world.run_pass()


def _reasons(result: Result) -> list[str]:
    """Return why a pass without errors waits."""
    assert not result.errors
    return [outcome.reason for outcome in result.outcomes]


async def test_status_that_says_created_waits_while_the_api_server_is_slow() -> None:
    world, result = await _created_slowly(0.2)

    assert _reasons(result)[:1] == ["StatusThrottled"]
    assert (world.executor_ids, world.status.executor_manager.current) == ([0, 1, 2], 0)
    assert result.delay is not None
    world.clock.elapsed += result.delay
    assert _reasons(await world.run_pass()) == ["PodsStarting"]
    assert world.status.executor_manager.current == 3
    assert world.condition("Progressing")[1] == "WaitingForPods"


async def test_executors_that_start_share_a_pass_while_a_status_waits() -> None:
    world, _ = await _created_slowly(0.2)
    world.set_pod(SM_NAME, "ready")
    await world.run_pass()
    assert world.status.session_manager.ready == 0, "the status waits"

    before = world.stores.pods.get(KEY[0], executor_name(0))
    world.set_executor(0, "starting")
    world.sync(PODS)
    after = world.stores.pods.get(KEY[0], executor_name(0))

    assert world.controller.pass_delay(KEY, Change(before, after)) > 0


async def test_process_that_takes_over_while_a_status_waits_writes_it_and_nothing_else() -> None:
    world, _ = await _created_slowly(0.2)
    before = len(world.writes)
    world.restart()
    await world.run_pass()

    assert [write[0] for write in world.writes[before:]] == ["status"]
    executors = world.status.executor_manager
    assert (executors.current, executors.next_id, world.executor_ids) == (3, 3, [0, 1, 2])


async def test_waiting_status_whose_response_is_lost_is_found_stored() -> None:
    world, result = await _created_slowly(0.2)
    assert result.delay is not None
    world.clock.elapsed += result.delay
    world.api.fail("status", "flameclusters", lost(), applied=True)
    await world.run_pass()

    assert _reasons(await world.run_pass()) == ["PodsStarting"]
    assert world.status.executor_manager.current == 3
    assert _status_writes(world) == 2


# --- The opening step --------------------------------------------------------------------------------------------------


async def test_ids_and_the_generation_are_recorded_before_use() -> None:
    world = StepHarness(replicas(3))
    run = await world.recorded()

    assert world.status.executor_manager.next_id == 3
    assert world.status.observed_generation == 1
    assert run.ids._reserved == [0, 1, 2]


async def test_status_of_another_writer_is_read() -> None:
    world = await converged(replicas(3))
    world.change("flameclusters", KEY[1], {"status": {"executorManager": {"nextId": 40}}})
    world.edit(replicas(4))

    await world.recorded()

    assert world.status.executor_manager.next_id == 41


async def test_ids_from_before_a_failure_counted_while_paused_are_not_used() -> None:
    world = StepHarness(replicas(3))
    world.api.fail("create", "pods", quota(), name=executor_name(0), times=2)
    await world.run_pass()
    assert world.executor_ids == []
    world.edit({"paused": True, "executorManager": {"image": "new"}})
    await world.run_pass()
    attempt_id = world.status.executor_manager.attempt_id
    world.edit({"paused": False})

    await world.converge()

    assert attempt_id == 3
    assert world.executor_ids == [3, 4, 5]


@pytest.mark.parametrize("error", [conflict, broken, lost, forbidden], ids=["409", "500", "no answer", "403"])
async def test_pass_writes_nothing_else_without_its_durable_fields(error: Failure) -> None:
    world = StepHarness(replicas(3))
    world.api.fail("status", "flameclusters", error())

    await world.run_pass()

    assert _status_writes(world) == len(world.writes) == 1


async def test_refusal_of_the_status_is_an_event_because_the_status_cannot_tell_it() -> None:
    world = StepHarness(replicas(3))
    words = "flameclusters \"my-flame\" is forbidden: ValidatingAdmissionPolicy 'a' denied request: no"
    world.api.fail("status", "flameclusters", ForbiddenError(403, "Forbidden", words))

    await world.run_pass()

    (told,) = world.events.told
    assert told[:2] == ("Warning", "AdmissionDenied")
    assert told[2].startswith(
        'the change of the status of FlameCluster "my-flame" is refused: ValidatingAdmissionPolicy'
    )


# --- Invalid -----------------------------------------------------------------------------------------------------------


async def test_an_invalid_spec_is_shown_with_the_path_and_changes_nothing_else() -> None:
    world = await edited(replicas(2), {"executorManager": {"replicas": -1}})

    result = await world.run_pass()

    assert result.errors == ()
    assert world.status.state == "Failed"
    assert "spec.executorManager.replicas" in (world.status.message or "")
    assert world.condition("ConfigValid")[0] == "False"
    assert world.events.reasons == ["InvalidSpec"]
    assert _status_writes(world) == len(world.writes) == 1


# --- Paused ------------------------------------------------------------------------------------------------------------


async def test_paused_cluster_is_not_changed_and_reports_it() -> None:
    world = await edited(replicas(2), {"paused": True, "executorManager": {"replicas": 5, "image": "new"}})
    world.set_executor(0, "failed")
    world.api.remove("services", SM_NAME)

    await world.run_passes(3)

    assert {write[0] for write in world.writes} == {"status"}
    assert _status_writes(world) == 1
    assert (world.status.message or "").startswith("Paused")
    assert world.condition("Paused")[0] == "True"
    assert world.status.executor_manager.ready == 1
    assert world.status.observed_generation == 2


async def test_paused_cluster_clears_earlier_refusals() -> None:
    world = await converged()
    world.edit({"paused": True})
    await world.run_pass()
    said = {"status": "True", "reason": "RequestsFailing", "message": "no answer"}
    conditions = world.status.to_wire()["conditions"]
    told = [each | said if each["type"] == "Degraded" else each for each in conditions]
    world.change("flameclusters", KEY[1], {"status": {"conditions": told}})

    world.restart()
    await world.run_pass()

    assert world.condition("Degraded")[:2] == ("False", "AsExpected")


# --- Suspended ---------------------------------------------------------------------------------------------------------


async def test_resumed_cluster_is_requeued_when_the_suspension_ends_at_once() -> None:
    world = await edited(replicas(1), {"suspend": True})
    await world.recorded()
    world.edit({"suspend": False})
    world.api.remove("pods", SM_NAME)
    # No kubelet has seen this one: its deletion leaves nothing behind.
    pod = world.pod(executor_name(0))
    world.api.put("pods", pod | {"spec": pod["spec"] | {"nodeName": ""}, "status": {"phase": "Pending"}})

    await world.run_pass()
    assert world.api.all("pods") == []
    assert world.another_pass_follows

    await world.run_pass(stale=True)
    assert world.executor_ids == [1]


# --- The closing step --------------------------------------------------------------------------------------------------


async def test_status_changed_during_the_pass_is_written_soon() -> None:
    world = await converged(replicas(2))
    world.set_executor(0, "starting")
    world.api.fail("status", "flameclusters", conflict())

    result = await world.run_pass()

    assert result.errors == ()
    assert result.delay == 0.25


async def test_cluster_that_a_write_finds_deleted_is_not_written_again() -> None:
    world = await converged(replicas(2))
    world.api.remove("flameclusters", KEY[1])
    world.set_executor(0, "failed")
    world.sync(PODS)

    await world.run_pass(stale=True)
    world.writes.clear()
    result = await world.run_pass(stale=True)

    assert (world.writes, result.errors, result.delay) == ([], (), None)


async def test_before_the_acting_steps_the_status_counts_the_pods_and_keeps_an_earlier_refusal() -> None:
    world = await converged(replicas(2))
    run = await world.recorded()
    run.report.add("AddServices", Result(errors=(RefusedError("QuotaExceeded", "exceeded quota"),)), acts=True)
    await UpdateStatus().run(run)
    world.api.remove("pods", executor_name(1))

    await UpdateStatus().run(await world.recorded())

    assert world.status.executor_manager.ready == 1
    assert world.condition("Degraded") == ("True", "QuotaExceeded", "exceeded quota")


async def test_step_that_needs_a_valid_spec_raises_without_one() -> None:
    run = await StepHarness({"sessionManager": {"slot": "cpu=0"}}).begin()

    assert not run.may_act
    with pytest.raises(RuntimeError, match="spec is invalid"):
        run.effective  # noqa: B018 - a property


# --- When to look again ------------------------------------------------------------------------------------------------


async def test_failures_reset_ten_minutes_later_without_an_event() -> None:
    world = await converged(replicas(1))
    world.set_executor(0, "failed")
    await world.run_pass()
    assert world.status.executor_manager.failures == 1

    world.clock.elapsed += 40
    await world.converge()
    result = await world.run_pass()
    assert result.delay == 560, "the failure is no longer recent"

    world.clock.elapsed += 560
    result = await world.run_pass()
    assert world.status.recent_failures == ()
    assert world.status.executor_manager.failures == 1
    assert result.delay == 40, "its replacement has been ready for long"

    world.clock.elapsed += 40
    result = await world.run_pass()
    assert world.status.executor_manager.failures == 0
    assert result.delay is None


async def test_failures_due_for_reset_during_a_pass_are_reset_by_the_next() -> None:
    world = await converged(replicas(1))
    world.set_executor(0, "failed")
    await world.run_pass()
    world.clock.elapsed += 40
    await world.converge()
    world.clock.elapsed += 599
    run = await world.recorded()

    world.clock.elapsed += 2
    run.report.add("AddServices", Result(), acts=True)
    outcome = await UpdateStatus().run(run)

    assert (outcome.reason, outcome.delay) == ("Stable", 0)
    await world.run_pass()
    assert world.status.executor_manager.failures == 0


# --- What a status that was stored is followed by ----------------------------------------------------------------------


async def test_stored_status_is_reported_after_a_lost_answer() -> None:
    world = await converged(replicas(1))
    world.set_executor(0, "starting")
    await world.run_pass()
    world.set_executor(0, "ready")
    world.events.told.clear()
    world.api.fail("status", "flameclusters", lost(), applied=True)

    result = await world.run_pass()
    await world.run_pass()

    assert result.errors == ()
    assert world.events.reasons == ["Ready"]


async def test_spec_read_after_a_lost_answer_triggers_a_pass(mocker: MockerFixture) -> None:
    world = await converged(replicas(1))
    world.set_executor(0, "starting")
    await world.run_pass()
    world.set_executor(0, "ready")
    world.api.fail("status", "flameclusters", lost(), applied=True)
    get = world.api.get

    async def edited_meanwhile(*arguments: Any) -> Any:
        mocker.patch.object(world.api, "get", get)
        world.edit(replicas(2))
        return await get(*arguments)

    mocker.patch.object(world.api, "get", edited_meanwhile)
    result = await world.run_pass()

    assert result.errors, "so that it is tried again"
    await world.run_pass(stale=True)
    assert world.executor_ids == [0, 1]


async def test_refusal_stays_reported_while_passes_end_earlier() -> None:
    world = await edited(replicas(1), replicas(2))
    world.api.fail("create", "pods", quota())
    await world.run_pass()
    since = next(each for each in world.status.conditions if each.type == "Degraded").last_transition_time

    world.clock.elapsed += 5
    world.api.fail("create", "pods", broken())
    assert len((await world.run_pass()).errors) == 1
    assert world.condition("Degraded") == ("True", "QuotaExceeded", refusal_of(quota(), desired().group.template))
    world.clock.elapsed += 5
    world.api.fail("create", "pods", quota())
    await world.run_pass()

    assert next(each for each in world.status.conditions if each.type == "Degraded").last_transition_time == since
    assert world.events.reasons.count("QuotaExceeded") == 1

    await world.run_pass()
    assert world.condition("Degraded")[0] == "False"


async def test_wish_for_a_restart_that_stands_at_the_flame_cluster_itself_is_told() -> None:
    world = await converged(replicas(1))
    world.api.put("flameclusters", merged(world.api.objects["flameclusters", *KEY], {
        "metadata": {"annotations": {RESTARTED_AT_ANNOTATION: "now"}},
    }))  # fmt: skip
    await world.run_pass()

    assert world.deleted == []
    status, reason, message = world.condition("ConfigValid")
    assert (status, reason) == ("True", "ValidWithWarnings")
    assert (
        "annotations[flame.xflops.io/restarted-at]: has no effect; to restart the Pods of a component, set it in"
        in message
    )
