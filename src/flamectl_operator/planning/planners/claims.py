"""Decides which PersistentVolumeClaims are created, changed and deleted, and whether a Pod that mounts one may be created.

A claim holds data, so the operator deletes only claims that belong to the FlameCluster by their owner reference, whose policy is
Delete, and that no Pod uses. A claim without an owner that has the FlameCluster's labels was retained, and is used again.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from flamectl_operator.api.constants import COMPONENT_FIELDS
from flamectl_operator.api.quantity import amount, parse_quantity
from flamectl_operator.desired import names
from flamectl_operator.desired.claims import DesiredClaim
from flamectl_operator.kube.views import PersistentVolumeClaimView
from flamectl_operator.observed.claims import PHASE_BOUND, PHASE_LOST, PHASE_PENDING
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.observed.ownership import is_ours
from flamectl_operator.planning.claim_outcomes import FILE_SYSTEM_RESIZE_PENDING, claims_in_danger, lost_claim
from flamectl_operator.planning.comparison import Comparison
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.planning.patches import claim_patch, may_take_back, owners_patch, without_instance
from flamectl_operator.planning.sub_plans import ClaimPlan
from flamectl_operator.planning.termination import awaited_end, end_wait
from flamectl_operator.runtime.outcome import Outcome, blocked, wait

#: The ends of what Kubernetes says of a growth that its storage or its node refuses: since 1.31, and before.
_REFUSED = ("ResizeInfeasible", "ResizeFailed")
#: The advice about a claim that differs. Nothing tells whether the spec changed since, or a webhook changed the new claim.
_DIFFERS = "set that in the spec, or copy the data to a new claim; a webhook may have changed it when it was created"
#: The conditions of a claim whose growth fails, and is tried again.
_FAILS = ("ControllerResizeError", "NodeResizeError")


def plan_claims(compared: Comparison) -> ClaimPlan:
    """Decide what to do about the claims."""
    observed, effective = compared.observed, compared.effective
    create: list[DesiredClaim] = []
    patch: list[tuple[PersistentVolumeClaimView, dict[str, Any]]] = []
    taken: list[PersistentVolumeClaimView] = []
    outcomes: list[Outcome] = []
    for desired in effective.desired.claims:
        claim = observed.claims.get(desired.name)
        if claim is None:
            if not effective.suspended:
                create.append(desired)
        elif not is_ours(claim, desired.owner):
            taken.append(claim)
        elif claim.terminating:
            outcomes += _end_waits(observed, claim, compared.now.wall)
        else:
            outcomes += differences(claim, desired)
            if (pods := observed.claim_users.get(claim.name)) and _grows_at_a_start(claim):
                what = (
                    f'PersistentVolumeClaim "{claim.name}" has grown, and its file system follows when Pod "{pods[0]}"'
                )
                outcomes.append(wait(FILE_SYSTEM_RESIZE_PENDING, f"{what} starts again ({FILE_SYSTEM_RESIZE_PENDING})"))
            if (changes := claim_patch(claim, desired)) is not None:
                patch.append((claim, changes))
        if claim is not None and claim.status.phase == PHASE_LOST and claim.name not in observed.claim_users:
            outcomes.append(lost_claim(claim))
    outcomes += claims_in_danger(observed) if observed.claim_users else ()
    surplus = _surplus(observed, effective)
    retained = [claim for claim in surplus if _policy(effective) == "Retain"]
    retained += [claim for claim in _given_to_users(observed, effective) if claim not in retained]
    patch += [
        (claim, without_instance(claim, owners_patch(claim, keep=False, owner=observed.owner))) for claim in retained
    ]
    delete = [claim for claim in surplus if _policy(effective) == "Delete" and not _used(observed, effective, claim)]
    return ClaimPlan(tuple(create), tuple(patch), tuple(delete), tuple(taken), waits=tuple(outcomes))


def _end_waits(observed: ObservedCluster, claim: PersistentVolumeClaimView, now: datetime) -> list[Outcome]:
    """Return the wait for the end of a claim; none while a Pod keeps it and nobody has confirmed its loss."""
    if claim.name not in observed.claim_users:
        return [end_wait("PersistentVolumeClaim", claim, now)]
    confirmed = claim.uid in observed.known_claims.confirmed
    return [wait("Terminating", awaited_end("PersistentVolumeClaim", claim))] if confirmed else []


def differences(claim: PersistentVolumeClaimView, desired: DesiredClaim) -> list[Outcome]:
    """Return the outcomes for changes that a claim cannot take, or cannot take yet."""
    unbound = claim.status.phase == PHASE_PENDING
    advice = f"; it has no volume yet, so delete it for a new one: kubectl delete pvc {claim.name}" if unbound else ""
    return [
        replace(each, message=f"{each.message}{advice}") if each.attention else each
        for each in _impossible_changes(claim, desired)
    ]


def _impossible_changes(claim: PersistentVolumeClaimView, desired: DesiredClaim) -> list[Outcome]:
    name, found = f'PersistentVolumeClaim "{claim.name}"', []
    wanted, asked_for, capacity = parse_quantity(desired.size), amount(claim.size), claim.status.capacity.storage
    field = f"{COMPONENT_FIELDS[desired.component]}.persistence.size"
    if wanted < asked_for and not may_take_back(claim, desired):
        how = f"has {claim.size} and cannot shrink to {desired.size}; set {field} to {claim.size}"
        if capacity is not None and amount(capacity) < asked_for:
            how = f"asks for {claim.size}, its volume has {capacity}, and it cannot shrink to {desired.size}"
            how += f"; set {field} to more than {capacity}"
        found.append(blocked("ClaimCannotShrink", f"{name} {how}"))
    elif wanted > asked_for and claim.status.phase != PHASE_BOUND:
        how = f"asks for {claim.size} and has no volume yet, so it grows to {desired.size} ({field}) once it has one"
        # A lost claim has an outcome of its own.
        found.append(wait("ClaimNotBound", f"{name} {how}" if claim.status.phase == PHASE_PENDING else ""))
    elif wanted == asked_for and (status := _refused_growth(claim)):
        how = f"asks for {claim.size}, and its storage refuses to grow so far ({status}): its volume has {capacity}"
        advice = f"set a size between the two, and see kubectl describe pvc {claim.name}"
        found.append(blocked("ClaimCannotGrow", f"{name} {how}; {advice}"))
    elif wanted == asked_for and (error := _failing_growth(claim)):
        how = f"asks for {claim.size}, and its storage fails to grow ({error}): its volume has {capacity}"
        found.append(blocked("ClaimCannotGrow", f"{name} {how}; see kubectl describe pvc {claim.name}"))
    asked = desired.persistence.storage_class_name
    if asked is not None and (claim.spec.storage_class_name or "") != asked:
        current = claim.spec.storage_class_name or "none"
        found.append(
            blocked("ClaimDiffers", f"{name} has the storage class {current}, which cannot become {asked} ({_DIFFERS})")
        )
    if desired.persistence.access_modes and set(claim.spec.access_modes) != set(desired.access_modes):
        current, modes = ", ".join(claim.spec.access_modes), ", ".join(desired.access_modes)
        found.append(
            blocked("ClaimDiffers", f"{name} has the access modes {current}, which cannot become {modes} ({_DIFFERS})")
        )
    return found


def _refused_growth(claim: PersistentVolumeClaimView) -> str:
    """Return how the storage refused the size that the claim asks for; empty when it did not."""
    status, tried = claim.status.allocated_resource_statuses.storage, claim.status.allocated_resources.storage
    return status if status.endswith(_REFUSED) and tried in {None, claim.size} else ""


def _failing_growth(claim: PersistentVolumeClaimView) -> str:
    """Return the condition that says how the growth of a volume fails; empty when none does, or when it has grown."""
    capacity = claim.status.capacity.storage
    if capacity is None or amount(capacity) >= amount(claim.size):
        return ""
    return next((each.type for each in claim.status.conditions if each.type in _FAILS and each.status == "True"), "")


def _grows_at_a_start(claim: PersistentVolumeClaimView) -> bool:
    """Return whether the volume has grown, and its node makes the file system larger only when a Pod mounts it."""
    return any(each.type == FILE_SYSTEM_RESIZE_PENDING and each.status == "True" for each in claim.status.conditions)


def claim_wait(observed: ObservedCluster, desired: DesiredClaim | None) -> Outcome | None:
    """Return why a Pod that mounts a desired claim is not created yet; None when it may be, as without a claim."""
    if desired is None:
        return None
    claim = observed.claims.get(desired.name)
    ready = claim is not None and is_ours(claim, desired.owner) and not claim.terminating
    return None if ready else wait("ClaimNotReady")


def has_claim(observed: ObservedCluster, desired: DesiredClaim | None) -> bool:
    """Return whether a new Pod would find its desired claim, if any, so that the present Pod may be deleted for it."""
    claim = None if desired is None else observed.claims.get(desired.name)
    return desired is None or (claim is not None and is_ours(claim, desired.owner))


def _surplus(observed: ObservedCluster, effective: EffectiveSpec) -> list[PersistentVolumeClaimView]:
    """Return the claims of object caches that the spec no longer asks for and that belong to the FlameCluster."""
    if _policy(effective) is None:
        return []
    owner, replicas = observed.owner, effective.desired.cache_replicas
    found = []
    for claim in observed.claims.values():
        ordinal = names.object_cache_ordinal(owner.name, claim.name)
        if ordinal is not None and ordinal >= replicas and claim.controlled_by(owner.uid) and not claim.terminating:
            found.append(claim)
    return found


def _policy(effective: EffectiveSpec) -> str | None:
    persistence = effective.desired.spec.object_cache.persistence
    return None if persistence is None or persistence.existing_claim is not None else persistence.deletion_policy


def _given_to_users(observed: ObservedCluster, effective: EffectiveSpec) -> list[PersistentVolumeClaimView]:
    """Return claims that the operator made and that `existingClaim` names now, which still have the FlameCluster as owner."""
    claims = (claim for name, claim in observed.claims.items() if name in effective.desired.claims_of_users)
    return [each for each in claims if each.controlled_by(observed.owner.uid) and not each.terminating]


def _used(observed: ObservedCluster, effective: EffectiveSpec, claim: PersistentVolumeClaimView) -> bool:
    """Return whether a Pod of the claim's name exists, terminating Pods included, or another Pod mounts it or would mount it."""
    desired = effective.desired
    templates = [each for each in (desired.session_manager, desired.group.template, desired.object_cache) if each]
    return any(claim.name in template.claim_names for template in templates) or any(
        pod.name == claim.name or claim.name in pod.claim_names for pod in observed.sources.labelled_pods
    )
