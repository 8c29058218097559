"""The outcomes about claims that are in danger, that have yet to be retained, or whose file system has yet to grow."""

from flamectl_operator.api.constants import CONFIRM_CLAIM_LOSS_ANNOTATION
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import PersistentVolumeClaimView
from flamectl_operator.observed.claims import PHASE_LOST
from flamectl_operator.observed.cluster import ObservedCluster
from flamectl_operator.planning.effective.effective_spec import EffectiveSpec
from flamectl_operator.runtime.outcome import Outcome, blocked, wait
from flamectl_operator.runtime.text import listing

#: The reason of an outcome for a claim that is being deleted while a Pod keeps it. `claims_in_danger` has the message, and the
#: decisions about Pods wait without one.
CLAIM_TERMINATING = "ClaimTerminating"
KEEPS_CLAIM = wait(CLAIM_TERMINATING)
#: The reason of an outcome for a claim whose volume is gone, or belongs to an earlier claim of its name.
CLAIM_LOST = "ClaimLost"
#: The condition of a claim whose file system has yet to grow, and the reason of the outcome that reports it while all is well.
FILE_SYSTEM_RESIZE_PENDING = "FileSystemResizePending"
#: How many claims a message names.
_MAX_NAMED = 2


def claims_in_danger(observed: ObservedCluster) -> list[Outcome]:
    """Return the outcomes for users' lost claims, for claims made anew, and for claims in deletion that Pods keep."""
    users, known = observed.claim_users, observed.known_claims
    claims = [claim for name in sorted(users) if (claim := known.find(name)) is not None]
    lost = [each for each in claims if each.status.phase == PHASE_LOST]
    going = [each for each in claims if each.terminating and each.uid not in known.confirmed]
    anew = [(each.pod, claim) for each in observed.components if (claim := known.made_anew(each.pod)) is not None]
    return [
        *([_terminating(going, claims, observed)] if going else ()),
        *map(lost_claim, lost),
        *(_made_anew(pod, claim, observed.owner.name) for pod, claim in anew[:_MAX_NAMED]),
    ]


def claims_yet_to_retain(observed: ObservedCluster, effective: EffectiveSpec) -> list[Outcome]:
    """Return the outcome for the first claim that must be retained but still has its owner, because the cluster is paused."""
    for desired in effective.desired.claims:
        claim = observed.claims.get(desired.name)
        if desired.retained and claim is not None and claim.controlled_by(observed.owner.uid):
            what = f'PersistentVolumeClaim "{claim.name}" would still be deleted with the FlameCluster'
            return [wait("Paused", f"{what}: deletionPolicy applies after the pause")]
    return []


def _made_anew(pod: PodView, claim: PersistentVolumeClaimView, cluster: str) -> Outcome:
    what = f'Pod "{pod.name}" still uses the volume of an earlier PersistentVolumeClaim "{claim.name}", which a new one replaced'
    return blocked(CLAIM_LOST, f"{what}; copy the data, then confirm: {_confirm(cluster, claim.uid)}")


def _confirm(cluster: str, uids: str) -> str:
    """Return the command that confirms a loss."""
    return f"kubectl annotate flc {cluster} --overwrite {CONFIRM_CLAIM_LOSS_ANNOTATION}={uids}"


def _terminating(
    going: list[PersistentVolumeClaimView], claims: list[PersistentVolumeClaimView], observed: ObservedCluster
) -> Outcome:
    """Return the outcome with the command that confirms the loss; a message has room for two uids."""
    users, known = observed.claim_users, observed.known_claims
    uids = [each.uid for each in claims if each in going or (each.terminating and each.uid in known.confirmed)]
    names = listing([f'"{each.name}"' for each in going], _MAX_NAMED)
    if len(going) == 1:
        pods = users[going[0].name]
        keep = f'Pod "{pods[0]}" keeps it' if len(pods) == 1 else f'{len(pods)} Pods, such as "{pods[0]}", keep it'
        what = f"PersistentVolumeClaim {names} is being deleted, and {keep}"
    else:
        what = f"PersistentVolumeClaims {names} are being deleted, and Pods keep them"
    value = ",".join(uids) if len(uids) <= _MAX_NAMED else "UID,UID..."
    command = _confirm(observed.owner.name, value)
    return blocked(CLAIM_TERMINATING, f"{what}; copy the data, then confirm: {command}")


def lost_claim(claim: PersistentVolumeClaimView) -> Outcome:
    """Return the outcome for a claim that has lost its volume."""
    return blocked(
        CLAIM_LOST,
        f'PersistentVolumeClaim "{claim.name}" has lost its volume (phase Lost), because somebody deleted the'
        " PersistentVolume; no Pod that mounts it is deleted, because another one could not start; restore the"
        " PersistentVolume, or delete the claim",
    )
