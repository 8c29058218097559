"""Which PersistentVolumeClaims are created, changed and deleted, and whether a Pod may be created that mounts one.

A claim holds data, so the operator deletes only claims that belong to the FlameCluster by their owner reference, whose policy is
Delete, and that no Pod uses. A claim without an owner that has the FlameCluster's labels was retained, and is used again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flamectl_operator.api.constants import CLUSTER_LABEL, CONFIRM_CLAIM_LOSS_ANNOTATION, INSTANCE_LABEL
from flamectl_operator.api.quantity import parse_quantity
from flamectl_operator.desired import names
from flamectl_operator.observed.claims import LOST
from flamectl_operator.planning import drift
from flamectl_operator.runtime.outcome import blocked, wait

if TYPE_CHECKING:
    from flamectl_operator.desired.claims import DesiredClaim
    from flamectl_operator.desired.metadata import Identity
    from flamectl_operator.kube.views import PersistentVolumeClaimView
    from flamectl_operator.observed.cluster import ObservedCluster
    from flamectl_operator.planning.effective_spec import EffectiveSpec
    from flamectl_operator.runtime.outcome import Outcome

#: The reason of an outcome for a claim that is being deleted while a Pod keeps it. `claims_in_danger` has the message, and the
#: decisions about Pods wait without one.
CLAIM_TERMINATING = "ClaimTerminating"
KEEPS_CLAIM = wait(CLAIM_TERMINATING)
#: How many claims a message names.
_NAMED = 2
#: Phase of a claim that has a volume. Only such a claim can grow.
_BOUND = "Bound"


@dataclass(frozen=True)
class ClaimPlan:
    """The changes that bring the claims to their desired state.

    Args:
        create: Claims to create.
        patch: Claims to change, each with the merge patch.
        delete: Claims to delete.
        taken: Foreign claims with names that are needed.
        outcomes: Why something is put off or cannot be done.
    """

    create: tuple[DesiredClaim, ...] = ()
    patch: tuple[tuple[PersistentVolumeClaimView, dict[str, Any]], ...] = ()
    delete: tuple[PersistentVolumeClaimView, ...] = ()
    taken: tuple[PersistentVolumeClaimView, ...] = ()
    outcomes: tuple[Outcome, ...] = ()

    @property
    def work(self) -> bool:
        """Whether claims have to be created, changed or deleted."""
        return bool(self.create or self.patch or self.delete)


def plan_claims(observed: ObservedCluster, effective: EffectiveSpec) -> ClaimPlan:
    """Decide what to do about the claims.

    Args:
        observed: The objects that exist.
        effective: The effective spec.
    """
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
            if claim.name not in observed.claim_users or claim.uid in observed.known_claims.confirmed:
                outcomes.append(wait("Terminating", f'waiting for PersistentVolumeClaim "{claim.name}" to terminate'))
        else:
            outcomes += differences(claim, desired)
            if (changes := claim_patch(claim, desired)) is not None:
                patch.append((claim, changes))
        if claim is not None and claim.status.phase == LOST:
            outcomes.append(_lost(claim))
    outcomes += claims_in_danger(observed) if observed.claim_users else ()
    surplus = _surplus(observed, effective)
    retained = [claim for claim in surplus if _policy(effective) == "Retain"]
    patch += [(claim, _without_instance(claim, _owners(claim, keep=False, owner=observed.owner))) for claim in retained]
    delete = [claim for claim in surplus if _policy(effective) == "Delete" and not _used(observed, claim)]
    return ClaimPlan(tuple(create), tuple(patch), tuple(delete), tuple(taken), tuple(outcomes))


def claims_in_danger(observed: ObservedCluster) -> list[Outcome]:
    """Return an outcome for all claims that are being deleted while Pods keep them, and for users' claims that are lost.

    Args:
        observed: The objects that exist.
    """
    users, known = observed.claim_users, observed.known_claims
    claims = [claim for name in sorted(users) if (claim := known.find(name)) is not None]
    lost = [each for each in claims if each.status.phase == LOST and CLUSTER_LABEL not in each.labels]
    going = [each for each in claims if each.terminating and each.uid not in known.confirmed]
    return [*([_terminating(going, claims, observed)] if going else ()), *map(_lost, lost)]


def _terminating(
    going: list[PersistentVolumeClaimView], claims: list[PersistentVolumeClaimView], observed: ObservedCluster
) -> Outcome:
    """Return the outcome with the command that confirms the loss; a message has room for two uids."""
    users, known = observed.claim_users, observed.known_claims
    uids = [each.uid for each in claims if each in going or (each.terminating and each.uid in known.confirmed)]
    names = ", ".join(f'"{each.name}"' for each in going[:_NAMED])
    if len(going) == 1:
        pods = users[going[0].name]
        keep = f'Pod "{pods[0]}" keeps it' if len(pods) == 1 else f'{len(pods)} Pods, such as "{pods[0]}", keep it'
        what = f"PersistentVolumeClaim {names} is being deleted, and {keep}"
    else:
        more = f" and {len(going) - _NAMED} more" if len(going) > _NAMED else ""
        what = f"PersistentVolumeClaims {names}{more} are being deleted, and Pods keep them"
    value = ",".join(uids) if len(uids) <= _NAMED else "UID,UID..."
    command = f"kubectl annotate flc {observed.owner.name} --overwrite {CONFIRM_CLAIM_LOSS_ANNOTATION}={value}"
    return blocked(CLAIM_TERMINATING, f"{what}; copy the data, then confirm: {command}")


def _lost(claim: PersistentVolumeClaimView) -> Outcome:
    return blocked(
        "ClaimLost",
        f'PersistentVolumeClaim "{claim.name}" has lost its volume (phase Lost), because somebody deleted the'
        " PersistentVolume; restore the PersistentVolume, or delete the claim",
    )


def is_ours(claim: PersistentVolumeClaimView, owner: Identity) -> bool:
    """Return whether a claim is this FlameCluster's: by its owner, or by its labels if it was retained.

    Args:
        claim: The claim.
        owner: The FlameCluster.
    """
    if claim.controller is not None:
        return claim.controlled_by(owner.uid)
    return all(claim.labels.get(key) == value for key, value in owner.retained_labels("").items() if value)


def claim_patch(claim: PersistentVolumeClaimView, desired: DesiredClaim) -> dict[str, Any] | None:
    """Return the merge patch that a claim needs, or None.

    Args:
        claim: The claim.
        desired: The claim as it should be.
    """
    changes = drift.metadata_patch(claim, desired.manifest()) or {}
    if desired.retained:
        changes = _without_instance(claim, changes)
    if claim.controlled_by(desired.owner.uid) == desired.retained:
        owners = _owners(claim, keep=not desired.retained, owner=desired.owner)
        changes = {**changes, "metadata": {**changes.get("metadata", {}), **owners["metadata"]}}
    if claim.status.phase == _BOUND and _size(claim.size) < parse_quantity(desired.size):
        version = {"resourceVersion": claim.metadata.resource_version}
        changes = {
            **changes,
            "metadata": {**changes.get("metadata", {}), **version},
            "spec": {"resources": {"requests": {"storage": desired.size}}},
        }
    return changes or None


def differences(claim: PersistentVolumeClaimView, desired: DesiredClaim) -> list[Outcome]:
    """Return the outcomes for changes that a claim cannot take, or cannot take yet.

    Args:
        claim: The claim.
        desired: The claim as it should be.
    """
    name, found = f'PersistentVolumeClaim "{claim.name}"', []
    if parse_quantity(desired.size) < _size(claim.size):
        found.append(blocked("ClaimCannotShrink", f"{name} has {claim.size} and cannot shrink to {desired.size}"))
    elif parse_quantity(desired.size) > _size(claim.size) and claim.status.phase != _BOUND:
        found.append(wait("ClaimNotBound"))
    asked = desired.persistence.storage_class_name
    if asked is not None and (claim.spec.storage_class_name or "") != asked:
        current = claim.spec.storage_class_name or "none"
        found.append(blocked("ClaimDiffers", f"{name} has the storage class {current}, which cannot become {asked}"))
    if desired.persistence.access_modes and set(claim.spec.access_modes) != set(desired.access_modes):
        current, modes = ", ".join(claim.spec.access_modes), ", ".join(desired.access_modes)
        found.append(blocked("ClaimDiffers", f"{name} has the access modes {current}, which cannot become {modes}"))
    return found


def claim_wait(observed: ObservedCluster, desired: DesiredClaim | None) -> Outcome | None:
    """Return why a Pod that mounts a claim is not created yet, or None.

    Args:
        observed: The objects that exist.
        desired: The claim; None when the Pod mounts none that the operator creates.
    """
    if desired is None:
        return None
    claim = observed.claims.get(desired.name)
    ready = claim is not None and is_ours(claim, desired.owner) and not claim.terminating
    return None if ready else wait("ClaimNotReady")


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


def _used(observed: ObservedCluster, claim: PersistentVolumeClaimView) -> bool:
    """Return whether a Pod of the claim's name exists, terminating Pods included."""
    return any(pod.name == claim.name for pod in observed.views.labelled_pods)


def _without_instance(claim: PersistentVolumeClaimView, changes: dict[str, Any]) -> dict[str, Any]:
    """Return a merge patch that takes the operator's instance label off as well; see `Identity.retained_labels`."""
    if claim.labels.get(INSTANCE_LABEL) != claim.labels.get(CLUSTER_LABEL) or INSTANCE_LABEL not in claim.labels:
        return changes
    metadata = {"resourceVersion": claim.metadata.resource_version, **changes.get("metadata", {})}
    return {**changes, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), INSTANCE_LABEL: None}}}


def _owners(claim: PersistentVolumeClaimView, *, keep: bool, owner: Identity) -> dict[str, Any]:
    """Return the merge patch that adds or removes this FlameCluster as the owner of a claim."""
    others = [
        {
            "apiVersion": each.api_version,
            "kind": each.kind,
            "name": each.name,
            "uid": each.uid,
            "controller": each.controller,
            "blockOwnerDeletion": each.block_owner_deletion,
        }
        for each in claim.metadata.owner_references
        if each.uid != owner.uid
    ]
    references = [*others, *([owner.owner_reference()] if keep else [])]
    return {"metadata": {"ownerReferences": references, "resourceVersion": claim.metadata.resource_version}}


def _size(quantity: int | str | None) -> Any:
    try:
        return parse_quantity(quantity if quantity is not None else 0)
    except ValueError:
        return parse_quantity(0)
