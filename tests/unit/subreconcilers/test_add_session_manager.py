"""AddSessionManager."""

from collections.abc import Callable
from typing import Any

import pytest
from pytest_mock import MockerFixture

from flamectl_operator.kube.resources import PODS
from flamectl_operator.reconcile.objects.outcomes import TAKEN_NAME_RECHECK_SECONDS
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS
from flamectl_operator.runtime.outcome import Outcome
from flamectl_operator.subreconcilers.add_session_manager import AddSessionManager
from flamectl_operator.subreconcilers.update_config_map import UpdateConfigMap
from tests.unit.builders import OWNER, desired, later, replicas
from tests.unit.subreconcilers.errors import REFUSALS, Failure, already_exists, broken, invalid, lost, quota, refusal_of
from tests.unit.subreconcilers.harness import SM_NAME, StepHarness, converged


async def _step(world: StepHarness) -> Outcome:
    run = await world.recorded()
    await UpdateConfigMap().run(run)
    return await AddSessionManager().run(run)


async def test_terminal_session_manager_is_deleted_and_recreated_by_the_next_pass() -> None:
    world = await converged()
    before = world.uid(SM_NAME)
    world.set_pod(SM_NAME, "failed")

    assert (await _step(world)).reason == "Terminating"
    assert world.another_pass_follows

    world.let_pods_become_ready()
    await world.run_pass()
    assert world.uid(SM_NAME) != before


async def test_session_manager_with_finalizer_is_force_deleted_once_and_awaited() -> None:
    world = await converged()
    world.hang(SM_NAME, finalizers=["a/b"])

    await world.run_passes(2)
    assert ("delete", "pods", SM_NAME) not in world.writes
    world.clock.elapsed += 70
    await world.run_passes(4)

    assert world.writes.count(("delete", "pods", SM_NAME)) == 1
    assert "held by finalizer a/b" in (world.status.message or "")


@pytest.mark.parametrize("found", ["ours", "nobody's", "none"])
async def test_unlabelled_session_manager_is_found_during_backoff(found: str) -> None:
    world = await converged()
    attempts = {"failures": 3, "nextAttempt": f"{later(60):%Y-%m-%dT%H:%M:%SZ}"}
    world.change("flameclusters", OWNER.name, {"status": {"sessionManager": attempts}})
    if found == "ours":
        world.unlabel("pods", SM_NAME)
    else:
        world.api.remove("pods", SM_NAME)
    if found == "nobody's":
        world.squat("pods", SM_NAME)

    outcome = await _step(world)

    assert outcome.reason == ("Changed" if found == "ours" else "BackOff")
    assert [name for verb, _, name in world.writes if verb == "patch"] == ([SM_NAME] if found == "ours" else [])


async def test_relabelled_session_manager_is_checked_for_failure() -> None:
    world = await converged()
    before = world.uid(SM_NAME)
    world.set_pod(SM_NAME, "failed")
    world.unlabel("pods", SM_NAME)

    await world.run_pass()
    assert world.uid(SM_NAME) == before
    assert world.another_pass_follows

    await world.run_pass(stale=True)
    assert ("delete", "pods", SM_NAME) in world.writes


@pytest.mark.parametrize("suspend", [False, True], ids=["wanted", "suspended"])
async def test_repeatedly_removed_label_is_restored_with_a_pause(mocker: MockerFixture, *, suspend: bool) -> None:
    world = await converged()
    world.unlabel("pods", SM_NAME)
    world.edit({"suspend": suspend})
    patch = world.api.merge_patch

    async def patched_by_a_webhook_too(resource: Any, *arguments: Any) -> Any:
        await patch(resource, *arguments)
        world.unlabel("pods", SM_NAME)
        return await world.api.get(resource, OWNER.namespace, SM_NAME)

    mocker.patch.object(world.api, "merge_patch", patched_by_a_webhook_too)

    assert (await _step(world)).delay == TAKEN_NAME_RECHECK_SECONDS
    assert not world.another_pass_follows


@pytest.mark.parametrize("error", [*(error for error, _ in REFUSALS), lost])
async def test_removed_label_is_restored_though_creates_are_refused_or_their_answer_is_lost(
    error: Failure,
) -> None:
    """An exhausted quota hides that the name is taken, and no watch event ever shows the unlabelled Pod."""
    world = await converged()
    before = world.uid(SM_NAME)
    world.unlabel("pods", SM_NAME)
    world.api.fail("create", "pods", error())

    await world.converge()

    assert world.uid(SM_NAME) == before
    assert world.status.message == "All components healthy"


@pytest.mark.parametrize("stale", [False, True], ids=["current", "its replacement is refused"])
async def test_removed_selector_label_is_restored(*, stale: bool) -> None:
    world = await converged()
    before = world.uid(SM_NAME)
    if stale:
        world.edit({"sessionManager": {"image": "new"}})
        world.api.fail("dry run", "pods", invalid(), times=10)
    world.change("pods", SM_NAME, {"metadata": {"labels": {"app": "web"}}})

    await world.run_pass()

    assert world.deleted == []
    assert world.pod(SM_NAME)["metadata"]["labels"]["app"] == "flame-session-manager"
    assert world.uid(SM_NAME) == before
    assert "SessionManagerRepaired" in world.events.reasons


@pytest.mark.parametrize(("error", "reason"), REFUSALS)
async def test_refusal_is_raised_with_the_servers_text(error: Failure, reason: str) -> None:
    world = StepHarness()
    world.api.fail("create", "pods", error())

    with pytest.raises(RefusedError) as raised:
        await _step(world)

    assert (raised.value.reason, str(raised.value)) == (reason, refusal_of(error(), desired().session_manager))


@pytest.mark.parametrize("error", [lost, quota, already_exists], ids=["lost", "refused", "taken"])
async def test_pod_deleted_during_a_create_does_not_count(error: Failure) -> None:
    """Another operator restored the label and deleted the Pod; the watch has shown only the label."""
    world = await converged(replicas(0))
    found = world.pod(SM_NAME)
    world.api.remove("pods", SM_NAME)
    world.sync()

    def come_and_go() -> None:
        world.api.put("pods", found)
        world.sync(PODS)
        world.api.remove("pods", SM_NAME)

    world.api.interference["create", "pods"] = come_and_go
    world.api.fail("create", "pods", error())
    await world.run_pass(stale=True)

    assert world.stores.pods.get(OWNER.namespace, SM_NAME) is None
    assert world.status.state == "Pending"


async def test_session_manager_of_another_process_is_adopted() -> None:
    world = StepHarness(replicas(0))
    run = await world.begin()
    same = run.effective.desired.session_manager.pod(SM_NAME) | {"status": {}}

    def make_it() -> None:
        world.api.put("pods", same)

    world.api.interference["create", "pods"] = make_it

    outcome = await _step(world)
    assert (outcome.reason, outcome.delay) == ("Changed", 0.25)

    await world.converge()
    assert world.status.message == "All components healthy"


async def test_session_manager_is_not_created_after_a_spec_change() -> None:
    world = StepHarness()

    def change_its_mind() -> None:
        world.edit({"suspend": True})
        world.sync(FLAME_CLUSTERS)

    world.api.interference["create", "configmaps"] = change_its_mind
    result = await world.run_pass()

    assert (world.session_manager, result.delay) == (None, 0)


@pytest.mark.parametrize("suspend", [False, True], ids=["wanted", "suspended"])
async def test_session_manager_found_by_a_read_counts_without_a_watch_event(*, suspend: bool) -> None:
    """Otherwise the next pass would miss the Pod, or create another one, until the watch catches up."""
    world = StepHarness(replicas(0) | ({"suspend": True} if suspend else {}))
    run = await world.recorded()
    await UpdateConfigMap().run(run)
    world.api.put("pods", run.effective.desired.session_manager.pod(SM_NAME) | {"status": {}})

    await AddSessionManager().run(run)

    assert run.observe().session_manager is not None


async def test_session_manager_created_without_label_is_labelled() -> None:
    world = StepHarness()
    world.api.webhook = _without("pods", "flame.xflops.io/cluster")

    outcome = await _step(world)
    assert (outcome.reason, outcome.delay, outcome.attention) == ("ChangesUndone", TAKEN_NAME_RECHECK_SECONDS, True)

    world.api.webhook = _without("none", "")
    await world.run_pass()
    assert world.pod(SM_NAME)["metadata"]["labels"]["flame.xflops.io/cluster"] == "my-flame"


async def test_reverted_repair_is_reported_once() -> None:
    world = await converged()
    world.api.webhook = _without("pods", "app")
    world.change("pods", SM_NAME, {"metadata": {"labels": {"app": "web"}}})

    for _ in range(3):
        result = await world.run_pass()
        assert result.delay == TAKEN_NAME_RECHECK_SECONDS
        world.clock.elapsed += result.delay

    assert "SessionManagerRepaired" not in world.events.reasons
    assert world.condition("Degraded")[:2] == ("True", "ChangesUndone")


async def test_session_manager_that_changed_since_is_not_deleted_by_force() -> None:
    """etcd was set back to a copy from before the deletion, and no watch tells."""
    world = await converged()
    world.hang(SM_NAME)
    before = world.uid(SM_NAME)
    await _step(world)
    world.clock.elapsed = 70
    metadata = world.api.present("pods", SM_NAME)["metadata"]
    del metadata["deletionTimestamp"]
    metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) - 1)

    await world.run_pass(stale=True)

    assert world.uid(SM_NAME) == before


@pytest.mark.parametrize("error", [broken, lost])
async def test_failed_forced_deletion_is_retried(error: Failure) -> None:
    world = await converged()
    world.hang(SM_NAME)
    before = world.uid(SM_NAME)
    await _step(world)
    world.clock.elapsed = 70
    world.api.fail("delete", "pods", error())

    assert len((await world.run_pass()).errors) == 1
    assert "SessionManagerDeleted" not in world.events.reasons

    await world.run_passes(2)
    assert world.uid(SM_NAME) != before


def _without(plural: str, label: str) -> Callable[[str, dict[str, Any]], None]:
    """A webhook that takes a label off."""

    def change(of: str, manifest: dict[str, Any]) -> None:
        if of == plural:
            manifest["metadata"]["labels"].pop(label, None)

    return change
