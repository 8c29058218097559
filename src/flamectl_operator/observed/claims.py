"""PersistentVolumeClaims that Pods mount, and the Pods that keep a claim in danger.

A claim that is being deleted stays for as long as a Pod with a node mounts it, whether that Pod runs or is over. The last such
Pod takes the claim with it, and the data too unless the volume is retained. A claim whose volume is gone is of use only to the
Pods that have mounted it, because no other Pod can start with it. So the operator deletes none of these Pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import PersistentVolumeClaimView

#: The phase of a claim whose volume is gone.
LOST = "Lost"


@dataclass(frozen=True)
class KnownClaims:
    """The claims that are known by name.

    Args:
        labelled: The claims that the watch shows, in the namespace of the FlameCluster.
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
        return claim.terminating or claim.status.phase == LOST

    def keep(self, pod: PodView) -> bool:
        """Return whether a Pod must stay: it keeps a claim in danger, or one that has not been read yet."""
        if not pod.spec.volumes or not pod.spec.node_name:
            return False
        return any(self.unknown(name) or self.in_danger(name) for name in pod.claim_names)


def users_of_claims(pods: Iterable[PodView]) -> dict[str, list[str]]:
    """Return the names of Pods by the claim that they keep. A Pod without a node keeps none."""
    found: dict[str, list[str]] = {}
    for pod in pods:
        if pod.spec.volumes and pod.spec.node_name:
            for name in pod.claim_names:
                found.setdefault(name, []).append(pod.name)
    return found
