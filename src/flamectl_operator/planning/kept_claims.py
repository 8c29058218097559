"""Claims that are being deleted while Pods keep them, and claims that have lost their volume."""

from __future__ import annotations

from flamectl_operator.api.constants import CLUSTER_LABEL, CONFIRM_CLAIM_LOSS_ANNOTATION
from flamectl_operator.kube.views import PersistentVolumeClaimView
from flamectl_operator.observed.claims import LOST
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.runtime.outcome import Outcome, blocked, wait

#: The reason of an outcome for a claim that is being deleted while a Pod keeps it. `claims_in_danger` has the message, and the
#: decisions about Pods wait without one.
CLAIM_TERMINATING = "ClaimTerminating"
KEEPS_CLAIM = wait(CLAIM_TERMINATING)
#: How many claims a message names.
_NAMED = 2


def claims_in_danger(observed: ObservedCluster) -> list[Outcome]:
    """Return an outcome for all claims that are being deleted while Pods keep them, and for users' claims that are lost."""
    users, known = observed.claim_users, observed.known_claims
    claims = [claim for name in sorted(users) if (claim := known.find(name)) is not None]
    lost = [each for each in claims if each.status.phase == LOST and CLUSTER_LABEL not in each.labels]
    going = [each for each in claims if each.terminating and each.uid not in known.confirmed]
    return [*([_terminating(going, claims, observed)] if going else ()), *map(lost_claim, lost)]


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


def lost_claim(claim: PersistentVolumeClaimView) -> Outcome:
    """Return the outcome for a claim that has lost its volume."""
    return blocked(
        "ClaimLost",
        f'PersistentVolumeClaim "{claim.name}" has lost its volume (phase Lost), because somebody deleted the'
        " PersistentVolume; no Pod that mounts it is deleted, because another one could not start; restore the"
        " PersistentVolume, or delete the claim",
    )
