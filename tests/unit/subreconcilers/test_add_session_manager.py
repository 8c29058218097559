"""AddSessionManager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flamectl_operator.kube.errors import KubernetesError
from flamectl_operator.kube.resources import PODS
from flamectl_operator.runtime.outcome import DONE
from flamectl_operator.subreconcilers.add_session_manager import AddSessionManager
from flamectl_operator.subreconcilers.outcomes import RECHECK_TAKEN_NAME
from flamectl_operator.subreconcilers.refusals import RefusedError
from flamectl_operator.subreconcilers.stores import FLAME_CLUSTERS
from flamectl_operator.subreconcilers.update_config_map import UpdateConfigMap
from tests.unit.builders import OWNER, later, replicas
from tests.unit.subreconcilers.errors import REFUSALS, already_exists, broken, conflict, invalid, lost, quota
from tests.unit.subreconcilers.world import CM_NAME, SM_NAME, World, converged

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_mock import MockerFixture

    from flamectl_operator.runtime.outcome import Outcome

SOMEBODY = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web-uid", "controller": True}
EARLIER = {
    "apiVersion": "flame.xflops.io/v1alpha1", "kind": "FlameCluster", "name": "my-flame", "uid": "earlier", "controller": True,
}  # fmt: skip

OTHER = EARLIER | {"name": "other", "uid": "other-uid"}


async def _step(world: World) -> Outcome:
    context = await world.opened()
    await UpdateConfigMap().reconcile(context)
    return await AddSessionManager().reconcile(context)


def _uid(world: World) -> str:
    assert world.session_manager is not None
    return str(world.session_manager["metadata"]["uid"])


async def test_it_is_made_when_it_is_missing() -> None:
    world = World()

    assert await _step(world) is DONE
    assert world.session_manager is not None
    assert "SessionManagerCreated" in world.events.reasons


async def test_it_is_left_alone_when_it_is_there() -> None:
    world = await converged()

    assert await _step(world) is DONE
    assert world.writes == []


async def test_none_is_made_without_a_config_map() -> None:
    world = World()
    world.squat("configmaps", CM_NAME)

    outcome = await _step(world)

    assert outcome.reason == "ConfigMapNotReady"
    assert world.session_manager is None


async def test_one_that_is_over_goes_and_the_next_pass_makes_another() -> None:
    world = await converged()
    before = _uid(world)
    world.set_pod(SM_NAME, "failed")

    assert (await _step(world)).reason == "Terminating"
    assert world.another_pass_follows

    world.settle()
    await world.run_pass()
    assert _uid(world) != before


async def test_there_are_never_two_while_the_old_one_is_on_its_way_out() -> None:
    world = await converged()
    world.set_pod(SM_NAME, "failed")
    before = _uid(world)

    for _ in range(3):
        await world.run_pass()

    assert _uid(world) == before
    assert [write for write in world.writes if write[:2] == ("create", "pods")] == []


async def test_one_that_is_stuck_is_deleted_by_force_and_replaced() -> None:
    world = await converged()
    # By a clock that is far behind.
    metadata = {"deletionTimestamp": "2025-06-01T11:00:00Z", "deletionGracePeriodSeconds": 10}
    world.change("pods", SM_NAME, {"metadata": metadata})
    before = _uid(world)

    outcome = await _step(world)
    assert (outcome.reason, outcome.delay) == ("Terminating", 70)
    assert _uid(world) == before

    world.clock.elapsed = 70
    await world.run_pass()
    await world.run_pass()
    assert _uid(world) != before
    assert "SessionManagerDeleted" in world.events.reasons


async def test_one_that_a_finalizer_holds_is_forced_once_and_then_waited_for() -> None:
    world = await converged()
    metadata = {"deletionTimestamp": "2025-06-01T11:00:00Z", "deletionGracePeriodSeconds": 10, "finalizers": ["a/b"]}
    world.change("pods", SM_NAME, {"metadata": metadata})

    for _ in range(2):
        await world.run_pass()
    assert ("delete", "pods", SM_NAME) not in world.writes
    world.clock.elapsed += 70
    for _ in range(4):
        await world.run_pass()

    assert world.writes.count(("delete", "pods", SM_NAME)) == 1
    assert "held by finalizer a/b" in (world.status.message or "")


@pytest.mark.parametrize("labels", [{"flame.xflops.io/cluster": "my-flame"}, {}], ids=["visible", "invisible"])
@pytest.mark.parametrize(
    ("references", "reason"),
    [
        pytest.param([], "NameConflict", id="nobody's"),
        pytest.param([SOMEBODY], "NameConflict", id="somebody's"),
        pytest.param([OTHER], "NameConflict", id="another FlameCluster's"),
        pytest.param([EARLIER], "NameNotFree", id="an earlier FlameCluster's"),
    ],
)
async def test_a_foreign_one_is_named_and_not_touched(
    labels: dict[str, str], references: list[dict[str, Any]], reason: str
) -> None:
    world = World()
    world.squat("pods", SM_NAME, labels=labels, ownerReferences=references)
    before = world.session_manager

    outcome = await _step(world)

    assert outcome.reason == reason
    assert SM_NAME in outcome.message
    assert world.session_manager == before


async def test_executors_are_made_though_the_session_managers_name_is_taken() -> None:
    world = World(replicas(2))
    world.squat("pods", SM_NAME)

    await world.run_pass()

    assert world.executor_ids == [0, 1]
    assert world.condition("Degraded")[:2] == ("True", "NameConflict")


async def test_a_name_that_was_taken_is_used_when_it_comes_free() -> None:
    world = World(replicas(0))
    world.squat("pods", SM_NAME)
    result = await world.run_pass()
    assert result.delay == 15

    world.api.remove("pods", SM_NAME)
    await world.converge()

    assert world.status.message == "All components healthy"


async def test_ours_without_its_label_gets_it_back_and_is_kept() -> None:
    world = await converged()
    before = _uid(world)
    world.unlabel("pods", SM_NAME)

    await world.converge()

    assert _uid(world) == before
    assert world.session_manager is not None
    assert world.session_manager["metadata"]["labels"]["flame.xflops.io/cluster"] == "my-flame"


@pytest.mark.parametrize("found", ["ours", "nobody's", "none"])
async def test_while_the_next_one_waits_ours_without_its_label_is_found(found: str) -> None:
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


async def test_ours_without_its_label_is_looked_at_again_for_it_may_have_failed_out_of_sight() -> None:
    world = await converged()
    before = _uid(world)
    world.set_pod(SM_NAME, "failed")
    world.unlabel("pods", SM_NAME)

    await world.run_pass()
    assert _uid(world) == before
    assert world.another_pass_follows

    await world.run_pass(stale=True)
    assert ("delete", "pods", SM_NAME) in world.writes


@pytest.mark.parametrize("suspend", [False, True], ids=["wanted", "suspended"])
async def test_a_label_that_somebody_keeps_taking_off_is_not_fought_over_without_a_pause(
    mocker: MockerFixture, *, suspend: bool
) -> None:
    world = await converged()
    world.unlabel("pods", SM_NAME)
    world.edit({"suspend": suspend})
    patch = world.api.merge_patch

    async def patched_by_a_webhook_too(resource: Any, *arguments: Any) -> Any:
        await patch(resource, *arguments)
        world.unlabel("pods", SM_NAME)
        return await world.api.get(resource, OWNER.namespace, SM_NAME)

    mocker.patch.object(world.api, "merge_patch", patched_by_a_webhook_too)

    assert (await _step(world)).delay == RECHECK_TAKEN_NAME
    assert not world.another_pass_follows


@pytest.mark.parametrize(("error", "_reason"), REFUSALS)
async def test_ours_without_its_label_gets_it_back_though_creating_is_refused(
    error: Callable[[], KubernetesError], _reason: str
) -> None:
    """Admission speaks first: with a quota that is used up nobody says that the name is taken."""
    world = await converged()
    before = _uid(world)
    world.unlabel("pods", SM_NAME)
    world.api.fail("create", "pods", error())

    await world.converge()

    assert _uid(world) == before
    assert world.status.message == "All components healthy"


async def test_ours_without_its_label_is_not_taken_for_what_a_lost_creation_made() -> None:
    """The watch says nothing of it: whoever believes that it was made now waits for ever for it to be shown."""
    world = await converged()
    before = _uid(world)
    world.unlabel("pods", SM_NAME)
    world.api.fail("create", "pods", lost())

    await world.run_pass()

    assert _uid(world) == before
    assert world.session_manager is not None
    assert world.session_manager["metadata"]["labels"]["flame.xflops.io/cluster"] == "my-flame"


async def test_ours_without_its_label_goes_as_well_when_the_cluster_is_suspended() -> None:
    world = await converged()
    world.unlabel("pods", SM_NAME)
    world.edit({"suspend": True})

    await world.converge()

    assert world.session_manager is None
    assert world.status.message == "Suspended: no Pods are wanted"


async def test_a_suspended_cluster_leaves_a_foreign_pod_under_the_name_alone() -> None:
    world = await converged()
    world.edit({"suspend": True})
    await world.converge()
    world.squat("pods", SM_NAME)
    before = world.session_manager

    assert await _step(world) is DONE
    assert world.session_manager == before


async def test_a_label_that_services_select_by_comes_back() -> None:
    world = await converged()
    before = _uid(world)
    world.change("pods", SM_NAME, {"metadata": {"labels": {"app": "web"}}})

    assert await _step(world) is DONE
    assert world.session_manager is not None
    assert world.session_manager["metadata"]["labels"]["app"] == "flame-session-manager"
    assert _uid(world) == before
    assert "SessionManagerRepaired" in world.events.reasons


@pytest.mark.parametrize(("error", "reason"), REFUSALS)
async def test_a_refusal_is_passed_on_in_the_servers_words(error: Callable[[], KubernetesError], reason: str) -> None:
    world = World()
    world.api.fail("create", "pods", error())

    with pytest.raises(RefusedError) as raised:
        await _step(world)

    assert (raised.value.reason, str(raised.value)) == (reason, str(error()))


async def test_a_refused_deletion_is_degraded() -> None:
    world = await converged()
    world.set_pod(SM_NAME, "failed")
    world.api.fail("delete", "pods", REFUSALS[1][0]())

    await world.run_pass()

    assert world.condition("Degraded")[:2] == ("True", "Forbidden")


async def test_one_whose_creation_was_answered_by_silence_is_found() -> None:
    world = World(replicas(0))
    world.api.fail("create", "pods", lost(), applied=True)

    await world.run_pass()
    await world.run_pass(stale=True)

    assert world.writes.count(("create", "pods", SM_NAME)) == 1


@pytest.mark.parametrize("error", [lost, quota, already_exists], ids=["lost", "refused", "taken"])
async def test_one_that_came_and_went_during_a_creation_is_not_there(error: Callable[[], KubernetesError]) -> None:
    """Another operator gave it its label back, which the watch told, and deleted it, which the watch did not tell yet."""
    world = await converged(replicas(0))
    found = world.session_manager
    assert found is not None
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


async def test_one_whose_creation_was_lost_is_made_later() -> None:
    world = World(replicas(0))
    world.api.fail("create", "pods", lost())

    result = await world.run_pass()
    assert len(result.errors) == 1

    await world.run_pass()
    assert world.session_manager is not None


async def test_a_conflict_in_a_repair_is_no_error() -> None:
    world = await converged()
    world.change("pods", SM_NAME, {"metadata": {"labels": {"app": "web"}}})
    world.api.fail("patch", "pods", conflict())

    assert (await _step(world)).reason == "Changed"


async def test_a_pod_of_the_same_name_that_came_in_between_is_not_deleted() -> None:
    world = await converged()
    world.set_pod(SM_NAME, "failed")

    def replace() -> None:
        world.api.remove("pods", SM_NAME)
        world.squat("pods", SM_NAME)

    world.api.interference["delete", "pods"] = replace
    await world.run_pass()

    assert world.session_manager is not None
    assert "deletionTimestamp" not in world.session_manager["metadata"]
    assert "SessionManagerDeleted" not in world.events.reasons


async def test_one_that_appears_and_is_gone_again_is_looked_for_soon() -> None:
    world = World()
    world.api.fail("create", "pods", already_exists(), name=SM_NAME)

    outcome = await _step(world)

    assert (outcome.reason, outcome.delay) == ("Changed", 0.25)


async def test_one_that_another_process_made_meanwhile_is_taken_for_ours() -> None:
    world = World(replicas(0))
    context = world.context()
    assert context.desired is not None
    same = context.desired.session_manager.pod(SM_NAME) | {"status": {}}

    def make_it() -> None:
        world.api.put("pods", same)

    world.api.interference["create", "pods"] = make_it

    outcome = await _step(world)
    assert (outcome.reason, outcome.delay) == ("Changed", 0.25)

    await world.converge()
    assert world.status.message == "All components healthy"


async def test_a_stale_one_that_another_process_replaced_is_not_deleted_again() -> None:
    world = await converged(replicas(0))
    world.edit({"sessionManager": {"image": "new"}})
    world.sync()
    world.api.remove("pods", SM_NAME)
    world.squat("pods", SM_NAME)

    await world.run_pass(stale=True)
    assert world.another_pass_follows  # what taking the lock brought to light changes everything
    await world.run_pass(stale=True)
    assert not world.another_pass_follows

    assert world.session_manager is not None
    assert "deletionTimestamp" not in world.session_manager["metadata"]


async def test_other_errors_are_raised() -> None:
    world = World()
    world.api.fail("create", "pods", broken())

    with pytest.raises(KubernetesError):
        await _step(world)


async def test_a_failure_that_comes_to_light_during_a_pass_is_counted_before_it_is_repaired() -> None:
    world = await converged()
    before = _uid(world)

    def fail() -> None:
        world.set_pod(SM_NAME, "failed")
        world.sync(PODS)

    world.edit({"objectCache": {"storage": "/data/x"}})
    world.api.interference["patch", "configmaps"] = fail
    result = await world.run_pass()
    assert (_uid(world), world.deleted, result.delay) == (before, [], 0)

    await world.run_pass()
    assert (world.status.session_manager.failures, world.deleted) == (1, [SM_NAME])


async def test_none_is_made_once_the_user_is_known_to_want_none() -> None:
    world = World()

    def change_its_mind() -> None:
        world.edit({"suspend": True})
        world.sync(FLAME_CLUSTERS)

    world.api.interference["create", "configmaps"] = change_its_mind
    result = await world.run_pass()

    assert (world.session_manager, result.delay) == (None, 0)


async def test_replacements_that_keep_failing_are_put_off() -> None:
    world = World(replicas(0))
    waits = []
    for _ in range(4):
        await world.run_pass()
        world.set_pod(SM_NAME, "failed")
        await world.run_pass()
        world.settle()
        world.restart()
        result = await world.run_pass()
        waits.append(0 if world.session_manager is not None else result.delay)
        world.clock.elapsed += waits[-1] or 0
        await world.run_pass()

    assert waits == [0, 10, 20, 40]
    assert world.status.session_manager.failures == 4


@pytest.mark.parametrize("suspend", [False, True], ids=["wanted", "suspended"])
async def test_one_that_the_watch_does_not_show_yet_counts_from_when_it_was_found(*, suspend: bool) -> None:
    """Otherwise the next pass would say that none is left, or try to make another, until the watch catches up."""
    world = World(replicas(0) | ({"suspend": True} if suspend else {}))
    context = await world.opened()
    await UpdateConfigMap().reconcile(context)
    assert context.desired is not None
    world.api.put("pods", context.desired.session_manager.pod(SM_NAME) | {"status": {}})

    await AddSessionManager().reconcile(context)

    assert context.observe().session_manager is not None


async def test_one_that_is_made_without_its_label_is_brought_into_sight() -> None:
    world = World()
    world.api.webhook = _without("pods", "flame.xflops.io/cluster")

    outcome = await _step(world)
    assert (outcome.reason, outcome.delay, outcome.attention) == ("ChangesUndone", RECHECK_TAKEN_NAME, True)

    world.api.webhook = _without("none", "")
    await world.run_pass()
    assert world.session_manager is not None
    assert world.session_manager["metadata"]["labels"]["flame.xflops.io/cluster"] == "my-flame"


async def test_a_repair_that_is_undone_is_not_told_again_and_again() -> None:
    world = await converged()
    world.api.webhook = _without("pods", "app")
    world.change("pods", SM_NAME, {"metadata": {"labels": {"app": "web"}}})

    for _ in range(3):
        result = await world.run_pass()
        assert result.delay == RECHECK_TAKEN_NAME

    assert "SessionManagerRepaired" not in world.events.reasons
    assert world.condition("Degraded")[:2] == ("True", "ChangesUndone")


@pytest.mark.parametrize("error", [broken, lost])
async def test_one_that_could_not_be_deleted_by_force_is_tried_again(error: Callable[[], KubernetesError]) -> None:
    world = await converged()
    metadata = {"deletionTimestamp": "2025-06-01T11:00:00Z", "deletionGracePeriodSeconds": 10}
    world.change("pods", SM_NAME, {"metadata": metadata})
    before = _uid(world)
    await _step(world)
    world.clock.elapsed = 70
    world.api.fail("delete", "pods", error())

    assert len((await world.run_pass()).errors) == 1
    assert "SessionManagerDeleted" not in world.events.reasons

    await world.run_pass()
    await world.run_pass()
    assert _uid(world) != before


def _without(plural: str, label: str) -> Callable[[str, dict[str, Any]], None]:
    """A webhook that takes a label off."""

    def change(of: str, manifest: dict[str, Any]) -> None:
        if of == plural:
            manifest["metadata"]["labels"].pop(label, None)

    return change


async def test_one_whose_successor_would_be_refused_keeps_being_found() -> None:
    world = await converged()
    world.edit({"sessionManager": {"image": "new"}})
    world.api.fail("rehearse", "pods", invalid(), times=10)
    world.change("pods", SM_NAME, {"metadata": {"labels": {"app": "web"}}})

    await world.run_pass()

    assert world.deleted == []
    assert world.session_manager is not None
    assert world.session_manager["metadata"]["labels"]["app"] == "flame-session-manager"
