"""ScaleExecutors."""

import asyncio
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from pytest_mock import MockerFixture

from flamectl_operator.api.constants import CLUSTER_LABEL, SESSION_MANAGER_ANNOTATION
from flamectl_operator.desired import names
from flamectl_operator.kube.resources import PODS
from flamectl_operator.kube.views import parse_time
from flamectl_operator.observed.ownership import DETACHED_RECHECK_SECONDS
from flamectl_operator.observed.waiting import READY_TIMEOUT_SECONDS
from flamectl_operator.planning.removals import listed
from flamectl_operator.reconcile.objects.outcomes import CHANGED_RECHECK_SECONDS
from flamectl_operator.reconcile.reconcile_pass import Pass
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS
from flamectl_operator.runtime.outcome import DONE, Outcome
from flamectl_operator.runtime.slow_start import AFTER_ACCEPTANCE
from flamectl_operator.subreconcilers.add_session_manager import AddSessionManager
from flamectl_operator.subreconcilers.scale_executors import ScaleExecutors, span
from flamectl_operator.subreconcilers.update_config_map import UpdateConfigMap
from tests.unit.builders import OWNER, desired, executor, executor_template, merged, replicas, rolling
from tests.unit.subreconcilers.errors import (
    REFUSALS,
    Failure,
    broken,
    conflict,
    forbidden,
    lost,
    no_dry_run,
    not_found,
    overloaded,
    quota,
    refusal_of,
    unreachable,
)
from tests.unit.subreconcilers.harness import (
    CM_NAME,
    KEY,
    SM_NAME,
    StepHarness,
    converged,
    edited,
    executor_name,
    take_long,
)


async def _prepared(world: StepHarness) -> Pass:
    run = await world.recorded()
    await UpdateConfigMap().run(run)
    await AddSessionManager().run(run)
    return run


async def _step(world: StepHarness) -> Outcome:
    return await ScaleExecutors().run(await _prepared(world))


def _creates(world: StepHarness) -> list[str]:
    return [name for verb, plural, name in world.writes if (verb, plural) == ("create", "pods") and "executor" in name]


# --- Making executors --------------------------------------------------------------------------------------------------


async def test_missing_executors_are_created_with_ids_from_0() -> None:
    world = StepHarness(replicas(5))

    assert await _step(world) is DONE
    assert world.executor_ids == [0, 1, 2, 3, 4]
    assert world.status.executor_manager.next_id == 5
    said = "Created 5 executors my-flame-executor-manager-0..4 (0 -> 5)"
    assert ("Normal", "ExecutorsCreated", said) in world.events.told


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ({4}, "executor my-flame-executor-manager-4"),
        ({0, 1, 2}, "3 executors my-flame-executor-manager-0..2"),
        ({0, 2}, "2 executors my-flame-executor-manager-0, -2"),
        ({0, 1, 3, 5, 6}, "5 executors my-flame-executor-manager-0..1, -3, -5..6"),
        (set(range(0, 20, 2)), "10 executors my-flame-executor-manager-0, -2, -4, -6, -8, ..."),
    ],
)
def test_event_names_no_executor_that_was_not_created(ids: set[int], said: str) -> None:
    assert span("my-flame", ids) == said


async def test_creates_over_the_limit_of_a_pass_follow_at_once_in_later_passes() -> None:
    world = StepHarness(replicas(5), {"controller": {"maxCreatesPerPass": 2}})

    delays = [(await world.run_pass()).delay for _ in range(3)]

    assert world.executor_ids == [0, 1, 2, 3, 4]
    # What a pass wrote itself causes no event, so it has to ask for the next one.
    assert delays == [0, 0, READY_TIMEOUT_SECONDS]


# --- Refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "reason"), REFUSALS)
async def test_slow_start_stops_at_the_first_refusal(error: Failure, reason: str) -> None:
    world = StepHarness(replicas(100))
    run = await _prepared(world)
    world.api.fail("create", "pods", error(), times=100)

    with pytest.raises(RefusedError) as raised:
        await ScaleExecutors().run(run)

    assert (raised.value.reason, str(raised.value)) == (reason, refusal_of(error(), desired().group.template))
    assert len(_creates(world)) == 1


def _accept_another(world: StepHarness) -> None:
    """Another FlameCluster in the namespace has just got an executor."""
    world.stores.executors_accepted.note(KEY[0], "another", world.clock.monotonic())


@pytest.mark.parametrize(("accepted", "together"), [(False, 1), (True, 3)], ids=["first", "after others"])
async def test_few_executors_are_created_together_after_others_in_the_namespace(
    mocker: MockerFixture, *, accepted: bool, together: int
) -> None:
    world = StepHarness(replicas(3))
    if accepted:
        _accept_another(world)
    asked: list[str] = []
    before_the_first_answer: list[int] = []
    create = world.api.create

    async def noted(resource: Any, namespace: str, body: Any, **options: Any) -> Any:
        asked.append(body["metadata"]["name"])
        await asyncio.sleep(0)
        if body["metadata"]["name"] == executor_name(0):
            before_the_first_answer.append(sum("executor" in each for each in asked))
        return await create(resource, namespace, body, **options)

    mocker.patch.object(world.api, "create", noted)
    await world.run_pass()

    assert before_the_first_answer == [together]
    assert world.executor_ids == [0, 1, 2]


async def test_few_executors_are_refused_after_others_were_accepted_and_then_one_at_a_time() -> None:
    world = StepHarness(replicas(100))
    _accept_another(world)
    for number in range(100):
        world.api.fail("create", "pods", quota(), name=executor_name(number), times=10)

    await world.run_pass()
    assert len(_creates(world)) == AFTER_ACCEPTANCE
    await world.run_pass()

    assert len(_creates(world)) == AFTER_ACCEPTANCE + 1


async def test_ids_of_refused_creates_are_used_later() -> None:
    world = StepHarness(replicas(8))
    run = await _prepared(world)
    world.api.fail("create", "pods", quota(), name=executor_name(4))

    with pytest.raises(RefusedError):
        await ScaleExecutors().run(run)
    assert run.ids._reserved == [4]
    assert world.executor_ids == [0, 1, 2, 3, 5, 6, 7]

    assert await ScaleExecutors().run(run) is DONE
    assert world.executor_ids == list(range(8))
    assert world.status.executor_manager.next_id == 8


async def test_refusal_of_an_executor_of_the_surge_by_a_quota_names_the_surge() -> None:
    world = await edited(rolling(3, 0, 1), {"executorManager": {"env": [{"name": "A", "value": "b"}]}})
    world.api.fail("create", "pods", quota(), times=9)

    await world.run_passes(2)

    assert (
        "(lower spec.executorManager.updateStrategy.rollingUpdate.maxSurge, or raise" in world.condition("Degraded")[2]
    )


async def test_quota_refusals_for_hours_use_no_ids_and_are_reported_once() -> None:
    world = await edited(replicas(1), replicas(4))
    world.api.fail("create", "pods", quota(), times=10_000)

    await world.run_passes(20, seconds=600)

    assert world.status.executor_manager.next_id == 4
    assert world.events.reasons == ["QuotaExceeded"]
    assert world.condition("Degraded") == ("True", "QuotaExceeded", refusal_of(quota(), desired().group.template))
    assert len(_creates(world)) == 20
    assert len([write for write in world.writes if write[0] == "status"]) <= 2


async def test_session_manager_comes_first_when_quota_is_short() -> None:
    """The quota has room for an executor but not for a session manager."""
    world = await edited(replicas(2), replicas(3))
    world.api.remove("pods", SM_NAME)
    world.api.fail("create", "pods", quota(), name=SM_NAME, times=2)

    await world.run_passes(2)
    assert [name for verb, plural, name in world.writes if (verb, plural) == ("create", "pods")] == [SM_NAME] * 2
    assert world.condition("Degraded")[1] == "QuotaExceeded"

    await world.converge()
    assert len(world.executor_ids) == 3


async def test_permanent_refusal_of_the_session_manager_does_not_block_executors() -> None:
    world = StepHarness(replicas(2))
    world.api.fail("create", "pods", forbidden(), name=SM_NAME)

    await world.run_pass()

    assert world.executor_ids == [0, 1]


@pytest.mark.parametrize("error", [overloaded, unreachable, not_found], ids=["429", "no connection", "404"])
async def test_id_of_a_create_that_certainly_failed_is_used_again(error: Failure) -> None:
    world = StepHarness(replicas(1))
    world.api.fail("create", "pods", error(), name=executor_name(0))

    result = await world.run_pass()
    assert [str(each) for each in result.errors] == [str(error())]
    await world.run_pass()

    assert world.executor_ids == [0]


@pytest.mark.parametrize("error", [lost, broken], ids=["no answer", "500"])
async def test_id_of_a_create_with_unknown_outcome_is_not_reused(error: Failure) -> None:
    world = StepHarness(replicas(1))
    world.api.fail("create", "pods", error(), name=executor_name(0))

    await world.run_passes(2)

    assert world.executor_ids == [1]


# --- Names that are taken ----------------------------------------------------------------------------------------------


async def test_taken_name_is_skipped() -> None:
    world = StepHarness(replicas(2))
    world.squat("pods", executor_name(0))

    await world.run_passes(2)

    assert world.executor_ids == [0, 1, 2]
    assert "ownerReferences" not in world.pod(executor_name(0))["metadata"]
    assert world.status.executor_manager.current == 2
    said = f"Another Pod has the name of executor {executor_name(0)}, so new executors get other ids"
    assert ("Normal", "NamesTaken", said) in world.events.told


async def test_names_of_executors_that_others_have_are_told_in_one_sentence() -> None:
    world = StepHarness(replicas(2))
    for number in range(200):
        world.squat("pods", executor_name(number))

    await world.run_passes(3)
    told = f"Other Pods have the names of 14 executors {executor_name(0)}..13"
    assert told in str(world.status.message)

    await world.run_passes(7)
    assert world.status.executor_manager.current == 2
    said = f"Other Pods have the names of 200 executors {executor_name(0)}..199, so new executors get other ids"
    assert [message for _, reason, message in world.events.told if reason == "NamesTaken"] == [said]
    assert "Other Pods" not in str(world.status.message)


async def test_ids_that_no_name_needed_are_used_later() -> None:
    world = StepHarness(replicas(1))
    for number in range(2):
        world.squat("pods", executor_name(number))
    await world.run_passes(2)
    world.edit(replicas(3))

    await world.run_passes(2)

    assert world.executor_ids == [0, 1, 2, 3, 4]


# --- Removing executors ------------------------------------------------------------------------------------------------


async def test_a_terminal_executor_is_replaced_at_once_and_removed_after_thirty_seconds() -> None:
    world = await converged(replicas(2))
    world.set_executor(0, "failed")

    result = await world.run_pass()
    assert world.executor_ids == [0, 1, 2]
    assert result.delay == 30

    world.clock.elapsed += 30
    await world.run_pass()
    assert world.executor_ids == [1, 2]
    assert world.leaving_ids == [0]
    told = ("Normal", "ExecutorsRemoved", f'Removed "{executor_name(0)}": ended (Error)')
    assert told in world.events.told


async def test_event_names_deleted_executors_although_another_deletion_failed() -> None:
    world = await edited(replicas(3), replicas(1))
    world.api.fail("delete", "pods", forbidden(), name=executor_name(2))

    await world.run_pass()

    said = 'Removed "my-flame-executor-manager-1": 1 wanted (3 -> 2)'
    assert ("Normal", "ExecutorsRemoved", said) in world.events.told


async def test_deletion_of_a_missing_executor_is_not_an_error() -> None:
    world = await edited(replicas(2), replicas(1))
    world.api.interference["delete", "pods"] = lambda: world.api.remove("pods", executor_name(1))

    result = await world.run_pass()

    assert result.errors == ()
    assert world.executor_ids == [0]


async def test_chosen_executor_that_became_ready_is_kept() -> None:
    world = StepHarness(replicas(3))
    await world.run_pass()
    world.edit(replicas(1))

    def become_ready() -> None:
        world.set_executor(2, "ready")
        world.sync(PODS)

    world.api.interference["delete", "pods"] = become_ready
    await world.run_pass()
    assert world.deleted == [executor_name(1)]

    await world.run_pass()
    assert world.executor_ids == [2]


async def test_creates_stop_when_the_spec_changes() -> None:
    world = await edited(replicas(0), replicas(9))

    def change_its_mind() -> None:
        world.edit({"paused": True})
        world.sync(FLAME_CLUSTERS)

    world.api.interference["create", "pods"] = change_its_mind
    await world.run_pass()
    assert world.executor_ids == [0]  # which was on its way

    world.edit({"paused": False})
    await world.converge()
    assert world.executor_ids == [0, 1, 2, 3, 4, 5, 6, 7, 8]


async def test_executor_is_bound_to_the_session_manager_at_its_creation() -> None:
    world = await edited(replicas(0), replicas(3))

    def restart() -> None:
        world.set_pod(SM_NAME, "ready", restarts=1)
        world.sync(PODS)

    world.api.interference["create", "pods"] = restart
    await ScaleExecutors().run(await world.recorded())

    incarnations = {}
    for number in world.executor_ids:
        incarnations[number] = world.pod(executor_name(number))["metadata"]["annotations"][SESSION_MANAGER_ANNOTATION][
            -2:
        ]
    assert incarnations == {0: ".0", 1: ".1", 2: ".1"}


@pytest.mark.parametrize(
    "order", [replicas(3), {"suspend": True}, {"lockOptions": {"denyList": ["us"]}}], ids=["back", "on", "denied"]
)
async def test_deletions_stop_when_the_spec_changes(order: dict[str, Any]) -> None:
    world = await edited(replicas(3), replicas(1))

    def change_its_mind() -> None:
        world.edit(order)
        world.sync(FLAME_CLUSTERS)

    world.api.interference["delete", "pods"] = change_its_mind
    # Nothing about those Pods is in doubt: to read them all would take long.
    world.api.fail("get", "pods", broken(), times=100)
    result = await world.run_pass()

    assert (world.deleted, result.errors) == ([], ())


@pytest.mark.parametrize(
    ("verb", "count", "reason"), [("create", 6, "Creating"), ("delete", 1, "NextBatch")], ids=["create", "delete"]
)
async def test_slow_batch_continues_in_the_next_pass_after_the_status(verb: str, count: int, reason: str) -> None:
    world = await converged(replicas(3), {"controller": {"maxWritesInFlight": 1}})
    world.edit(replicas(count))
    done = []
    for _ in range(3):
        world.api.interference[verb, "pods"] = partial(take_long, world)
        before = len(world.writes)
        result = await world.run_pass()
        done.append([name for did, plural, name in world.writes[before:] if (did, plural) == (verb, "pods")])
        world.api.interference.clear()
        if result.delay != 0:
            break
        assert (reason, 0) in [(each.reason, each.delay) for each in result.outcomes]
        assert world.status.executor_manager.current == len(world.executor_ids)

    assert [len(names) for names in done] == [1] * abs(count - 3)
    assert len(world.executor_ids) == count


async def _made_in_passes(world: StepHarness, mocker: MockerFixture, passes: int) -> list[int]:
    """Return how many executors each pass creates when a request takes as long as a whole batch may."""
    create = world.api.create

    async def slowly(*args: Any, **options: Any) -> Any:
        await asyncio.sleep(0)  # the others of the batch begin
        take_long(world)
        return await create(*args, **options)

    mocker.patch.object(world.api, "create", slowly)
    counts = [len(world.executor_ids)]
    for _ in range(passes):
        await world.run_pass()
        counts.append(len(world.executor_ids))
    return [after - before for before, after in pairwise(counts)]


async def test_slow_start_begins_again_after_a_change_or_a_refusal(mocker: MockerFixture) -> None:
    world = await edited(replicas(0), replicas(20))
    assert await _made_in_passes(world, mocker, 3) == [1, 2, 4]

    world.edit(replicas(40))
    assert await _made_in_passes(world, mocker, 2) == [1, 2]
    world.api.fail("create", "pods", quota(), times=4)
    assert await _made_in_passes(world, mocker, 3) == [0, 1, 2]

    world.change("configmaps", CM_NAME, {"data": {"flame-cluster.yaml": "edited"}})
    world.api.fail("patch", "configmaps", broken())
    assert await _made_in_passes(world, mocker, 3) == [0, 1, 2]


# --- Backoff -----------------------------------------------------------------------------------------------------------


async def test_failures_of_replacements_with_returned_ids_are_counted() -> None:
    """A quota refused creates, so their ids are used later, and executors with these ids fail."""
    world = await edited(replicas(1), replicas(6))
    world.api.fail("create", "pods", quota(), times=1)
    await world.run_pass()
    world.edit(replicas(1))
    await world.run_pass()
    world.clock.elapsed += 5

    failures = []
    for _ in range(4):
        newest = max(number for number in world.executor_ids)
        world.set_executor(newest, "failed")
        await world.run_pass()
        failures.append(world.status.executor_manager.failures)
        next_attempt = world.status.executor_manager.next_attempt
        if next_attempt is not None:
            world.clock.elapsed += (next_attempt - world.clock.now()).total_seconds()
            await world.run_pass()

    assert failures == [1, 2, 3, 4]


# --- Words -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, '"my-flame-executor-manager-0"'),
        (3, '"my-flame-executor-manager-0", "my-flame-executor-manager-1", "my-flame-executor-manager-2"'),
        (
            5,
            '5 executors ("my-flame-executor-manager-0", "my-flame-executor-manager-1", "my-flame-executor-manager-2", ...)',
        ),
    ],
)
def test_event_lists_the_first_executors(count: int, words: str) -> None:
    assert listed([executor(number) for number in range(count)]) == words


# --- When there are no more ids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", [names.MAX_ID + 1, 2**63 - 1])
async def test_no_executor_is_created_without_ids_and_the_status_gives_the_reason(mark: int) -> None:
    world = await converged(replicas(1))
    world.change("flameclusters", OWNER.name, {"status": {"executorManager": {"nextId": mark}}})
    world.edit(replicas(3))

    result = await world.run_passes(3)

    assert result.delay is None
    assert _creates(world) == []
    assert world.executor_ids == [0]
    assert world.status.executor_manager.next_id == names.MAX_ID + 1
    kind, reason, message = world.condition("Degraded")
    assert (kind, reason) == ("True", "IdsExhausted")
    assert "9999999999" in message


@pytest.mark.parametrize(
    "change",
    [
        {"executorManager": {"image": "new", "updateStrategy": {"type": "Recreate"}}},
        {"sessionManager": {"image": "new"}},
    ],
)
async def test_without_ids_nothing_is_deleted_to_be_replaced(change: dict[str, Any]) -> None:
    world = await converged(replicas(2))
    world.change("flameclusters", OWNER.name, {"status": {"executorManager": {"nextId": names.MAX_ID + 1}}})
    world.edit(change)

    await world.run_passes(3)

    assert world.deleted == []
    assert world.condition("Degraded")[1] == "IdsExhausted"


async def test_the_last_id_is_used_and_none_after_it() -> None:
    world = await converged(replicas(1))
    world.change("flameclusters", OWNER.name, {"status": {"executorManager": {"nextId": names.MAX_ID}}})
    world.edit(replicas(3))

    await world.run_passes(3)

    assert world.executor_ids == [0, names.MAX_ID]
    assert world.condition("Degraded")[1] == "IdsExhausted"


# --- Webhooks ----------------------------------------------------------------------------------------------------------


def _take_the_label_off(plural: str, manifest: dict[str, Any], label: str = "app") -> None:
    if plural == "pods":
        manifest["metadata"]["labels"].pop(label, None)


@pytest.mark.parametrize("label", ["app", CLUSTER_LABEL])
@pytest.mark.parametrize("dry_run", [True, False], ids=["dry run", "no dry run"])
async def test_no_more_executors_are_created_after_a_webhook_removed_their_label(*, dry_run: bool, label: str) -> None:
    world = await edited(replicas(1), replicas(4))
    world.api.webhook = partial(_take_the_label_off, label=label)
    if not dry_run:
        world.api.fail("dry run", "pods", no_dry_run(), times=100)

    await world.run_passes(4)

    assert len(_creates(world)) == 1
    assert world.condition("Degraded")[:2] == ("True", "LabelsChanged")
    assert f"the labels {label}=" in world.condition("Degraded")[2]


@pytest.mark.parametrize("dry_run", [True, False], ids=["after a dry run shows it", "from a changed template"])
async def test_executors_are_created_again_when_labels_stay(*, dry_run: bool) -> None:
    world = await edited(replicas(1), replicas(4))
    world.api.webhook = _take_the_label_off
    if not dry_run:
        world.api.fail("dry run", "pods", no_dry_run(), times=1000)
    await world.run_pass()

    world.api.webhook = lambda _plural, _manifest: None
    if not dry_run:
        world.edit({"executorManager": {"image": "executor:2"}})
    await world.converge()

    assert world.status.executor_manager.ready == 4


async def test_refusal_is_reported_after_another_failure() -> None:
    world = await edited(replicas(3), replicas(1))
    world.api.fail("delete", "pods", broken(), name=executor_name(2))
    world.api.fail("delete", "pods", forbidden(), name=executor_name(1))

    await world.run_pass()

    assert world.condition("Degraded")[:2] == ("True", "PermissionDenied")


async def test_executor_whose_deletion_did_not_happen_is_read_again() -> None:
    world = await edited(replicas(2), replicas(1))
    world.api.fail("delete", "pods", conflict())

    result = await world.run_pass()

    assert (result.errors, result.delay) == ((), CHANGED_RECHECK_SECONDS)


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        pytest.param({"labels": {"app": "x"}}, "the label app=flame-executor-manager", id="label"),
        pytest.param({"labels": {CLUSTER_LABEL: "x"}}, f"the label {CLUSTER_LABEL}={OWNER.name}", id="cluster"),
        pytest.param({"ownerReferences": []}, "the owner reference", id="owner"),
    ],
)
async def test_program_that_takes_labels_or_owners_off_executors_does_not_cause_pods_without_end(
    change: dict[str, Any], lost: str
) -> None:
    world = await converged(replicas(2))
    for _ in range(40):
        for each in world.executor_ids:
            world.change("pods", executor_name(each), {"metadata": change})
        await world.run_pass()
        world.let_pods_become_ready()
        world.clock.elapsed += 5

    await _creates_no_more_until_they_are_gone(world, lost)


async def _creates_no_more_until_they_are_gone(world: StepHarness, lost: str) -> None:
    assert len(world.executor_ids) <= 14
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "LabelsChanged")
    assert f"run and lack {lost}, so the operator creates no more" in message
    world.api.writes.clear()
    await world.run_pass()
    assert world.writes == []

    for each in world.executor_ids[:-1]:
        world.api.remove("pods", executor_name(each))
    world.clock.elapsed += DETACHED_RECHECK_SECONDS
    await world.converge()
    # Another one without an owner runs on, and has the labels of an executor.
    assert world.status.reason == ("ForeignPods" if "owner" in lost else "Healthy")


@pytest.mark.parametrize("at_once", [False, True], ids=["later", "before the next pass"])
async def test_program_that_takes_the_label_of_the_watch_off_executors_does_not_cause_pods_without_end(
    *, at_once: bool
) -> None:
    world = await converged(replicas(2))
    for _ in range(40):
        for each in world.executor_ids:
            world.unlabel("pods", executor_name(each))
        await world.run_pass()
        if not at_once:
            world.let_pods_become_ready()
            await world.run_pass()
        world.clock.elapsed += 5

    cause = (
        f"Cause: somebody removed the label {CLUSTER_LABEL}={OWNER.name}, and the Pods run on. The operator replaces"
    )
    assert any(cause in text for _, _, text in world.events.told)
    await _creates_no_more_until_they_are_gone(world, f"the label {CLUSTER_LABEL}={OWNER.name}")


async def test_executors_that_lose_their_label_while_another_one_is_read_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = await converged(replicas(2))
    get = world.api.get

    def labelled() -> list[str]:
        found = map(executor_name, world.executor_ids)
        return [name for name in found if CLUSTER_LABEL in (world.api.find("pods", name) or {})["metadata"]["labels"]]

    async def unlabel_others(resource: Any, namespace: str, name: str) -> Any:
        if resource is PODS:
            for each in labelled():
                world.unlabel("pods", each)
            world.sync(PODS)
        return await get(resource, namespace, name)

    monkeypatch.setattr(world.api, "get", unlabel_others)
    for _ in range(40):
        for each in labelled()[:1]:
            world.unlabel("pods", each)
        await world.run_pass()
        world.let_pods_become_ready()
        world.clock.elapsed += 5

    await _creates_no_more_until_they_are_gone(world, f"the label {CLUSTER_LABEL}={OWNER.name}")


async def test_executors_that_are_really_gone_are_not_counted_as_running_without_a_label() -> None:
    world = await converged(replicas(2))
    for _ in range(20):
        for each in world.executor_ids:
            world.api.remove("pods", executor_name(each))
        await world.run_pass()
        world.let_pods_become_ready()
        world.clock.elapsed += 5

    assert world.condition("Degraded")[0] == "False"
    assert len(world.executor_ids) == 2


async def test_executors_that_name_a_missing_node_are_created_with_backoff() -> None:
    world = await converged(replicas(0), {"flame": {"podPolicy": {"nodeNames": True}}})
    world.edit(merged(executor_template({"nodeName": "gone"}), replicas(1)))
    degraded: list[tuple[str, str]] = []
    for _ in range(100):
        await world.run_pass()
        degraded.append(world.condition("Degraded")[:2])
        world.clock.elapsed += 10
        for pod in world.api.all("pods"):
            if pod["spec"].get("nodeName") == "gone" and _age(world, pod) >= 40:
                # The garbage collector marks the Pod and deletes it before the next pass.
                world.api.remove("pods", pod["metadata"]["name"])

    assert set(degraded[4:]) == {("True", "PodsFailing")}, "between two attempts as well"
    assert str(world.status.message).count("spec.nodeName of the Pod names it") == 1
    assert "(correct spec.executorManager.podTemplate.spec.nodeName)" in str(world.status.message)
    assert len(_creates(world)) <= 8
    assert world.status.executor_manager.failures
    lost = [message for _, reason, message in world.events.told if reason == "ExecutorsLost"]
    assert 'spec.nodeName names node "gone", which may not exist' in lost[0]


def _age(world: StepHarness, pod: dict[str, Any]) -> float:
    born = parse_time(pod["metadata"]["creationTimestamp"])
    assert born is not None
    return (world.clock.now() - born).total_seconds()
