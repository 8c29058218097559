"""UpdateClaims, and Pods with persistence."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from flamectl_operator.kube import resources
from flamectl_operator.kube.errors import ForbiddenError, InvalidError, KubernetesError
from flamectl_operator.reconcile.stores.stores import FLAME_CLUSTERS
from tests.unit.builders import OWNER, cached, merged, raw_spec, replicas, stored
from tests.unit.subreconcilers.errors import lost
from tests.unit.subreconcilers.harness import KEY, SM_NAME, StepHarness, cache_name, converged, edited, executor_name

CLAIMS = "persistentvolumeclaims"
NOT_PERSISTENT = {"sessionManager": {"storage": None, "persistence": None}, "objectCache": {"persistence": None}}


def _cache(count: int = 1, **claim: Any) -> dict[str, Any]:
    return cached(count, persistence={"size": "10Gi", **claim})


def _session(**claim: Any) -> dict[str, Any]:
    return stored(**{"size": "10Gi", **claim})


def _claims(world: StepHarness) -> list[str]:
    return [claim["metadata"]["name"] for claim in world.api.all(CLAIMS)]


def _claim(world: StepHarness, name: str) -> dict[str, Any]:
    return world.api.present(CLAIMS, name)


def _bind(world: StepHarness, **status: Any) -> None:
    for claim in world.api.all(CLAIMS):
        world.api.put(CLAIMS, claim | {"status": {"phase": "Bound", **status}})


def _executor_uids(world: StepHarness) -> dict[str, str]:
    return {executor_name(each): world.uid(executor_name(each)) for each in world.executor_ids}


# --- Claims ------------------------------------------------------------------------------------------------------------


async def test_claims_are_created_before_their_pods() -> None:
    world = StepHarness(merged(_cache(2), _session()))

    await world.run_pass()

    created = [name for verb, plural, name in world.writes if verb == "create" and plural in {CLAIMS, "pods"}]
    assert created[:3] == [SM_NAME, cache_name(0), cache_name(1)]
    assert set(created[3:6]) == {SM_NAME, cache_name(0), cache_name(1)}
    spec = _claim(world, cache_name(1))["spec"]
    assert spec == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}


async def test_no_pod_is_created_without_its_claim() -> None:
    world = StepHarness(merged(_cache(), _session()))
    world.squat(CLAIMS, SM_NAME)
    world.squat(CLAIMS, cache_name(0))

    await world.run_pass()

    assert world.session_manager is None
    assert world.cache_ordinals == []
    assert world.condition("Degraded")[1] == "NameConflict"
    assert "(to use its data, name it in persistence.existingClaim; else create" in world.condition("Degraded")[2]


async def test_claim_of_somebody_with_the_name_of_the_operators_is_used_when_existing_claim_names_it() -> None:
    world = StepHarness(_session())
    world.squat(CLAIMS, SM_NAME, uid="restored")
    await world.run_pass()
    world.edit({"sessionManager": {"persistence": {"size": None, "existingClaim": SM_NAME}}})

    await world.converge()

    assert world.status.reason == "Healthy"
    assert world.pod(SM_NAME)["metadata"]["annotations"]["flame.xflops.io/claim"] == "restored"
    assert "labels" not in _claim(world, SM_NAME)["metadata"]


@pytest.mark.parametrize(
    ("spec", "edit"),
    [
        (
            _session(deletionPolicy="Retain"),
            {"sessionManager": {"persistence": {"size": None, "existingClaim": SM_NAME}}},
        ),
        (_cache(1), {"objectCache": {"persistence": {"size": None, "existingClaim": cache_name(0)}}}),
    ],
    ids=["session manager", "object cache"],
)
async def test_claim_that_existing_claim_names_is_not_written_to_when_common_labels_change(
    spec: dict[str, Any], edit: dict[str, Any]
) -> None:
    world = await converged(spec)
    world.edit(edit)
    await world.converge()
    before = world.api.all(CLAIMS)

    world.edit({"commonLabels": {"owner": "team-a"}, "commonAnnotations": {"cost": "17"}})
    await world.converge()

    assert world.api.all(CLAIMS) == before
    assert world.status.reason == "Healthy"


@pytest.mark.parametrize("terminating", [True, False])
async def test_claims_get_no_owner_when_the_flame_cluster_is_deleted_without_its_children(*, terminating: bool) -> None:
    world = await converged(_cache())
    claim = _claim(world, cache_name(0))
    metadata = {key: value for key, value in claim["metadata"].items() if key != "ownerReferences"}
    world.api.put(CLAIMS, claim | {"metadata": metadata})
    if terminating:
        world.apply(world.api.objects["flameclusters", *KEY]["spec"], deletionTimestamp="2030-01-01T00:00:00Z")
    else:
        world.api.remove("flameclusters", OWNER.name)
    world.sync(resources.CLAIMS)

    await world.run_pass(stale=True)

    assert "ownerReferences" not in _claim(world, cache_name(0))["metadata"]


@pytest.mark.parametrize("gone", [True, False], ids=["the FlameCluster is gone", "another size is wanted"])
async def test_no_claim_grows_for_a_spec_that_is_known_to_be_over(*, gone: bool) -> None:
    world = await converged(_cache(deletionPolicy="Retain"))
    _bind(world)
    world.edit(_cache(size="20Gi", deletionPolicy="Retain"))
    world.sync()
    # The watch of claims is late, so the name is taken and the claim is read.
    world.stores.claims.replace([], str(world.api.version))
    create = world.api.create

    async def create_late(resource: Any, *args: Any, **options: Any) -> Any:
        if resource is resources.CLAIMS:
            if gone:
                world.api.remove("flameclusters", OWNER.name)
            else:
                world.edit(_cache(size="15Gi", deletionPolicy="Retain"))
            world.sync(FLAME_CLUSTERS)
        return await create(resource, *args, **options)

    world.api.create = create_late  # type: ignore[method-assign]

    await world.run_pass(stale=True)

    assert _claim(world, cache_name(0))["spec"]["resources"]["requests"]["storage"] == "10Gi"


@pytest.mark.parametrize(("first", "then", "owners"), [("Delete", "Retain", 0), ("Retain", "Delete", 1)])
async def test_the_owner_follows_a_policy_that_changes(first: str, then: str, owners: int) -> None:
    world = await edited(_cache(deletionPolicy=first), _cache(deletionPolicy=then))

    await world.converge()

    assert len(_claim(world, cache_name(0))["metadata"].get("ownerReferences", [])) == owners
    assert world.deleted == [], "the policy is not in the Pod"


@pytest.mark.parametrize("edit", [{"kind": "Web"}, {"name": "other"}, {"apiVersion": "example.com/v1"}])
async def test_the_owner_whose_kind_or_name_somebody_edited_is_restored(edit: dict[str, str]) -> None:
    world = await converged(_cache(deletionPolicy="Delete"))
    owner = OWNER.owner_reference()
    world.change("persistentvolumeclaims", cache_name(0), {"metadata": {"ownerReferences": [owner | edit]}})

    await world.converge()

    assert _claim(world, cache_name(0))["metadata"]["ownerReferences"] == [owner]


async def test_paused_cluster_tells_that_a_claim_still_goes_with_it() -> None:
    world = await edited(_session(), {"paused": True})
    await world.converge()
    world.edit(_session(deletionPolicy="Retain"))

    await world.run_pass()

    assert f'PersistentVolumeClaim "{SM_NAME}" would still be deleted with the FlameCluster' in str(
        world.status.message
    )
    world.edit({"paused": False})
    await world.converge()
    assert world.status.message == "All components healthy"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        pytest.param(
            'persistentvolumeclaims "x" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that'
            " provisions the pvc must support resize",
            "ClaimCannotGrow",
            id="class",
        ),
        pytest.param('User "operator" cannot patch resource "persistentvolumeclaims"', "PermissionDenied", id="role"),
    ],
)
async def test_refused_growth_is_reported_with_its_cause(said: str, reason: str) -> None:
    world = await converged(_cache())
    _bind(world)
    world.edit(_cache(size="20Gi"))
    world.api.fail("patch", CLAIMS, ForbiddenError(403, "Forbidden", said))

    await world.run_pass()

    _, found, message = world.condition("Degraded")
    assert found == reason
    assert said in message
    assert (f'PersistentVolumeClaim "{cache_name(0)}" has 10Gi and cannot grow' in message) == (
        reason == "ClaimCannotGrow"
    )
    assert world.cache_ordinals == [0]


async def test_refusal_to_take_a_growth_back_is_reported_with_its_cause() -> None:
    """Kubernetes before 1.32 lets no claim ask for less."""
    world = await converged(_cache())
    _bind(world, capacity={"storage": "5Gi"})
    world.edit(_cache(size="8Gi"))
    said = "spec.resources.requests.storage: Forbidden: field can not be less than previous value"
    world.api.fail("patch", CLAIMS, InvalidError(422, "Invalid", said))

    await world.run_pass()

    status, found, message = world.condition("Degraded")
    assert (status, found) == ("True", "ClaimCannotShrink")
    assert said in message

    await world.converge()
    assert _claim(world, cache_name(0))["spec"]["resources"]["requests"]["storage"] == "8Gi"
    assert world.status.reason == "Healthy"


def _strip_owner(claim: dict[str, Any]) -> None:
    claim["metadata"].pop("ownerReferences", None)


def _strip_labels(claim: dict[str, Any]) -> None:
    claim["metadata"].pop("labels", None)


def _keep_size(claim: dict[str, Any]) -> None:
    claim["spec"]["resources"] = {"requests": {"storage": "10Gi"}}


@pytest.mark.parametrize(
    ("undo", "told"),
    [
        (_strip_owner, "metadata.ownerReferences"),
        (_strip_labels, "metadata.labels[flame.xflops.io/cluster]"),
        (_keep_size, "spec.resources"),
    ],
)
@pytest.mark.parametrize(
    ("make", "name"), [(_session, SM_NAME), (_cache, cache_name(0))], ids=["session manager", "object cache"]
)
async def test_webhook_that_undoes_changes_of_a_claim_is_reported(
    make: Callable[..., dict[str, Any]], name: str, undo: Callable[[dict[str, Any]], None], told: str
) -> None:
    world = StepHarness(make())
    world.api.webhook = lambda plural, manifest: undo(manifest) if plural == CLAIMS else None
    await world.run_pass()
    _bind(world)
    world.edit(make(size="20Gi"))
    result = await world.run_passes(12, seconds=1)

    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "ChangesUndone")
    assert f'PersistentVolumeClaim "{name}" differs from what the operator wrote ({told}); check' in message
    assert "ClaimUpdated" not in world.events.reasons
    assert min(each.delay for each in result.outcomes if each.delay is not None) == 15


PENDING_RESIZE = {"type": "FileSystemResizePending", "status": "True"}


@pytest.mark.parametrize(("changes", "name"), [(_session(), SM_NAME), (_cache(), cache_name(0))])
async def test_growth_that_waits_for_its_pod_to_start_again_is_told(changes: dict[str, Any], name: str) -> None:
    """The volume has grown, and its file system grows only when a Pod mounts it."""
    world = await converged(changes)
    _bind(world, capacity={"storage": "10Gi"}, conditions=[PENDING_RESIZE])
    await world.run_passes(2)

    said = f'PersistentVolumeClaim "{name}" has grown, and its file system follows when Pod "{name}" starts again'
    assert said in str(world.status.message)
    assert world.condition("Degraded")[0] == "False"
    assert world.condition("Ready")[:2] == ("True", "Healthy")
    before = world.api.version
    await world.run_pass()
    assert world.api.version == before

    _bind(world, capacity={"storage": "20Gi"}, conditions=[])
    await world.converge()
    assert world.status.message == "All components healthy"


async def test_growth_that_waits_for_a_pod_is_not_told_while_there_is_none() -> None:
    world = await edited(_cache(), {"suspend": True})
    await world.converge()
    _bind(world, capacity={"storage": "10Gi"}, conditions=[PENDING_RESIZE])

    await world.converge()

    assert world.status.message == "Suspended: no Pods are wanted"


@pytest.mark.parametrize("obstacle", ["quota", "foreign"])
@pytest.mark.parametrize(("persistence", "pod"), [(_session(), SM_NAME), (_cache(), cache_name(0))])
async def test_pod_stays_until_the_claim_that_its_replacement_mounts_is_there(
    persistence: dict[str, Any], pod: str, obstacle: str
) -> None:
    """Somebody adds `persistence` to a cluster that runs, and the claim cannot be made."""
    world = await converged(cached(1))
    if obstacle == "foreign":
        world.squat(CLAIMS, pod)
    else:
        words = f'persistentvolumeclaims "{pod}" is forbidden: exceeded quota: q, requested: requests.storage=10Gi'
        world.api.fail("create", CLAIMS, ForbiddenError(403, "Forbidden", words), times=9)
    world.edit(persistence)

    await world.run_passes(4)

    assert pod not in world.deleted
    assert world.condition("Degraded")[1] == ("NameConflict" if obstacle == "foreign" else "QuotaExceeded")

    world.api.faults.clear()
    if obstacle == "foreign":
        world.api.remove(CLAIMS, pod)
    await world.converge()

    assert pod in world.deleted
    assert world.status.reason == "Healthy"


@pytest.mark.parametrize("applied", [True, False])
async def test_lost_answer_to_a_create_of_a_claim_causes_no_second_create(*, applied: bool) -> None:
    world = StepHarness(_cache(deletionPolicy="Retain"))
    world.api.fail("create", CLAIMS, lost(), applied=applied)

    await world.converge()

    assert _claims(world) == [cache_name(0)]
    assert world.condition("Ready")[0] == "True"


def _make_claim(world: StepHarness, **metadata: Any) -> None:
    """A user makes a claim, or makes it anew."""
    world.api.put(CLAIMS, {"metadata": {"name": "mine", "namespace": "default", "uid": "first", **metadata}})


EXISTING_SESSION, EXISTING_CACHE = stored(existingClaim="mine"), cached(persistence={"existingClaim": "mine"})
ON_EXISTING = pytest.mark.parametrize(
    ("changes", "pod"), [(EXISTING_SESSION, SM_NAME), (EXISTING_CACHE, cache_name(0))]
)


async def _converged_on_existing(changes: dict[str, Any]) -> StepHarness:
    world = StepHarness(changes)
    _make_claim(world)
    await world.converge()
    world.writes.clear()
    return world


async def test_refused_read_of_a_claim_is_told_although_the_creation_of_another_one_fails() -> None:
    world = await _converged_on_existing(merged(EXISTING_SESSION, _cache()))
    world.clock.elapsed += 60
    world.api.fail(
        "get",
        CLAIMS,
        ForbiddenError(403, "Forbidden", 'User "operator" cannot get resource "persistentvolumeclaims"'),
        times=99,
    )
    world.api.fail("create", CLAIMS, lost(), times=99)
    world.edit(_cache(2))

    await world.run_passes(2)

    assert world.condition("Degraded")[1] == "PermissionDenied"


async def test_an_existing_claim_is_mounted_and_not_touched() -> None:
    world = await _converged_on_existing(EXISTING_SESSION)
    await world.run_pass()

    assert world.writes == []
    assert _claims(world) == ["mine"]
    assert {"name": "flame-claim", "persistentVolumeClaim": {"claimName": "mine"}} in (
        world.pod(SM_NAME)["spec"]["volumes"]
    )


@ON_EXISTING
async def test_no_pod_is_created_for_an_existing_claim_that_has_lost_its_volume(
    changes: dict[str, Any], pod: str
) -> None:
    world = StepHarness(changes)
    _make_claim(world)
    world.change(CLAIMS, "mine", {"status": {"phase": "Lost"}})

    await world.run_pass()

    assert world.api.find("pods", pod) is None
    assert world.condition("Degraded")[1] == "ClaimLost"
    world.change(CLAIMS, "mine", {"status": {"phase": "Bound"}})
    await world.converge()
    assert world.status.reason == "Healthy"


UNUSABLE = [
    pytest.param({"volumeMode": "Block"}, "has the volumeMode Block", id="block"),
    pytest.param({"accessModes": ["ReadOnlyMany"]}, "has the access mode ReadOnlyMany alone", id="read only"),
]


@pytest.mark.parametrize(("claim", "why"), UNUSABLE)
@ON_EXISTING
async def test_no_pod_is_created_or_deleted_for_an_existing_claim_to_which_nothing_can_be_written(
    changes: dict[str, Any], pod: str, claim: dict[str, Any], why: str
) -> None:
    fresh, running = StepHarness(changes), await edited(cached() if pod != SM_NAME else {}, changes)
    before = running.uid(pod)
    for world in (fresh, running):
        _make_claim(world)
        world.change(CLAIMS, "mine", {"spec": claim})

        await world.run_passes(2)

        status, reason, message = world.condition("Degraded")
        assert (status, reason) == ("True", "ClaimDiffers")
        assert why in message
    assert fresh.api.find("pods", pod) is None
    assert running.uid(pod) == before


async def test_claim_of_a_pod_template_may_be_a_block_device() -> None:
    spec = {"volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": "mine"}}]}
    world = await edited({}, {"sessionManager": {"podTemplate": {"spec": spec}}})
    before = world.uid(SM_NAME)
    _make_claim(world)
    world.change(CLAIMS, "mine", {"spec": {"volumeMode": "Block"}})

    await world.converge()

    assert world.uid(SM_NAME) != before


@pytest.mark.parametrize(
    ("changes", "pod", "field"),
    [
        pytest.param(EXISTING_SESSION, SM_NAME, "spec.sessionManager.persistence.existingClaim", id="session manager"),
        pytest.param(EXISTING_CACHE, cache_name(0), "spec.objectCache.persistence.existingClaim", id="object cache"),
    ],
)
async def test_pod_waits_for_an_existing_claim_that_does_not_exist(
    changes: dict[str, Any], pod: str, field: str
) -> None:
    world = StepHarness(changes)

    result = await world.run_pass()

    assert world.api.find("pods", pod) is None
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "ClaimNotFound")
    assert message == f'PersistentVolumeClaim "mine" of {field} does not exist (create it, or name another claim)'
    assert result.delay is not None
    _make_claim(world)
    await world.converge()
    assert world.api.find("pods", pod) is not None
    assert world.condition("Ready")[0] == "True"


async def test_session_manager_waits_for_an_existing_claim_that_terminates() -> None:
    world = StepHarness(EXISTING_SESSION)
    _make_claim(world, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["kubernetes.io/pvc-protection"])

    await world.run_pass()

    assert world.session_manager is None
    assert world.condition("Degraded")[1] == "ClaimNotFound"
    held = "held by finalizer kubernetes.io/pvc-protection, because a Pod mounts it: see kubectl describe pvc "
    assert f"is being deleted ({held}" in world.condition("Degraded")[2]
    assert world.condition("Degraded")[2].endswith(" (create it again when it is gone, or name another claim)")


@pytest.mark.parametrize(
    ("phase", "waits"), [("Running", True), ("Pending", True), ("Succeeded", False), ("Failed", False)]
)
@pytest.mark.parametrize("changes", [EXISTING_SESSION, EXISTING_CACHE], ids=["session manager", "object cache"])
async def test_pod_waits_for_an_existing_claim_that_another_cluster_uses(
    changes: dict[str, Any], phase: str, *, waits: bool
) -> None:
    world = StepHarness(changes)
    _make_claim(world)
    labels, annotations = {"flame.xflops.io/cluster": "other"}, {"flame.xflops.io/claim": "first"}
    world.squat("pods", "other-session-manager", labels=labels, annotations=annotations, uid="other-pod")
    world.change("pods", "other-session-manager", {"status": {"phase": phase}})

    await world.run_pass()

    status, reason, message = world.condition("Degraded")
    assert (status == "True") == waits
    if waits:
        assert reason == "ClaimInUse"
        assert 'used by Pod "other-session-manager" of FlameCluster "other"' in message
        world.api.remove("pods", "other-session-manager")
        await world.converge()
        assert world.condition("Ready")[0] == "True"


@pytest.mark.parametrize(
    "annotations",
    [pytest.param({"flame.xflops.io/claim": "second"}, id="on another claim"), pytest.param({}, id="on no claim")],
)
async def test_pod_of_another_cluster_on_another_claim_is_in_nobodys_way(annotations: dict[str, str]) -> None:
    world = StepHarness(EXISTING_SESSION)
    _make_claim(world)
    labels = {"flame.xflops.io/cluster": "other"}
    world.squat("pods", "other-session-manager", labels=labels, annotations=annotations, uid="other-pod")

    await world.run_pass()

    assert world.session_manager is not None


async def test_of_two_clusters_that_start_at_the_same_moment_one_gets_the_existing_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = StepHarness(EXISTING_SESSION)
    _make_claim(world)
    other = {"name": "other", "namespace": "default", "uid": "other-uid", "generation": 1}
    world.api.put("flameclusters", {"metadata": other, "spec": raw_spec(EXISTING_SESSION)})
    world.sync()
    creating, released, create = asyncio.Event(), asyncio.Event(), world.api.create

    async def held(resource: Any, namespace: str, body: Any, *, strict: bool = False) -> Any:
        if (resource.plural, body["metadata"]["name"]) == ("pods", SM_NAME):
            creating.set()
            await released.wait()
        return await create(resource, namespace, body, strict=strict)

    monkeypatch.setattr(world.api, "create", held)
    first = asyncio.create_task(world.controller.reconcile(KEY))
    await creating.wait()

    await world.controller.reconcile(("default", "other"))

    assert world.api.find("pods", "other-session-manager") is None
    status = world.api.find("flameclusters", "other") or {}
    [degraded] = [each for each in status["status"]["conditions"] if each["type"] == "Degraded"]
    assert degraded["reason"] == "ClaimInUse"
    assert f'is reserved for FlameCluster "{KEY[1]}"' in degraded["message"]
    released.set()
    await first
    assert world.session_manager is not None
    world.api.remove("pods", SM_NAME)
    world.api.remove("flameclusters", KEY[1])
    world.sync()
    await world.controller.reconcile(("default", "other"))
    assert world.api.find("pods", "other-session-manager") is not None


@pytest.mark.parametrize(
    ("error", "kept"), [(ForbiddenError(403, "Forbidden", "no"), False), (lost(), True)], ids=["refused", "lost"]
)
async def test_promise_of_an_existing_claim_lasts_while_its_pod_may_still_appear(
    error: KubernetesError, *, kept: bool
) -> None:
    world = StepHarness(EXISTING_SESSION)
    _make_claim(world)
    world.api.fail("create", "pods", error, name=SM_NAME, times=100)

    await world.run_pass()

    other = world.stores.claim_reservations.take("first", "other", "other-uid", world.clock.monotonic())
    assert (other == KEY[1]) == kept


async def test_promise_of_an_existing_claim_ends_when_no_pod_came_of_it() -> None:
    world = StepHarness(EXISTING_SESSION)
    _make_claim(world)
    assert world.stores.claim_reservations.take("first", "other", "other-uid", world.clock.monotonic()) is None

    await world.run_pass()
    assert world.condition("Degraded")[1] == "ClaimInUse"
    world.clock.elapsed += 121
    await world.converge()

    assert world.condition("Ready")[0] == "True"


async def test_executors_are_replaced_when_an_existing_claim_was_made_anew() -> None:
    world = await _converged_on_existing(merged(EXISTING_SESSION, replicas(2)))
    before = set(_executor_uids(world).values())
    world.api.remove("pods", SM_NAME)
    world.api.remove(CLAIMS, "mine")
    await world.run_pass()
    assert world.session_manager is None
    _make_claim(world, uid="second")

    await world.converge()

    assert before.isdisjoint(_executor_uids(world).values())


# --- A claim of the operator that another FlameCluster mounts by its existingClaim


def _mounted_elsewhere(world: StepHarness, claim: str) -> None:
    annotations = {"flame.xflops.io/claim": _claim(world, claim)["metadata"]["uid"]}
    labels = {"flame.xflops.io/cluster": "other"}
    world.squat("pods", "other-session-manager", labels=labels, annotations=annotations, uid="other-pod")
    world.set_pod("other-session-manager", "ready")


async def _freed(world: StepHarness) -> None:
    world.api.remove("pods", "other-session-manager")
    await world.converge()
    assert world.condition("Ready")[0] == "True"


@pytest.mark.parametrize(
    ("changes", "pod", "field"),
    [
        pytest.param(_session(), SM_NAME, "spec.sessionManager", id="session manager"),
        pytest.param(_cache(), cache_name(0), "spec.objectCache", id="object cache"),
    ],
)
async def test_no_pod_is_created_for_a_claim_that_another_cluster_mounts(
    changes: dict[str, Any], pod: str, field: str
) -> None:
    world = await edited(changes, {"suspend": True})
    await world.converge()
    _mounted_elsewhere(world, pod)
    world.edit({"suspend": False})

    await world.run_passes(3)

    assert world.api.find("pods", pod) is None
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "ClaimInUse")
    assert f'"{pod}" of {field}.persistence is used by Pod "other-session-manager" of FlameCluster "other"' in message
    await _freed(world)


@pytest.mark.parametrize(
    ("changes", "pod"),
    [
        pytest.param(_session(deletionPolicy="Retain"), SM_NAME, id="session manager"),
        pytest.param(_cache(deletionPolicy="Retain"), cache_name(0), id="object cache"),
    ],
)
async def test_no_pod_is_deleted_for_one_whose_claim_another_cluster_mounts(changes: dict[str, Any], pod: str) -> None:
    world = await edited(changes, NOT_PERSISTENT)
    await world.converge()
    before = world.uid(pod)
    _mounted_elsewhere(world, pod)
    world.edit(changes)

    await world.run_passes(3)

    assert world.uid(pod) == before
    assert world.condition("Degraded")[1] == "ClaimInUse"
    await _freed(world)
    assert world.uid(pod) != before


async def test_claim_that_another_cluster_mounts_gets_no_owner_with_which_it_would_be_deleted() -> None:
    world = await converged(_session(deletionPolicy="Retain"))
    _mounted_elsewhere(world, SM_NAME)
    world.edit(_session(deletionPolicy="Delete"))

    await world.run_passes(3)

    assert not _claim(world, SM_NAME)["metadata"].get("ownerReferences")
    assert world.condition("Degraded")[1] == "ClaimInUse"
    await _freed(world)


async def test_surplus_claim_that_another_cluster_mounts_is_not_deleted() -> None:
    world = await converged(merged(_cache(), {"objectCache": {"replicas": 2}}))
    _mounted_elsewhere(world, cache_name(1))
    world.edit(_cache())

    await world.converge()

    assert world.cache_ordinals == [0]
    assert cache_name(1) in _claims(world)
    assert world.condition("Degraded")[1] == "ClaimInUse"
    await _freed(world)
    assert cache_name(1) not in _claims(world)


async def test_surplus_object_cache_without_its_label_is_found_by_its_claim_and_deleted_with_it() -> None:
    world = await converged(_cache(2, deletionPolicy="Delete"))
    world.unlabel("pods", cache_name(1))
    world.restart()
    world.edit({"objectCache": {"replicas": 1}})

    await world.run_passes(4, ready=True)

    assert not world.api.find("pods", cache_name(1))
    assert _claims(world) == [cache_name(0)]
    assert world.status.message == "All components healthy"


async def test_foreign_pod_with_the_name_of_a_surplus_claim_is_told() -> None:
    world = await converged(_cache(2, deletionPolicy="Delete"))
    world.api.remove("pods", cache_name(1))
    world.squat("pods", cache_name(1))
    world.edit({"objectCache": {"replicas": 1}})

    await world.run_passes(3)

    assert _claims(world) == [cache_name(0), cache_name(1)]
    assert world.condition("Degraded")[1] == "NameConflict"
    assert f'Pod "{cache_name(1)}" does not belong to this FlameCluster' in (world.status.message or "")


# --- What persistence changes for the Pods ---------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [_session(), {"sessionManager": {"storage": "fs:///var/lib/flame/session/other"}}])
async def test_executors_are_replaced_when_the_sessions_are_in_another_place(change: dict[str, Any]) -> None:
    start = replicas(2) if "persistence" in change["sessionManager"] else merged(_session(), replicas(2))
    world = await converged(start)
    before = set(world.executor_ids)
    world.edit(change)

    await world.converge()

    assert not before & set(world.executor_ids)
    assert len(world.executor_ids) == 2


@pytest.mark.parametrize("changes", [{}, NOT_PERSISTENT], ids=["persistent", "no longer persistent"])
@pytest.mark.parametrize("name", [SM_NAME, cache_name(0)])
async def test_a_pod_with_a_claim_is_not_deleted_by_force(name: str, changes: dict[str, Any]) -> None:
    world = await edited(merged(_cache(), _session()), changes)
    world.hang(name)
    before = world.uid(name)

    for elapsed in (70, 1000):
        world.clock.elapsed = elapsed
        await world.run_pass()

    assert world.uid(name) == before
    assert "the operator does not force-delete " in (world.status.message or "")
    assert "delete the Node object, or taint the node with node.kubernetes.io/out-of-service" in (
        world.status.message or ""
    )


@pytest.mark.parametrize("name", [SM_NAME, cache_name(0)])
async def test_a_pod_without_a_claim_is_deleted_by_force_after_the_spec_got_persistence(name: str) -> None:
    world = await edited(cached(), merged(_cache(), _session()))
    world.hang(name)
    before = world.uid(name)
    await world.run_pass()

    world.clock.elapsed = 70
    await world.run_passes(2)

    assert world.uid(name) != before
    assert "Force-deleted" in str(world.events.told)


async def test_claim_that_is_not_needed_and_should_have_ended_is_told_with_its_finalizer() -> None:
    cache = {"size": "1Gi", "deletionPolicy": "Delete"}
    world = await edited(cached(2, persistence=cache), {"objectCache": {"replicas": 1}})
    world.change("persistentvolumeclaims", cache_name(1), {"metadata": {"finalizers": ["example.com/kept"]}})

    await world.run_passes(4, ready=True)
    assert world.status.message == "All components healthy"
    world.clock.elapsed += 60
    await world.run_pass()

    told = f'PersistentVolumeClaim "{cache_name(1)}" should have ended by 2025-06-01 12:00:00 UTC'
    assert world.status.message == f"All components healthy; {told} (held by finalizer example.com/kept)"
