"""PersistentVolumeClaims that are being deleted or have lost their volume: their Pods stay, until a user confirms the loss."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from flamectl_operator.api.constants import CLUSTER_LABEL, CONFIRM_CLAIM_LOSS_ANNOTATION
from flamectl_operator.kube import resources
from flamectl_operator.reconcile.objects.claim_reads import CLAIMS_RECHECK_SECONDS
from tests.unit.builders import OWNER, cached, replicas, stored
from tests.unit.subreconcilers.errors import Failure, forbidden, lost
from tests.unit.subreconcilers.harness import KEY, SM_NAME, StepHarness, cache_name, converged, executor_name

CLAIMS = "persistentvolumeclaims"
DATA = "data"
NOW = "2030-01-01T00:00:00Z"

_VOLUMES = {
    "podTemplate": {
        "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": DATA}}], "containers": []}
    }
}
#: Each component with its claim: the fields of the spec, the claim, and the Pod that keeps it.
MOUNTS: dict[str, tuple[Mapping[str, Any], str, str]] = {
    "session manager": (stored(size="1Gi"), SM_NAME, SM_NAME),
    "existing claim": (stored(existingClaim=DATA), DATA, SM_NAME),
    "session manager's podTemplate": ({"sessionManager": _VOLUMES}, DATA, SM_NAME),
    "object cache": (cached(1, persistence={"size": "1Gi"}), cache_name(0), cache_name(0)),
    "existing claim of the object cache": (cached(1, persistence={"existingClaim": DATA}), DATA, cache_name(0)),
    "executor": ({"executorManager": {"replicas": 1, **_VOLUMES}}, DATA, executor_name(0)),
}
CHANGES: dict[str, Mapping[str, Any]] = {
    "rollout": {
        "sessionManager": {"env": [{"name": "A", "value": "b"}]},
        "objectCache": {"env": [{"name": "A", "value": "b"}]},
        "executorManager": {"env": [{"name": "A", "value": "b"}]},
    },
    "recreate": {
        "executorManager": {"env": [{"name": "A", "value": "b"}], "updateStrategy": {"type": "Recreate"}},
        "sessionManager": {"env": [{"name": "A", "value": "b"}]},
    },
    "scale": {"executorManager": {"replicas": 0}, "objectCache": {"replicas": 0}},
    "suspension": {"suspend": True},
    "removed cache": {"objectCache": None},
}


def _make(world: StepHarness, name: str = DATA, **metadata: Any) -> None:
    metadata = {"name": name, "namespace": OWNER.namespace, **metadata}
    world.api.put(CLAIMS, {"metadata": metadata, "spec": {}, "status": {"phase": "Bound"}})


def _claim(world: StepHarness, name: str) -> dict[str, Any]:
    return world.api.present(CLAIMS, name)


def _delete(world: StepHarness, name: str) -> None:
    """Somebody deletes a claim, which the Pods keep."""
    world.change(CLAIMS, name, {"metadata": {"deletionTimestamp": NOW, "finalizers": ["kubernetes.io/pvc-protection"]}})
    world.clock.elapsed += 60


def _lose(world: StepHarness, name: str) -> None:
    """Somebody deletes the volume of a claim."""
    world.change(CLAIMS, name, {"status": {"phase": "Lost"}})
    world.clock.elapsed += 60


async def _world(mount: str) -> StepHarness:
    changes, _, _ = MOUNTS[mount]
    return await converged(changes, prepare=_make)


async def _passes(world: StepHarness, count: int = 6) -> None:
    await world.run_passes(count, ready=True)


def _confirm(world: StepHarness, *uids: str) -> None:
    annotations = {CONFIRM_CLAIM_LOSS_ANNOTATION: ",".join(uids)}
    world.change("flameclusters", OWNER.name, {"metadata": {"annotations": annotations}})


@pytest.mark.parametrize("mount", MOUNTS)
async def test_claim_that_is_being_deleted_is_reported_with_a_warning_and_changes_nothing(mount: str) -> None:
    _, claim, pod = MOUNTS[mount]
    world = await _world(mount)
    _delete(world, claim)

    await _passes(world)

    assert world.status.reason == "ClaimTerminating"
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "ClaimTerminating")
    assert f'"{claim}" is being deleted' in message
    assert f'Pod "{pod}" keeps it' in message
    uid = _claim(world, claim)["metadata"]["uid"]
    assert f"{CONFIRM_CLAIM_LOSS_ANNOTATION}={uid}" in message
    assert [(kind, why) for kind, why, _ in world.events.told] == [("Warning", "ClaimTerminating")]
    assert world.deleted == []


# Each change with each kind of component, and each mount with a change.
@pytest.mark.parametrize(
    ("mount", "change"),
    [
        *((mount, change) for mount in ("session manager", "object cache", "executor") for change in CHANGES),
        *((mount, "suspension") for mount in MOUNTS if "claim" in mount or "podTemplate" in mount),
    ],
)
async def test_pod_stays_whatever_the_spec_asks_while_its_claim_is_being_deleted(mount: str, change: str) -> None:
    _, claim, pod = MOUNTS[mount]
    world = await _world(mount)
    _delete(world, claim)
    world.edit(CHANGES[change])

    await _passes(world)

    assert pod not in world.deleted
    assert world.status.reason == "ClaimTerminating"


async def test_executor_that_keeps_its_claim_in_a_scale_down_waits_for_no_registration() -> None:
    world = await _world("executor")
    _delete(world, DATA)
    world.edit(CHANGES["scale"])

    result = await world.run_pass()

    assert "ExecutorNotRegistered" not in [each.reason for each in result.outcomes]


@pytest.mark.parametrize(
    ("mount", "change"), [(mount, ("rollout", "suspension")[index % 2]) for index, mount in enumerate(MOUNTS)]
)
async def test_pod_stays_when_no_watch_has_shown_yet_that_its_claim_is_being_deleted(mount: str, change: str) -> None:
    _, claim, pod = MOUNTS[mount]
    world = await _world(mount)
    world.edit(CHANGES[change])
    world.sync()
    world.change(
        CLAIMS, claim, {"metadata": {"deletionTimestamp": NOW, "finalizers": ["kubernetes.io/pvc-protection"]}}
    )

    for _ in range(6):
        await world.run_pass(stale=True)
        world.sync(resources.PODS)
        world.let_pods_become_ready()

    assert pod not in world.deleted


@pytest.mark.parametrize(
    ("mount", "change"),
    [
        (mount, change)
        for mount, (_, claim, _) in MOUNTS.items()
        if claim == DATA
        for change in ("rollout", "suspension")
    ]
    + [("executor", "scale"), ("executor", "recreate")],
)
async def test_claim_of_a_user_that_a_change_finds_in_deletion_is_told_at_once(mount: str, change: str) -> None:
    """No watch shows it, and it was read a moment before somebody deleted it."""
    _, claim, pod = MOUNTS[mount]
    world = await _world(mount)
    world.clock.elapsed += CLAIMS_RECHECK_SECONDS
    await world.run_pass()
    world.change(
        CLAIMS, claim, {"metadata": {"deletionTimestamp": NOW, "finalizers": ["kubernetes.io/pvc-protection"]}}
    )
    world.edit(CHANGES[change])

    for _ in range(6):
        result = await world.run_pass()
        if result.delay != 0 and not world.another_pass_follows:
            break

    assert pod not in world.deleted
    assert world.status.reason == "ClaimTerminating"


async def test_no_other_object_cache_goes_when_no_watch_has_shown_yet_that_all_claims_are_being_deleted() -> None:
    world = StepHarness(cached(2, persistence={"size": "1Gi"}))
    await world.converge()
    world.edit({"objectCache": {"env": [{"name": "A", "value": "b"}]}})
    world.sync()
    for ordinal in range(2):
        _delete(world, cache_name(ordinal))

    await world.run_passes(3, stale=True)

    assert world.deleted == []


@pytest.mark.parametrize("mount", MOUNTS)
async def test_pod_stays_while_its_claim_cannot_be_read(mount: str) -> None:
    _, _, pod = MOUNTS[mount]
    world = await _world(mount)
    world.restart()
    world.clock.elapsed += 60
    for _ in range(50):
        world.api.fail("get", CLAIMS, lost())
    world.edit({"suspend": True})

    await _passes(world)

    assert pod not in world.deleted


@pytest.mark.parametrize("failure", [lost, forbidden])
async def test_failed_read_of_a_claim_is_forgotten_once_the_watch_shows_the_claim(failure: Failure) -> None:
    world = await _world("session manager")
    world.unlabel(CLAIMS, SM_NAME)
    world.sync()
    world.api.fail("get", CLAIMS, failure(), name=SM_NAME)

    await world.run_passes(3, seconds=60)

    assert CLUSTER_LABEL in _claim(world, SM_NAME)["metadata"]["labels"]
    assert (world.status.state, world.condition("Degraded")[0]) == ("Running", "False")


@pytest.mark.parametrize("mount", MOUNTS)
async def test_suspension_begins_only_after_the_loss_is_confirmed(mount: str) -> None:
    _, claim, pod = MOUNTS[mount]
    world = await _world(mount)
    _delete(world, claim)
    world.edit({"suspend": True})
    await _passes(world)
    assert world.deleted == []

    _confirm(world, "another-uid")
    await _passes(world)
    assert world.deleted == []

    _confirm(world, "another-uid", str(_claim(world, claim)["metadata"]["uid"]))
    await _passes(world)
    assert pod in world.deleted
    assert world.api.all("pods") == []


async def test_suspension_that_is_taken_back_before_the_loss_is_confirmed_has_stopped_nothing() -> None:
    world = await _world("session manager")
    _delete(world, SM_NAME)
    world.edit({"suspend": True})
    await _passes(world)

    world.edit({"suspend": False})
    await _passes(world)

    assert world.deleted == []
    assert world.status.state == "Running"


@pytest.mark.parametrize("mount", MOUNTS)
@pytest.mark.parametrize(
    ("fate", "said", "reason"),
    [(_delete, "is being deleted", "ClaimTerminating"), (_lose, "has lost its volume", "ClaimLost")],
)
@pytest.mark.parametrize("edit", [{"paused": True}, {"sessionManager": {"slot": "cpu=0"}}], ids=["paused", "invalid"])
async def test_claim_in_danger_is_told_in_time_while_the_operator_changes_nothing(
    mount: str, fate: Callable[[StepHarness, str], None], said: str, reason: str, edit: dict[str, Any]
) -> None:
    _, claim, _ = MOUNTS[mount]
    world = await _world(mount)
    world.edit(edit)
    result = await world.run_passes(2)
    assert claim != DATA or (result.delay or 0.0) <= CLAIMS_RECHECK_SECONDS, "no event reports the claim of a user"
    fate(world, claim)

    await world.run_passes(2)

    assert f'PersistentVolumeClaim "{claim}" {said}' in (world.status.message or "")
    assert world.condition("Degraded")[:2] == ("True", reason if "paused" in edit else "InvalidSpec")
    assert world.events.told[-1][0] == "Warning"
    assert said in world.events.told[-1][2]


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("mount", MOUNTS)
@pytest.mark.parametrize(
    ("fate", "said"), [(_delete, "is being deleted"), (_lose, "has lost its volume")], ids=["deleted", "lost"]
)
@pytest.mark.parametrize("outdated", ["spec", "status"])
async def test_claim_in_danger_is_told_while_the_crd_is_outdated(
    mount: str, fate: Callable[[StepHarness, str], None], said: str, outdated: str, *, restarts: bool
) -> None:
    _, claim, _ = MOUNTS[mount]
    world = await _world(mount)
    if outdated == "spec":
        world.api.objects["flameclusters", *KEY]["spec"]["scheduleInterval"] = 7
    else:
        world.api.unknown = ("executorManager.nextId",)
        world.edit({"executorManager": {"replicas": 3}})
    await world.run_passes(2)
    if restarts:
        world.restart()

    fate(world, claim)
    await world.run_passes(3)

    assert f'PersistentVolumeClaim "{claim}" {said}' in (world.status.message or "")
    assert world.condition("Degraded")[:2] == ("True", "OutdatedCRD")
    assert "The installed CRD" in world.condition("Degraded")[2]
    version = world.api.version
    await world.run_passes(3)
    assert world.api.version == version


async def test_executors_that_mount_no_such_claim_go_when_the_cluster_is_scaled_down() -> None:
    world = await converged(replicas(2))
    _make(world)
    kept = executor_name(1)
    pod = world.pod(kept)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": DATA}}]
    world.api.put("pods", pod | {"spec": pod["spec"] | {"volumes": volumes}})
    _delete(world, DATA)
    world.edit(replicas(1))

    await _passes(world)

    assert world.deleted == [executor_name(0)]


@pytest.mark.parametrize("suspended", [False, True])
async def test_claim_in_place_of_one_that_vanished_is_a_warning(*, suspended: bool) -> None:
    world = await _world("session manager")
    if suspended:
        world.edit({"suspend": True})
        await world.converge()
    for each in (*(["pods"] if not suspended else []), CLAIMS):
        world.api.remove(each, SM_NAME)
    world.restart()
    await _passes(world)
    world.edit({"suspend": False})

    await world.converge()

    assert [why for kind, why, _ in world.events.told if kind == "Warning" and why.startswith("Claim")] == [
        "ClaimReplaced"
    ]
    assert world.status.reason == "Healthy"


async def test_claim_of_a_scaled_object_cache_is_an_ordinary_creation() -> None:
    world = await converged(cached(2, persistence={"size": "1Gi", "deletionPolicy": "Delete"}))
    for count in (1, 2):
        world.edit({"objectCache": {"replicas": count}})
        await world.converge()

    assert "ClaimReplaced" not in world.events.reasons
    assert "ClaimCreated" in world.events.reasons


@pytest.mark.parametrize(("mount", "change"), [*((mount, "rollout") for mount in MOUNTS), ("executor", "scale")])
async def test_pod_stays_whose_claim_has_lost_its_volume_because_it_could_not_start_again(
    mount: str, change: str
) -> None:
    _, claim, pod = MOUNTS[mount]
    world = await _world(mount)
    _lose(world, claim)
    world.edit(CHANGES[change])

    await _passes(world)

    assert pod not in world.deleted
    assert world.status.reason == "ClaimLost"

    world.edit({"suspend": True})
    await _passes(world)

    assert pod not in world.deleted

    _confirm(world, _claim(world, claim)["metadata"]["uid"])
    await _passes(world)

    assert pod in world.deleted


@pytest.mark.parametrize(
    "mount", ["session manager", "existing claim", "object cache", "existing claim of the object cache"]
)
async def test_pod_stays_whose_claim_vanished_and_was_made_anew_until_the_loss_is_confirmed(mount: str) -> None:
    """Somebody takes the finalizers off a claim that is being deleted. The Pod goes on with its volume."""
    _, claim, pod = MOUNTS[mount]
    world = await _world(mount)
    world.clock.elapsed += 60
    world.api.remove(CLAIMS, claim)
    if claim == DATA:
        _make(world, creationTimestamp=world.clock.now().isoformat())
    await _passes(world)
    world.clock.elapsed += 60
    world.edit(CHANGES["rollout"])

    await _passes(world)

    assert pod not in world.deleted
    status, reason, message = world.condition("Degraded")
    uid = _claim(world, claim)["metadata"]["uid"]
    assert (status, reason) == ("True", "ClaimLost")
    assert (
        f'Pod "{pod}" still uses the volume of an earlier PersistentVolumeClaim "{claim}", which a new one replaced'
        in message
    )
    assert f"{CONFIRM_CLAIM_LOSS_ANNOTATION}={uid}" in message

    _confirm(world, uid)
    await _passes(world)

    assert pod in world.deleted
    await world.converge()
    assert world.status.reason == "Healthy"


@pytest.mark.parametrize("mount", ["existing claim", "existing claim of the object cache", "executor"])
@pytest.mark.parametrize(
    ("fate", "reason"), [("missing", "ClaimNotFound"), ("being deleted", "ClaimNotFound"), ("lost", "ClaimLost")]
)
async def test_nothing_is_replaced_by_a_pod_that_could_not_mount_its_claim(mount: str, fate: str, reason: str) -> None:
    changes, _, pod = MOUNTS[mount]
    world = await _world(mount)
    if fate != "missing":
        _make(world, "other")
        (_delete if fate == "being deleted" else _lose)(world, "other")
    part = next(iter(changes))
    mounted: dict[str, Any] = {"persistence": {"existingClaim": "other"}}
    if part == "executorManager":
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "other"}}]
        mounted = {"podTemplate": {"spec": {"volumes": volumes, "containers": []}}}
    world.edit({part: mounted})

    await _passes(world)

    assert pod not in world.deleted
    field = f"spec.{part}." + ("podTemplate.spec.volumes" if part == "executorManager" else "persistence.existingClaim")
    assert world.condition("Degraded")[1] == reason
    if fate != "lost":
        begin = f'PersistentVolumeClaim "other" of {field}, which a new Pod would mount,'
        assert world.condition("Degraded")[2].startswith(begin)


@pytest.mark.parametrize(
    "mount", ["existing claim", "session manager's podTemplate", "existing claim of the object cache", "executor"]
)
async def test_loss_of_a_users_claim_tells_the_next_step_while_a_change_waits_for_another_claim(mount: str) -> None:
    _, claim, pod = MOUNTS[mount]
    world = await _world(mount)
    _delete(world, claim)
    await _passes(world)
    world.edit(CHANGES["rollout"])
    await _passes(world)

    assert [each for each in world.events.told if each[0] == "Warning"] == [
        ("Warning", "ClaimTerminating", world.condition("Degraded")[2])
    ], "the change is no news"

    _confirm(world, _claim(world, claim)["metadata"]["uid"])
    await _passes(world)

    assert pod not in world.deleted, "another one could not start"
    said = (
        f'PersistentVolumeClaim "{claim}", which a new Pod would mount, is being deleted, and Pod "{pod}" keeps it; set '
        "spec.suspend to true, create the claim again when it is gone, and set spec.suspend to false"
    )
    assert world.condition("Degraded")[1:] == ("ClaimNotFound", said)
