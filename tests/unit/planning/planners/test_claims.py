"""The decisions about PersistentVolumeClaims."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import PersistentVolumeClaimView
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.planners.claims import claim_wait
from flamectl_operator.planning.sub_plans import ClaimPlan
from tests.unit.builders import (
    OWNER,
    PodState,
    cluster_plan,
    effective,
    executor_pod,
    executor_template,
    merged,
    object_cache_pod,
    observed,
    stored,
)

CACHE = {"objectCache": {"image": "xflops/flame-object-cache:v0.6.0", "replicas": 1, "persistence": {"size": "10Gi"}}}
CLAIM = f"{OWNER.name}-object-cache-0"


def _persistence(**fields: Any) -> dict[str, Any]:
    return merged(CACHE, {"objectCache": {"persistence": fields}})


def _claim(
    spec: dict[str, Any] = CACHE, phase: str = "Bound", *, status: dict[str, Any] | None = None, **metadata: Any
) -> PersistentVolumeClaimView:
    """Return the claim of the first object cache as the operator would create it for a spec."""
    (desired,) = effective(spec).desired.claims
    manifest = desired.manifest()
    manifest = {
        **manifest,
        "metadata": {**manifest["metadata"], "uid": "claim-uid", "resourceVersion": "7", **metadata},
        "status": {"phase": phase, **(status or {})},
    }
    return msgspec.convert(manifest, PersistentVolumeClaimView)


def _plan(wanted: EffectiveSpec, *claims: PersistentVolumeClaimView, pods: tuple[PodView, ...] = ()) -> ClaimPlan:
    seen = observed(*pods, wanted=wanted)
    sources = replace(seen.sources, claims=claims)
    return cluster_plan(type(seen).of(OWNER, sources, 0.0), wanted).claims


def _names(claims: Any) -> list[str]:
    return [each.name for each in claims]


def test_missing_claim_is_created() -> None:
    assert _names(_plan(effective(CACHE)).create) == [CLAIM]


def test_suspended_cluster_creates_no_claim() -> None:
    assert _plan(effective(CACHE, suspended=True)).create == ()


def test_claim_as_wanted_is_left_alone() -> None:
    plan = _plan(effective(CACHE), _claim())

    assert (plan.create, plan.patch, plan.delete, plan.taken, plan.waits) == ((), (), (), (), ())


def test_claim_of_another_owner_is_not_touched() -> None:
    foreign = _claim(ownerReferences=[], labels={"flame.xflops.io/cluster": OWNER.name})
    plan = _plan(effective(CACHE), foreign)

    assert (_names(plan.taken), plan.patch) == ([CLAIM], ())


def test_bound_claim_grows_with_the_spec() -> None:
    (patch,) = _plan(effective(_persistence(size="20Gi")), _claim()).patch

    assert patch[1]["spec"]["resources"]["requests"]["storage"] == "20Gi"


@pytest.mark.parametrize(
    ("fields", "phase", "reason"),
    [
        pytest.param({"size": "5Gi"}, "Bound", "ClaimCannotShrink", id="smaller size"),
        pytest.param({"size": "20Gi"}, "Pending", "ClaimNotBound", id="larger size without a volume"),
        pytest.param({"storageClassName": "fast"}, "Bound", "ClaimDiffers", id="another storage class"),
        pytest.param({"accessModes": ["ReadWriteMany"]}, "Bound", "ClaimDiffers", id="other access modes"),
    ],
)
def test_change_that_a_claim_cannot_take_is_reported(fields: dict[str, Any], phase: str, reason: str) -> None:
    plan = _plan(effective(_persistence(**fields)), _claim(phase=phase))

    assert reason in [each.reason for each in plan.waits]
    assert (plan.patch, plan.delete) == ((), ())
    assert (reason == "ClaimDiffers") == any("a webhook may have changed it" in each.message for each in plan.waits)


@pytest.mark.parametrize("phase", ["Pending", "Bound"])
@pytest.mark.parametrize(
    "fields",
    [{"size": "5Gi"}, {"storageClassName": "fast"}, {"accessModes": ["ReadWriteMany"]}],
    ids=lambda each: str(*each),
)
def test_claim_without_a_volume_may_be_deleted_for_a_change_that_it_cannot_take(
    fields: dict[str, Any], phase: str
) -> None:
    (told,) = _plan(effective(_persistence(**fields)), _claim(phase=phase)).waits

    advice = f"; it has no volume yet, so delete it for a new one: kubectl delete pvc {CLAIM}"
    assert told.message.endswith(advice) is (phase == "Pending")


def test_growth_of_a_claim_without_a_volume_is_told_with_its_field() -> None:
    plan = _plan(effective(_persistence(size="20Gi")), _claim(phase="Pending"))

    assert plan.patch == ()
    assert [each.message for each in plan.waits] == [
        (
            f'PersistentVolumeClaim "{CLAIM}" asks for 10Gi and has no volume yet, so it grows to 20Gi'
            " (spec.objectCache.persistence.size) once it has one"
        )
    ]


#: A claim of 20Gi whose volume has stayed at 10Gi.
TOO_LARGE = _claim(_persistence(size="20Gi"), status={"capacity": {"storage": "10Gi"}})


def _infeasible(status: str) -> PersistentVolumeClaimView:
    resize = {"capacity": {"storage": "10Gi"}, "allocatedResourceStatuses": {"storage": status}}
    return _claim(_persistence(size="20Gi"), status=resize)


@pytest.mark.parametrize(
    ("status", "reported"),
    [
        pytest.param("ControllerResizeInfeasible", True, id="the storage refuses"),
        pytest.param("NodeResizeInfeasible", True, id="the node refuses"),
        pytest.param("ControllerResizeFailed", True, id="the storage refuses, Kubernetes 1.30"),
        pytest.param("ControllerResizeInProgress", False, id="on its way"),
    ],
)
def test_growth_that_the_storage_refuses_is_reported(status: str, *, reported: bool) -> None:
    plan = _plan(effective(_persistence(size="20Gi")), _infeasible(status))

    told = [each for each in plan.waits if each.reason == "ClaimCannotGrow" and each.attention]
    assert [f'"{CLAIM}" asks for 20Gi, and its storage refuses' in each.message for each in told] == [True] * reported


@pytest.mark.parametrize(
    ("kind", "status", "volume", "reported"),
    [
        pytest.param("ControllerResizeError", "True", "10Gi", True, id="the storage fails"),
        pytest.param("NodeResizeError", "True", "10Gi", True, id="the node fails"),
        pytest.param("NodeResizeError", "False", "10Gi", False, id="no more"),
        pytest.param("NodeResizeError", "True", "20Gi", False, id="the volume has grown"),
        pytest.param("Resizing", "True", "10Gi", False, id="on its way"),
    ],
)
def test_growth_in_which_the_storage_fails_is_reported(kind: str, status: str, volume: str, *, reported: bool) -> None:
    resize = {"capacity": {"storage": volume}, "conditions": [{"type": kind, "status": status}]}
    plan = _plan(effective(_persistence(size="20Gi")), _claim(_persistence(size="20Gi"), status=resize))

    told = [each for each in plan.waits if each.reason == "ClaimCannotGrow" and each.attention]
    assert [f'"{CLAIM}" asks for 20Gi, and its storage fails' in each.message for each in told] == [True] * reported


@pytest.mark.parametrize("claim", [TOO_LARGE, _infeasible("ControllerResizeInfeasible")])
def test_growth_is_taken_back_down_to_more_than_the_volume_has(claim: PersistentVolumeClaimView) -> None:
    plan = _plan(effective(_persistence(size="12Gi")), claim)

    ((_, patch),) = plan.patch
    assert patch["spec"]["resources"]["requests"]["storage"] == "12Gi"
    assert plan.waits == ()


def test_claim_does_not_shrink_to_what_its_volume_has() -> None:
    plan = _plan(effective(_persistence(size="10Gi")), TOO_LARGE)

    assert plan.patch == ()
    (told,) = plan.waits
    assert told.reason == "ClaimCannotShrink"
    advice = "set spec.objectCache.persistence.size to more than 10Gi"
    assert told.message.endswith(f"asks for 20Gi, its volume has 10Gi, and it cannot shrink to 10Gi; {advice}")


def test_claim_that_is_larger_than_asked_for_names_the_field_and_its_size() -> None:
    """A webhook may enlarge a claim at its creation, and then nobody has made the spec smaller."""
    plan = _plan(
        effective(_persistence(size="1Gi")), _claim(_persistence(size="5Gi"), status={"capacity": {"storage": "5Gi"}})
    )

    (told,) = plan.waits
    field = "spec.objectCache.persistence.size"
    assert told.message.endswith(f"has 5Gi and cannot shrink to 1Gi; set {field} to 5Gi")


def test_claim_that_lost_its_volume_is_reported() -> None:
    assert [each.attention for each in _plan(effective(CACHE), _claim(phase="Lost")).waits] == [True]


@pytest.mark.parametrize(
    ("policy", "pods", "deleted", "released"),
    [
        pytest.param("Delete", (), [CLAIM], [], id="policy Delete"),
        pytest.param("Delete", (object_cache_pod(),), [], [], id="policy Delete, used by a Pod"),
        pytest.param("Retain", (), [], [CLAIM], id="policy Retain"),
    ],
)
def test_surplus_claim_follows_its_policy(
    policy: str, pods: tuple[PodView, ...], deleted: list[str], released: list[str]
) -> None:
    fewer = merged(_persistence(deletionPolicy=policy), {"objectCache": {"replicas": 0}})
    plan = _plan(effective(fewer), _claim(_persistence(deletionPolicy="Delete")), pods=pods)

    assert (_names(plan.delete), _names(claim for claim, _ in plan.patch)) == (deleted, released)


def _mounting(state: PodState = "ready") -> PodView:
    """Return an executor that mounts the claim of the first object cache."""
    volumes = [{"name": "objects", "persistentVolumeClaim": {"claimName": CLAIM}}]
    return executor_pod(0, state, spec={"volumes": volumes})


@pytest.mark.parametrize(
    ("changes", "pods"),
    [
        pytest.param({}, (_mounting(),), id="an executor mounts it"),
        pytest.param({}, (_mounting("unscheduled"),), id="an executor is about to mount it"),
        pytest.param(
            executor_template({"volumes": [{"name": "objects", "persistentVolumeClaim": {"claimName": CLAIM}}]}),
            (),
            id="new executors would mount it",
        ),
    ],
)
def test_surplus_claim_that_another_component_mounts_is_not_deleted(
    changes: dict[str, Any], pods: tuple[PodView, ...]
) -> None:
    fewer = merged(_persistence(deletionPolicy="Delete"), {"objectCache": {"replicas": 0}})
    plan = _plan(effective(merged(fewer, changes)), _claim(), pods=pods)

    assert _names(plan.delete) == []


def test_claim_that_becomes_an_existing_one_gets_rid_of_its_owner() -> None:
    plan = _plan(effective(stored(existingClaim=CLAIM)), _claim())

    ((claim, patch),) = plan.patch
    assert claim.name == CLAIM
    assert patch["metadata"]["ownerReferences"] == []
    assert plan.delete == ()


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(_claim(ownerReferences=[]), id="it has no owner"),
        pytest.param(_claim(deletionTimestamp="2026-01-01T00:00:00Z"), id="it is being deleted"),
    ],
)
def test_existing_claim_is_left_alone_otherwise(claim: PersistentVolumeClaimView) -> None:
    assert _plan(effective(stored(existingClaim=CLAIM)), claim).patch == ()


def test_claim_that_one_component_names_and_another_asks_for_keeps_its_owner() -> None:
    assert _plan(effective(merged(CACHE, stored(existingClaim=CLAIM))), _claim()).patch == ()


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        pytest.param((), "ClaimNotReady", id="missing"),
        pytest.param((_claim(deletionTimestamp="2026-01-01T00:00:00Z"),), "ClaimNotReady", id="terminating"),
        pytest.param((_claim(),), None, id="as wanted"),
    ],
)
def test_pod_waits_for_its_claim(claims: tuple[PersistentVolumeClaimView, ...], reason: str | None) -> None:
    wanted = effective(CACHE)
    seen = observed(wanted=wanted)
    seen = type(seen).of(OWNER, replace(seen.sources, claims=claims), 0.0)
    wait = claim_wait(seen, wanted.desired.claims[0])

    assert (None if wait is None else wait.reason) == reason
