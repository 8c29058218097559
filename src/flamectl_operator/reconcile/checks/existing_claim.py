"""Checks an existing PersistentVolumeClaim before the Pod that mounts it is created, or another is deleted for that Pod.

The watch shows labelled claims only, so a claim that a user made is read. Without this read the Pod stays Pending and only the
scheduler says why, and a recreated, empty claim looks like the old one.

The `existingClaim` of one FlameCluster may name the claim of another one, such as a retained claim or that of a suspended
FlameCluster. So a claim that the operator made may be in use as well.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from flamectl_operator.api.constants import CLUSTER_LABEL
from flamectl_operator.api.fields.persistence import Persistence
from flamectl_operator.desired.claims import DesiredClaim
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.kube.errors import KubernetesError
from flamectl_operator.kube.resources import CLAIMS
from flamectl_operator.kube.views import PersistentVolumeClaimView
from flamectl_operator.observed.claims import PHASE_LOST
from flamectl_operator.observed.pods import TERMINAL_PHASES
from flamectl_operator.planning.claim_outcomes import KEEPS_CLAIM, lost_claim
from flamectl_operator.planning.termination import finalizers_in_brackets
from flamectl_operator.reconcile.checks.claim_volume import volume_wait
from flamectl_operator.reconcile.checks.missing_config_maps import missing_config_map
from flamectl_operator.reconcile.objects.cluster_reads import ClusterReads
from flamectl_operator.reconcile.objects.outcomes import TAKEN_NAME_RECHECK_SECONDS
from flamectl_operator.reconcile.refusals.error import RefusedError
from flamectl_operator.runtime.outcome import Outcome, blocked

#: The end of a message about a claim of a new Pod, for which a present Pod would be deleted.
_NOT_DELETED = "; the present Pods stay, because their replacements could not start"


@dataclass(frozen=True)
class _Mount:
    """A claim that a new Pod would mount, as messages name it, and whether a present Pod would be deleted for the new one."""

    claim: str
    label: str
    replaces: bool = False

    @classmethod
    def of_replacement(cls, claim: str, field: str = "") -> "_Mount":
        """Return the mount of a Pod that would replace a present one, with the field that names the claim if it is a user's."""
        of = f" of {field}" if field else ""
        return cls(claim, f'PersistentVolumeClaim "{claim}"{of}, which a new Pod would mount,', replaces=True)

    @property
    def consequence(self) -> str:
        """The end of a message."""
        return _NOT_DELETED if self.replaces else ""


async def reserve_claim(
    reads: ClusterReads, field: str, persistence: Persistence | None, own: PersistentVolumeClaimView | None
) -> PersistentVolumeClaimView | Outcome | None:
    """Reserve the claim that a component's Pod mounts, by the `existingClaim` or the operator's own, until `mount_reserved` ends.

    Return it, or why no Pod can mount it; None when the Pod mounts none.
    """
    if persistence is None:
        return None
    if (name := persistence.existing_claim) is not None:
        mount = _Mount(name, f'PersistentVolumeClaim "{name}" of {field}.persistence.existingClaim')
        claim = await _mountable(reads, mount)
        if isinstance(claim, Outcome):
            return claim
        return _unusable(claim, mount) or _reserve(reads, claim, mount) or claim
    if own is None:
        return None
    mount = _Mount(own.name, f'PersistentVolumeClaim "{own.name}" of {field}.persistence')
    return _mounted_by_another(reads, own, mount) or _reserve(reads, own, mount) or own


async def replacement_wait(
    reads: ClusterReads, template: ComponentTemplate, created: Collection[DesiredClaim]
) -> Outcome | None:
    """Return why a new Pod could not start: a ConfigMap, or a claim that is not `created` with it, is missing or unusable."""
    for own in (each for each in created if each.component == template.component):
        claim = reads.stores.claims.get(reads.owner.namespace, own.name)
        if claim is None:
            continue
        mount = _Mount.of_replacement(own.name)
        obstacle = _mounted_by_another(reads, claim, mount)
        pod = reads.stores.pods.get(reads.owner.namespace, own.name)
        # A Pod that mounts a claim without a volume does not run, so nothing is lost with it.
        if obstacle is None and pod is not None and own.name not in pod.claim_names:
            advice = f"correct {template.field}.persistence.storageClassName, or {_see(own.name)}"
            obstacle = await volume_wait(reads, claim, mount.label, advice)
        if obstacle is not None:
            return obstacle
    for name in sorted(template.claim_names.difference(each.name for each in created)):
        asked = name in template.asked_claims
        named_by = "podTemplate.spec.volumes" if asked else "persistence.existingClaim"
        mount = _Mount.of_replacement(name, f"{template.field}.{named_by}")
        found = await _mountable(reads, mount)
        if not isinstance(found, Outcome) and not asked:
            found = _unusable(found, mount) or found
        if not isinstance(found, Outcome):
            found = await volume_wait(reads, found, mount.label, _see(name)) or found
        if isinstance(found, Outcome):
            return found
    return await missing_config_map(reads, template, _NOT_DELETED)


@contextmanager
def mount_reserved(reads: ClusterReads, claim: PersistentVolumeClaimView | None) -> Iterator[None]:
    """End the reservation of the claim, if any, after the block has created its Pod, unless the outcome is unknown."""
    try:
        yield
    except (KubernetesError, RefusedError) as error:
        if claim is not None and not getattr(error, "outcome_unknown", False):
            reads.stores.claim_reservations.end(claim.uid, reads.owner.uid)
        raise
    if claim is not None:
        reads.stores.claim_reservations.end(claim.uid, reads.owner.uid)


def _kept(reads: ClusterReads, claim: PersistentVolumeClaimView, pod: str) -> Outcome:
    """Return the outcome for a claim that is being deleted and that a Pod of this FlameCluster keeps.

    Until a user has confirmed its loss, `claims_in_danger` reports it.
    """
    if claim.uid not in reads.claims.losses_confirmed:
        return KEEPS_CLAIM
    what = f'{_Mount.of_replacement(claim.name).label} is being deleted, and Pod "{pod}" keeps it'
    steps = "set spec.suspend to true, create the claim again when it is gone, and set spec.suspend to false"
    return blocked("ClaimNotFound", f"{what}; {steps}", TAKEN_NAME_RECHECK_SECONDS)


async def _mountable(reads: ClusterReads, mount: _Mount) -> PersistentVolumeClaimView | Outcome:
    """Read a claim; return it, or why no new Pod could mount it."""
    claim = await reads.read(CLAIMS, mount.claim)
    users = reads.observe().claim_users.get(mount.claim) if mount.replaces else None
    if claim is not None and claim.terminating and users:
        reads.claims.note(claim.name, claim)
        return _kept(reads, claim, users[0])
    if claim is None or claim.terminating:
        how, advice = "does not exist", "create it"
        if claim is not None:
            how, advice = f"is being deleted{finalizers_in_brackets(claim)}", "create it again when it is gone"
        message = f"{mount.label} {how}{mount.consequence} ({advice}, or name another claim)"
        return blocked("ClaimNotFound", message, TAKEN_NAME_RECHECK_SECONDS)
    if claim.status.phase == PHASE_LOST:
        return replace(lost_claim(claim), delay=TAKEN_NAME_RECHECK_SECONDS)
    return _mounted_by_another(reads, claim, mount) or claim


def _unusable(claim: PersistentVolumeClaimView, mount: _Mount) -> Outcome | None:
    """Return why the operator cannot mount a claim that a user made for the data of a component; None when it can."""
    if claim.spec.volume_mode == "Block":
        why = "has the volumeMode Block, and data needs Filesystem"
    elif set(claim.spec.access_modes) == {"ReadOnlyMany"}:
        why = "has the access mode ReadOnlyMany alone, and data is written"
    else:
        return None
    message = f"{mount.label} {why}{mount.consequence}; name another claim"
    return blocked("ClaimDiffers", message, TAKEN_NAME_RECHECK_SECONDS)


def in_use(reads: ClusterReads, claim: PersistentVolumeClaimView) -> Outcome | None:
    """Return the outcome for a claim that a Pod of another FlameCluster mounts and that has not ended; None when none does."""
    return _mounted_by_another(reads, claim, _Mount(claim.name, f'PersistentVolumeClaim "{claim.name}"'))


def _mounted_by_another(reads: ClusterReads, claim: PersistentVolumeClaimView, mount: _Mount) -> Outcome | None:
    for pod in reads.stores.pods.users((reads.owner.namespace, claim.uid)):
        if not pod.controlled_by(reads.owner.uid) and pod.status.phase not in TERMINAL_PHASES:
            use = f'is used by Pod "{pod.name}" of FlameCluster "{pod.labels[CLUSTER_LABEL]}"{mount.consequence}'
            return _used(mount, use)
    return None


def _reserve(reads: ClusterReads, claim: PersistentVolumeClaimView, mount: _Mount) -> Outcome | None:
    other = reads.stores.claim_reservations.take(claim.uid, reads.owner.name, reads.owner.uid, reads.clock.monotonic())
    if other is None:
        return None
    return _used(mount, f'is reserved for FlameCluster "{other}", which is about to create its Pod')


def _see(name: str) -> str:
    return f"see kubectl describe pvc {name}"


def _used(mount: _Mount, use: str) -> Outcome:
    message = f"{mount.label} {use}; give each FlameCluster a claim of its own"
    return blocked("ClaimInUse", message, TAKEN_NAME_RECHECK_SECONDS)
