"""The sources of a snapshot: the objects in the stores, what was read past them, and what the session manager said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import is_

from flamectl_operator.api.constants import COMMON_KEYS_ANNOTATION
from flamectl_operator.flame import knowledge
from flamectl_operator.flame.knowledge import Knowledge
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import KubernetesObject, PersistentVolumeClaimView
from flamectl_operator.observed.incarnation import UNKNOWN_SESSION_MANAGER, WantedSessionManager
from flamectl_operator.runtime.lazy import cached_property

_NONE_READ: dict[str, PersistentVolumeClaimView | None] = {}


@dataclass(frozen=True)
class Sources:
    """The objects with the names or the label of a FlameCluster's children, with any owner, and what else is known of them.

    Args:
        children: The objects with names of children that are kept as their manifests say, by kind and name.
        labelled_pods: All Pods with the FlameCluster's label, in its namespace.
        claims: All PersistentVolumeClaims with the FlameCluster's label, in its namespace.
        quota_refused: Names whose create in this pass or the last a quota refused, each with the time since when, by `boottime`,
            or None if the end of other Pods cannot help; without executors, which nothing asks for.
        claims_read: Claims without the label that Pods mount, as they were last read.
        out_of_view: Executors that the watch no longer shows and that run on, as they were last read.
        losses_confirmed: uids of claims whose loss a user has confirmed.
    """

    children: Mapping[tuple[str, str], KubernetesObject]
    labelled_pods: tuple[PodView, ...]
    claims: tuple[PersistentVolumeClaimView, ...] = ()
    flame: Knowledge = knowledge.NOT_ASKED
    quota_refused: Mapping[str, float | None] = field(default_factory=dict)
    claims_read: Mapping[str, PersistentVolumeClaimView | None] = field(default_factory=lambda: _NONE_READ)
    out_of_view: tuple[PodView, ...] = ()
    losses_confirmed: frozenset[str] = frozenset()
    wanted_session_manager: WantedSessionManager = UNKNOWN_SESSION_MANAGER

    def same(self, other: Sources) -> bool:
        """Return whether these are the same objects by identity, because the stores never change an object in place."""
        return (
            self.labelled_pods is other.labelled_pods
            and self.claims is other.claims
            and self.flame is other.flame
            and self.claims_read is other.claims_read
            and self.out_of_view is other.out_of_view
            and (self.quota_refused, self.losses_confirmed) == (other.quota_refused, other.losses_confirmed)
            and self.wanted_session_manager == other.wanted_session_manager
            and self.children.keys() == other.children.keys()
            and all(map(is_, self.children.values(), other.children.values()))
        )

    @cached_property
    def lists_common_keys(self) -> bool:
        """Whether an object lists keys of `commonLabels` or `commonAnnotations`; see `CommonMetadata`."""
        objects: Iterable[KubernetesObject] = chain(self.labelled_pods, self.claims, self.children.values())
        # A list costs no call for each Pod.
        return True in [COMMON_KEYS_ANNOTATION in (each.metadata.annotations or ()) for each in objects]
