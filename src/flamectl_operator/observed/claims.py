"""PersistentVolumeClaims that Pods mount, and the Pods that keep a claim in danger.

A claim that is being deleted stays for as long as a Pod with a node mounts it, whether that Pod runs or is over. The last such
Pod takes the claim with it, and the data too unless the volume is retained. A claim whose volume is gone is of use only to the
Pods that have mounted it, because no other Pod can start with it. A claim that vanished under a Pod, because somebody took its
finalizers off, and that was made anew, holds nothing: only that Pod still has the data. So the operator deletes no such Pod.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flamectl_operator.api.constants import CLAIM_ANNOTATION
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import PersistentVolumeClaimView
from flamectl_operator.observed.pods import condition

#: The phases of a claim: without a volume so far, with one, and with one that is gone.
PHASE_PENDING = "Pending"
PHASE_BOUND = "Bound"
PHASE_LOST = "Lost"


@dataclass(frozen=True)
class KnownClaims:
    """The claims that are known by name.

    Args:
        labelled: The claims that the watch shows.
        read: The other claims that Pods mount, as they were last read; None for one that does not exist.
        confirmed: uids of claims whose loss a user has confirmed.
    """

    labelled: Mapping[str, PersistentVolumeClaimView] = field(default_factory=dict)
    read: Mapping[str, PersistentVolumeClaimView | None] = field(default_factory=dict)
    confirmed: frozenset[str] = frozenset()

    def find(self, name: str) -> PersistentVolumeClaimView | None:
        """Return a claim; None when it does not exist, or is not known."""
        return self.labelled.get(name) or self.read.get(name)

    def unknown(self, name: str) -> bool:
        """Return whether a claim has not been read yet, so that nothing is known about it."""
        return name not in self.labelled and name not in self.read

    def in_danger(self, name: str) -> bool:
        """Return whether a claim is being deleted or has lost its volume, unless a user has confirmed its loss."""
        claim = self.find(name)
        if claim is None or claim.uid in self.confirmed:
            return False
        return claim.terminating or claim.status.phase == PHASE_LOST

    def made_anew(self, pod: PodView) -> PersistentVolumeClaimView | None:
        """Return the claim that has the name of the one that a Pod mounts, and is another one; None when its loss is confirmed.

        The Pod records the uid of its claim. Only a claim that is too young for the Pod counts, as annotations can be edited.
        """
        mounted = pod.annotations.get(CLAIM_ANNOTATION)
        claims = [claim for name in pod.claim_names if (claim := self.find(name)) is not None]
        if mounted is None or any(claim.uid == mounted for claim in claims):
            return None
        return next((claim for claim in claims if claim.uid not in self.confirmed and made_too_late(claim, pod)), None)

    def must_stay(self, pod: PodView) -> bool:
        """Return whether a Pod must stay: it keeps a claim in danger or the volume of an earlier one, or one is not read yet."""
        if not pod.spec.volumes or not pod.spec.node_name:
            return False
        unsafe = any(self.unknown(name) or self.in_danger(name) for name in pod.claim_names)
        return unsafe or self.made_anew(pod) is not None


def made_too_late(claim: PersistentVolumeClaimView, pod: PodView) -> bool:
    """Return whether a claim was made after a Pod got its node, so that the Pod mounts an earlier claim of that name.

    A Pod whose claim does not exist gets no node before the claim is made anew.
    """
    made, scheduled = claim.metadata.creation_timestamp, condition(pod, "PodScheduled")
    placed = pod.metadata.creation_timestamp
    if scheduled is not None and scheduled.status == "True":
        placed = scheduled.last_transition_time or placed
    return bool(pod.spec.node_name) and made is not None and placed is not None and made > placed


def users_of_claims(pods: Iterable[PodView]) -> dict[str, list[str]]:
    """Return the names of Pods by the claim that they keep. A Pod without a node keeps none."""
    found: dict[str, list[str]] = {}
    for pod in pods:
        if pod.spec.volumes and pod.spec.node_name:
            for name in pod.claim_names:
                found.setdefault(name, []).append(pod.name)
    return found
