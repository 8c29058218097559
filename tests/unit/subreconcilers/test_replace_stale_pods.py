"""ReplaceStalePods."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from pytest_mock import MockerFixture

from flamectl_operator.api.constants import (
    SESSION_MANAGER,
    SESSION_MANAGER_ANNOTATION,
    SESSION_STORE_ANNOTATION,
)
from flamectl_operator.kube.errors import ForbiddenError
from flamectl_operator.kube.resources import CLAIMS, PODS
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.reconcile.refusals.quota import never_admits
from flamectl_operator.subreconcilers.replace_stale_pods import ReplaceStalePods
from tests.unit.builders import (
    NOW,
    PodState,
    cached,
    container_id,
    desired,
    executor_template,
    merged,
    replicas,
    rolling,
    session_template,
    stored,
)
from tests.unit.builders import text as rfc3339
from tests.unit.subreconcilers.errors import (
    REFUSALS,
    Failure,
    bad_request,
    broken,
    forbidden,
    lost,
    no_dry_run,
    overloaded,
    quota,
    refusal_of,
)
from tests.unit.subreconcilers.harness import (
    KEY,
    SM_NAME,
    StepHarness,
    cache_name,
    converged,
    edited,
    executor_name,
    take_long,
)

NEW_EXECUTORS = {"executorManager": {"image": "new"}}
NEW_SESSION_MANAGER = {"sessionManager": {"image": "new"}}
CHANGED_IMAGE = "somebody changed the image of a container in the Pod"


def _incarnation(world: StepHarness, executor_id: int) -> str:
    found = world.pod(executor_name(executor_id))
    return str(found["metadata"]["annotations"][SESSION_MANAGER_ANNOTATION])


# --- Images that somebody changes --------------------------------------------------------------------------------------


def _set_image(world: StepHarness, name: str, image: str = "other:2") -> None:
    """`kubectl set image pod/NAME CONTAINER=other:2`. The API server counts the change."""
    [container, *others] = world.pod(name)["spec"]["containers"]
    spec = {"containers": [{**container, "image": image}, *others]}
    owned: dict[str, Any] = {"f:spec": {"f:containers": {f'k:{{"name":"{container["name"]}"}}': {"f:image": {}}}}}
    owners = [{"manager": "kubectl-set", "time": rfc3339(NOW + timedelta(seconds=10)), "fieldsV1": owned}]
    world.change("pods", name, {"metadata": {"generation": 2, "managedFields": owners}, "spec": spec})


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (SM_NAME, "SessionManagerDeleted"),
        (cache_name(1), "ObjectCacheDeleted"),
        (executor_name(0), "ExecutorsReplaced"),
    ],
    ids=["session manager", "object cache", "executor"],
)
async def test_pod_whose_image_somebody_changed_is_replaced_as_a_stale_one(name: str, reason: str) -> None:
    world = await converged(merged(replicas(2), cached(2)))
    _set_image(world, name)

    await world.run_pass()
    await world.converge()

    assert {name} <= set(world.deleted)
    said = [message for _, each, message in world.events.told if each == reason]
    assert said[0].endswith(f'"{name}"{" for replacement" * (name == executor_name(0))}: {CHANGED_IMAGE}')
    assert all(image != "other:2" for pod in world.api.all("pods") for image in _images(pod))
    assert world.status.reason == "Healthy"


def _images(pod: dict[str, Any]) -> list[str]:
    return [each["image"] for each in pod["spec"]["containers"]]


async def test_executors_whose_image_somebody_changed_are_replaced_within_the_budget() -> None:
    world = await converged(replicas(4))
    for number in range(4):
        _set_image(world, executor_name(number))

    await world.run_pass()

    assert len(world.leaving_ids) == 1
    assert "rolling update: 0 of 4 executors are on the current revision" in str(world.status.message)
    assert world.status.executor_manager.outdated == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (SM_NAME, f'the session manager runs another image than the spec names (OnDelete): delete Pod "{SM_NAME}"'),
        (executor_name(0), "1 stale executor runs another image than the spec names (OnDelete): delete their Pods"),
    ],
    ids=["session manager", "executor"],
)
async def test_pod_whose_image_somebody_changed_waits_with_on_delete(name: str, said: str) -> None:
    strategy = {"sessionManager": {"updateStrategy": {"type": "OnDelete"}}}
    world = await converged(merged(replicas(2, type="OnDelete"), strategy))
    _set_image(world, name)

    await world.run_passes(2)

    assert world.deleted == []
    assert said in str(world.status.message)


# --- The session manager -----------------------------------------------------------------------------------------------


async def test_executors_with_the_annotation_of_an_earlier_version_stay() -> None:
    world = await converged(replicas(2))
    world.set_pod(SM_NAME, "ready", restarts=3)
    for number in (0, 1):
        found = world.pod(executor_name(number))
        found["metadata"]["annotations"][SESSION_MANAGER_ANNOTATION] = f"{world.uid(SM_NAME)}.3"
        world.api.put("pods", found)
    world.sync()

    await world.run_pass()

    assert world.leaving_ids == []


async def test_first_container_of_the_session_manager_is_recorded_once_and_costs_no_request() -> None:
    world = await converged(replicas(1))
    recorded = world.status.session_manager.first_container
    world.set_pod(SM_NAME, "ready", restarts=1)

    await world.converge()

    assert recorded == f"{world.uid(SM_NAME)}.{container_id(SESSION_MANAGER)}"
    assert world.status.session_manager.first_container == recorded
    assert not [write for write in world.writes if write[0] == "patch" and SM_NAME in write]


@pytest.mark.parametrize("text", [None, "", "nonsense"])
async def test_record_of_the_first_container_that_somebody_edits_costs_no_executor(text: str | None) -> None:
    world = await converged(replicas(2))
    recorded = world.status.session_manager.first_container
    world.change("flameclusters", KEY[1], {"status": {"sessionManager": {"firstContainer": text}}})
    world.clock.elapsed += 10

    await world.converge()

    assert world.deleted == []
    assert world.status.session_manager.first_container == recorded


async def test_session_manager_that_starts_anew_in_the_pass_that_records_its_first_container_is_another() -> None:
    world = StepHarness(replicas(1))
    await world.run_pass()
    world.let_pods_become_ready()
    first = executor_name(0)

    def start_anew() -> None:
        """The kubelet, which lost the container, counts from zero; the watch shows that at once."""
        pod = world.pod(SM_NAME)
        found = pod["status"]["containerStatuses"]
        again = [each | {"containerID": f"{each['containerID']}-again"} for each in found]
        world.api.put("pods", pod | {"status": pod["status"] | {"containerStatuses": again}})
        world.sync()

    world.edit(replicas(2))
    world.api.interference["create", "pods"] = start_anew
    recorded = f"{world.uid(SM_NAME)}.{container_id(SESSION_MANAGER)}"
    await world.run_pass()

    assert world.status.session_manager.first_container == recorded
    world.clock.elapsed += 10
    await world.converge()
    assert first in world.deleted
    assert world.status.session_manager.first_container == recorded


async def test_next_session_manager_has_a_first_container_of_its_own() -> None:
    world = await converged(replicas(1))
    before = world.uid(SM_NAME)
    world.api.remove("pods", SM_NAME)

    await world.converge()

    assert world.uid(SM_NAME) != before
    assert world.status.session_manager.first_container == f"{world.uid(SM_NAME)}.{container_id(SESSION_MANAGER)}"


@pytest.mark.parametrize("text", ["", "nonsense"])
async def test_storage_in_an_annotation_of_a_session_manager_without_a_claim_costs_no_executor(text: str) -> None:
    world = await converged(replicas(2))
    world.change("pods", SM_NAME, {"metadata": {"annotations": {SESSION_STORE_ANNOTATION: text}}})

    await world.converge()

    assert world.deleted == []
    assert world.writes == []


_OWN_CLAIM, _EXISTING_CLAIM = stored(size="1Gi"), stored(existingClaim="mine")


async def _with_storage(claim: dict[str, Any]) -> tuple[StepHarness, str]:
    """Return a world that has converged with a claim for sessions, and the storage that its session manager names."""
    world = StepHarness(replicas(2) | claim)
    mine = {"name": "mine", "namespace": "default", "uid": "first", "creationTimestamp": rfc3339(NOW)}
    world.api.put(CLAIMS.plural, {"metadata": mine})
    await world.converge()
    world.writes.clear()
    return world, str(world.pod(SM_NAME)["metadata"]["annotations"][SESSION_STORE_ANNOTATION])


def _name_storage(world: StepHarness, text: str | None) -> None:
    """Somebody edits the storage that the session manager names, or takes it off."""
    found = world.pod(SM_NAME)
    annotations = {**found["metadata"]["annotations"], SESSION_STORE_ANNOTATION: text}
    annotations = {key: value for key, value in annotations.items() if value is not None}
    world.api.put("pods", found | {"metadata": found["metadata"] | {"annotations": annotations}})


@pytest.mark.parametrize("claim", [_OWN_CLAIM, _EXISTING_CLAIM], ids=["own claim", "existing claim"])
@pytest.mark.parametrize("text", ["", "nonsense", "none.such", "0123456789abcdef.first", None])
async def test_storage_of_the_session_manager_that_somebody_edits_comes_back_and_costs_no_executor(
    claim: dict[str, Any], text: str | None
) -> None:
    world, store = await _with_storage(claim)
    _name_storage(world, text)

    await world.converge()

    assert world.deleted == []
    assert world.pod(SM_NAME)["metadata"]["annotations"][SESSION_STORE_ANNOTATION] == store
    assert len(world.writes) == 1, "a repair, once"


async def test_nothing_is_replaced_while_the_storage_that_somebody_edited_cannot_be_repaired() -> None:
    world, store = await _with_storage(_OWN_CLAIM)
    _name_storage(world, "nonsense")
    world.api.fail("patch", "pods", broken(), times=3)

    world.edit(replicas(3))
    await world.run_passes(3)
    assert world.leaving_ids == []
    await world.converge()

    assert world.executor_ids == [0, 1, 2]
    assert {_incarnation(world, each) for each in world.executor_ids} == {store}


def _make_claim_anew(world: StepHarness) -> None:
    """The claim vanishes and is made again, a day after the session manager was created."""
    claim = world.api.present(CLAIMS.plural, SM_NAME)
    anew = claim["metadata"] | {"uid": "another", "creationTimestamp": rfc3339(NOW + timedelta(days=1))}
    world.api.put(CLAIMS.plural, claim | {"metadata": anew})


async def test_session_manager_that_waited_for_its_claim_is_another_one_for_executors() -> None:
    world, store = await _with_storage(_OWN_CLAIM)
    _make_claim_anew(world)
    found = world.pod(SM_NAME)
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(NOW + timedelta(days=2))}
    others = [each for each in found["status"].get("conditions", []) if each["type"] != "PodScheduled"]
    world.api.put("pods", found | {"status": found["status"] | {"conditions": [*others, placed]}})

    await world.converge()

    recorded = world.pod(SM_NAME)["metadata"]["annotations"][SESSION_STORE_ANNOTATION]
    assert recorded == f"{store.partition('.')[0]}.another"
    assert {_incarnation(world, each) for each in world.executor_ids} == {recorded}
    assert world.pod(SM_NAME)["metadata"]["uid"] == found["metadata"]["uid"]


async def test_claim_that_was_made_anew_beside_the_session_manager_is_another_storage() -> None:
    world, store = await _with_storage(_OWN_CLAIM)
    _make_claim_anew(world)

    await world.converge()

    assert world.pod(SM_NAME)["metadata"]["annotations"][SESSION_STORE_ANNOTATION] == store
    assert world.deleted == []


async def test_slow_rebinding_continues_in_the_next_pass() -> None:
    world = await converged(replicas(1), {"controller": {"maxWritesInFlight": 1}})
    world.edit(replicas(3))
    await world.run_pass()
    for number in (1, 2):
        world.set_executor(number, "waiting")
    world.set_pod(SM_NAME, "ready", restarts=1)

    world.api.interference["patch", "pods"] = partial(take_long, world)
    result = await world.run_pass()
    assert ("NextBatch", 0) in [(each.reason, each.delay) for each in result.outcomes]
    assert sorted(_incarnation(world, number)[-2:] for number in (1, 2)) == [".0", ".1"]

    await world.run_pass()
    assert sorted(_incarnation(world, number)[-2:] for number in (1, 2)) == [".1", ".1"]


async def test_executor_that_started_meanwhile_is_not_rebound() -> None:
    """The store shows the executor in its init container, but its main container started under the old session manager."""
    world = await edited(replicas(1), replicas(2))
    await world.run_pass()
    world.set_executor(1, "waiting")
    world.set_pod(SM_NAME, "ready", restarts=1)
    world.sync()
    world.set_executor(1, "ready")

    await world.run_pass(stale=True)
    await world.converge()

    assert 1 not in world.executor_ids


async def test_another_pod_of_the_same_name_is_not_rebound() -> None:
    world = await edited(replicas(1), replicas(2))
    await world.run_pass()
    world.set_executor(1, "waiting")
    world.set_pod(SM_NAME, "ready", restarts=1)

    def replace() -> None:
        world.api.remove("pods", executor_name(1))
        world.squat("pods", executor_name(1))

    world.api.interference["patch", "pods"] = replace
    result = await world.run_pass()

    found = world.pod(executor_name(1))
    assert "annotations" not in found["metadata"]
    assert result.errors == ()


async def test_failed_rebinding_does_not_prevent_replacement_of_stale_executors() -> None:
    world = await edited(replicas(2), replicas(3))
    await world.run_pass()
    world.set_executor(2, "waiting")
    world.set_pod(SM_NAME, "ready", restarts=1)
    world.api.fail("patch", "pods", forbidden(), name=executor_name(2), times=100)

    result = await world.run_pass()

    assert world.leaving_ids == [0, 1]
    assert len(result.errors) == 1


async def test_deletion_that_came_too_late_is_not_repeated_at_once() -> None:
    """Another Pod has the name, and the watch is late; repeating the request at once would be a busy loop."""
    world = await edited(replicas(1, type="Recreate"), NEW_EXECUTORS)
    world.sync()
    world.api.remove("pods", executor_name(0))
    world.squat("pods", executor_name(0))

    await world.run_pass(stale=True)
    result = await world.run_pass(stale=True)

    assert result.delay is None or result.delay > 0


async def test_change_found_by_a_deletion_is_known_to_the_next_pass_without_a_watch_event() -> None:
    # An operator that takes the lock reads the Pods before the first deletion, and would know.
    world = await edited({"lockOptions": {"disabled": True}} | replicas(1, type="Recreate"), NEW_EXECUTORS)
    world.sync()
    world.api.remove("pods", executor_name(0))
    world.squat("pods", executor_name(0))

    await world.run_pass(stale=True)
    assert world.another_pass_follows
    await world.run_pass(stale=True)

    assert world.executor_ids == [0, 1]


# --- Rehearsals --------------------------------------------------------------------------------------------------------

REFUSING = [(error, reason) for error, reason in REFUSALS if reason != "QuotaExceeded"]


@pytest.mark.parametrize(("error", "reason"), REFUSING)
async def test_session_manager_stays_when_its_replacement_would_be_refused(error: Failure, reason: str) -> None:
    world = await converged(replicas(1))
    before = world.uid(SM_NAME)
    world.edit(NEW_SESSION_MANAGER)
    world.api.fail("dry run", "pods", error(), times=3)

    for _ in range(3):
        result = await world.run_pass()
        assert len(result.errors) == 1

    assert "deletionTimestamp" not in world.pod(SM_NAME)["metadata"]
    assert world.condition("Degraded") == ("True", reason, refusal_of(error(), desired().session_manager))
    assert world.status.state == "Running"

    await world.converge()
    assert world.uid(SM_NAME) != before


async def test_session_manager_stays_when_replacements_of_executors_would_be_refused(mocker: MockerFixture) -> None:
    """Executors are replaced with the session manager, and one edit may change both."""
    world = await converged(replicas(1))
    world.edit(merged(NEW_SESSION_MANAGER, executor_template({"nodeSelectors": {"gpu": "yes"}})))
    dry_run = world.api.dry_run_create

    async def refuse(resource: Any, namespace: str, body: Any) -> Any:
        if "nodeSelectors" in body["spec"]:
            raise bad_request()
        return await dry_run(resource, namespace, body)

    mocker.patch.object(world.api, "dry_run_create", refuse)
    await world.converge()

    assert world.deleted == []
    assert world.status.state == "Running"
    assert world.condition("Degraded")[:2] == ("True", "Rejected")


@pytest.mark.parametrize(("error", "reason"), REFUSING)
async def test_executors_stay_when_their_replacements_would_be_refused(error: Failure, reason: str) -> None:
    world = await edited(replicas(2, type="Recreate"), NEW_EXECUTORS)
    world.api.fail("dry run", "pods", error(), times=3)

    await world.run_passes(3)

    assert (world.executor_ids, world.leaving_ids) == ([0, 1], [])
    assert world.condition("Degraded")[:2] == ("True", reason)

    await world.converge()
    assert world.executor_ids == [2, 3]


async def test_exhausted_quota_does_not_stop_a_rollout() -> None:
    """The deleted Pod makes room for its replacement."""
    world = await edited(replicas(2, type="Recreate"), NEW_EXECUTORS)
    world.api.fail("dry run", "pods", quota(), times=10)

    await world.run_pass()

    assert world.leaving_ids == [0, 1]


async def test_pod_stays_whose_replacement_asks_for_more_than_its_quota_ever_has() -> None:
    world = await converged(rolling(2, 1, 0))
    words = "exceeded quota: q, requested: limits.memory=9Gi,pods=1, used: limits.memory=4Gi,pods=3"
    refused = ForbiddenError(403, "Forbidden", f'pods "x" is forbidden: {words}, limited: limits.memory=8Gi,pods=3')
    world.api.fail("dry run", "pods", refused, times=10)
    world.edit({"sessionManager": {"resources": {"limits": {"memory": "9Gi"}}}})

    await world.run_pass()

    assert world.deleted == []
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "QuotaExceeded")
    assert "lower spec.sessionManager.resources.limits.memory, or raise the quota" in message


@pytest.mark.parametrize(
    ("amounts", "stays"),
    [
        pytest.param(
            "requested: requests.cpu=3, used: requests.cpu=3500m, limited: requests.cpu=4", True, id="more than is left"
        ),
        pytest.param("requested: limits.cpu=3, used: limits.cpu=3500m, limited: limits.cpu=4", True, id="limits"),
        pytest.param("requested: cpu=3, used: cpu=2, limited: cpu=4", False, id="the Pod that goes leaves enough"),
        pytest.param(
            "requested: cpu=3,pods=1, used: cpu=1,pods=3, limited: cpu=4,pods=3", False, id="its place as well"
        ),
        pytest.param("requested: memory=3Gi, used: memory=4Gi, limited: memory=4Gi", True, id="it asks for no memory"),
    ],
)
@pytest.mark.parametrize("state", ["ready", "starting"])
async def test_session_manager_that_serves_stays_if_the_quota_has_no_room_for_its_replacement(
    amounts: str, state: PodState, *, stays: bool
) -> None:
    one = {"limits": {"cpu": "1"}}
    world = await converged(merged(replicas(2), {"sessionManager": {"resources": one}}))
    world.edit({"sessionManager": {"resources": {"limits": {"cpu": "3"}}}})
    words = f'pods "x" is forbidden: exceeded quota: q, {amounts}'
    world.api.fail("dry run", "pods", ForbiddenError(403, "Forbidden", words), times=10)
    world.set_pod(SM_NAME, state)

    await world.run_pass()

    stays = stays and state == "ready"
    assert (world.deleted == []) is stays
    assert (world.condition("Degraded")[1] == "QuotaExceeded") is stays


async def test_session_manager_whose_use_of_a_quota_is_not_known_is_replaced() -> None:
    """An init container may ask for more than the others together, and no view shows how much."""
    world = await converged(
        merged(replicas(2), session_template({"initContainers": [{"name": "prepare", "image": "example.com/a:1"}]}))
    )
    world.edit({"sessionManager": {"resources": {"limits": {"cpu": "3"}}}})
    words = "exceeded quota: q, requested: cpu=3, used: cpu=3500m, limited: cpu=4"
    world.api.fail("dry run", "pods", ForbiddenError(403, "Forbidden", f'pods "x" is forbidden: {words}'), times=10)

    await world.run_pass()

    assert world.deleted == [SM_NAME]


@pytest.mark.parametrize(
    ("said", "never"),
    [
        ("requested: pods=1, used: pods=3, limited: pods=3", False),
        ("requested: cpu=2, used: cpu=9, limited: cpu=10", False),
        ("requested: cpu=2500m, used: cpu=0, limited: cpu=2", True),
        ("requested: cpu=1,limits.memory=9Gi, used: cpu=1,limits.memory=0, limited: cpu=2,limits.memory=8G", True),
        ("requested: pods=1, used: pods=3", False),
    ],
)
def test_quota_that_could_never_admit_a_pod_is_told_from_one_that_is_used_up(said: str, *, never: bool) -> None:
    assert never_admits(ForbiddenError(403, "Forbidden", f"exceeded quota: q, {said}")) is never


async def test_accepted_template_is_not_dry_run_again() -> None:
    world = await edited(rolling(3, 1, 0), NEW_EXECUTORS)
    await world.run_pass()
    world.api.fail("dry run", "pods", forbidden(), times=100)
    world.let_pods_become_ready()

    await world.converge()

    assert world.executor_ids == [3, 4, 5]


@pytest.mark.parametrize("error", [lost, broken, overloaded], ids=["no answer", "500", "429"])
async def test_failed_dry_run_is_repeated(error: Failure) -> None:
    world = await edited(replicas(1), NEW_SESSION_MANAGER)
    world.api.fail("dry run", "pods", error())

    result = await world.run_pass()
    assert len(result.errors) == 1
    assert "deletionTimestamp" not in world.pod(SM_NAME)["metadata"]

    await world.run_pass()
    assert "deletionTimestamp" in world.pod(SM_NAME)["metadata"]


@pytest.mark.parametrize("error", [lost, broken, overloaded], ids=["no answer", "500", "429"])
async def test_failed_dry_run_keeps_only_stale_pods(error: Failure) -> None:
    world = await edited(replicas(2), NEW_EXECUTORS)
    world.set_executor(1, "waiting")
    world.set_pod(SM_NAME, "ready", restarts=1)
    world.set_executor(0, "ready")
    world.api.fail("dry run", "pods", error(), times=10)

    result = await world.run_pass()

    assert world.leaving_ids == [0], "it started under the session manager's earlier incarnation"
    annotations = world.pod(executor_name(1))["metadata"]["annotations"]
    assert annotations["flame.xflops.io/rebound"] == world.clock.now().replace(microsecond=0).isoformat()
    assert any(str(each) == str(error()) for each in result.errors)


def _strip(what: str) -> Callable[[str, dict[str, Any]], None]:
    """A webhook that takes something off each Pod that is made."""

    def webhook(plural: str, manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        if plural == "pods" and what == "ownerReferences":
            metadata.pop(what, None)
        elif plural == "pods":
            metadata["annotations"].pop(what, None)
            metadata["labels"].pop(what, None)

    return webhook


_KNOWN_BY = ["flame.xflops.io/revision", "flame.xflops.io/session-manager", "ownerReferences", "app"]


@pytest.mark.parametrize("what", _KNOWN_BY)
@pytest.mark.parametrize("change", [NEW_SESSION_MANAGER, NEW_EXECUTORS], ids=["session manager", "executors"])
async def test_pod_stays_when_its_replacement_would_lose_identifying_metadata(
    what: str, change: dict[str, Any]
) -> None:
    world = await edited(replicas(3), change)
    world.api.webhook = _strip(what)

    await world.run_passes(4)

    assert world.deleted == []
    reason = "LabelsChanged" if what == "app" else "ChangesUndone"
    assert world.condition("Degraded")[:2] == ("True", reason)
    assert ("the owner reference" if what == "ownerReferences" else what) in world.condition("Degraded")[2]

    world.api.webhook = lambda _plural, _manifest: None
    await world.converge()
    assert world.condition("Degraded")[0] == "False"


@pytest.mark.parametrize("what", [each for each in _KNOWN_BY if each != "app"])
@pytest.mark.parametrize("has_dry_runs", [True, False], ids=["dry run", "no dry run"])
async def test_pods_that_lose_identifying_metadata_are_not_created_without_end(
    what: str, *, has_dry_runs: bool
) -> None:
    world = StepHarness(replicas(3))
    world.api.webhook = _strip(what)
    if not has_dry_runs:
        world.api.fail("dry run", "pods", no_dry_run(), times=100)

    await world.run_passes(6, seconds=1)

    made = [name for verb, plural, name in world.writes if (verb, plural) == ("create", "pods")]
    assert made.count(SM_NAME) == 1 or what == "ownerReferences", "one without its owner is somebody else's"
    assert len([name for name in made if name != SM_NAME]) == 1
    assert world.deleted == []
    assert world.condition("Degraded")[0] == "True"


@pytest.mark.parametrize(
    ("used", "stay"),
    [
        pytest.param("pods=1, limited: pods=1", True, id="a quota of a PriorityClass that executors do not have"),
        pytest.param("count/pods=2, limited: count/pods=2", True, id="at least one executor does not count"),
        pytest.param("pods=3, limited: pods=3", False, id="all executors may count"),
        pytest.param("requests.cpu=1, limited: requests.cpu=1", False, id="of another resource"),
    ],
)
async def test_executors_make_room_only_in_a_quota_that_may_count_them(used: str, *, stay: bool) -> None:
    world = await converged(replicas(3))
    world.api.remove("pods", SM_NAME)
    asked = used.partition("=")[0]
    words = f'pods "{SM_NAME}" is forbidden: exceeded quota: q, requested: {asked}=1, used: {used}'
    world.api.fail("create", "pods", ForbiddenError(403, "Forbidden", words), name=SM_NAME, times=100)

    await world.run_passes(5, seconds=60)

    assert (world.deleted == []) is stay
    assert world.condition("Degraded")[1] == "QuotaExceeded"


async def test_unschedulable_session_manager_gets_the_room_of_idle_executors() -> None:
    """Its node was lost, and executors of the earlier session manager fill the other nodes."""
    world = await converged(replicas(3))
    world.api.remove("pods", SM_NAME)
    await world.run_pass()
    world.set_pod(SM_NAME, "unschedulable")
    world.api.remove("pods", executor_name(0))

    await world.run_pass()
    assert world.leaving_ids == [1, 2]
    [told] = [message for _, reason, message in world.events.told if reason == "ExecutorsReplaced"]
    assert told.endswith("for replacement: the session manager needs their room")
    for number in (1, 2):
        world.api.remove("pods", executor_name(number))
    await world.run_pass()
    assert world.executor_ids == [], "none takes the room before the session manager has it"

    world.set_pod(SM_NAME, "starting")
    await world.converge()
    assert len(world.executor_ids) == 3


async def test_quota_refusal_of_executors_does_not_count_for_the_session_manager() -> None:
    world = await converged(replicas(3))
    world.api.remove("pods", SM_NAME)
    run = await world.recorded()
    world.api.fail("create", "pods", quota(), name=executor_name(9))
    with pytest.raises(RefusedError):
        await run.io.create(PODS, run.effective.desired.group.template.pod(executor_name(9)))

    await ReplaceStalePods().run(run)

    assert world.leaving_ids == []


async def test_quota_refusal_of_the_session_manager_counts_in_its_pass_and_the_next_one() -> None:
    world = await converged(replicas(3))
    world.api.remove("pods", SM_NAME)
    run = await world.recorded()
    world.api.fail("create", "pods", quota(), name=SM_NAME)
    with pytest.raises(RefusedError):
        await run.io.create(PODS, run.effective.desired.group.template.pod(SM_NAME))

    counts = []
    for _ in range(3):
        counts.append(run.observe().session_manager_refused_since is not None)
        await run.io.begin(run.io.reads.inputs)

    assert counts == [True, True, False]


async def test_executors_stay_beside_a_session_manager_that_a_quota_never_admits() -> None:
    world = await converged(replicas(2))
    world.api.remove("pods", SM_NAME)
    words = "exceeded quota: q, requested: limits.memory=9Gi, used: limits.memory=4Gi, limited: limits.memory=8Gi"
    never = ForbiddenError(403, "Forbidden", f'pods "x" is forbidden: {words}')
    world.api.fail("create", "pods", never, name=SM_NAME, times=10)

    await world.run_passes(5)

    assert world.executor_ids == [0, 1]
    assert world.status.reason == "QuotaExceeded"
