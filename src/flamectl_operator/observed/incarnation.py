"""The incarnation of a session manager that executors belong to: a session manager knows only executors that it saw start.

An incarnation is one container. Its identity is the container's id, or the time of its start where there is none. The count of
restarts is no identity, because a kubelet that lost a container, as after a cleanup of the container runtime, counts from zero
again.

Executors are created before the first container exists. They get `<uid>.0`, which stands for the first container of the Pod. The
status that says that the session manager is ready records the identity of that container, so that `<uid>.0` stays unambiguous.
Every later incarnation is `<uid>.<identity>`. Earlier versions wrote `<uid>.<restarts>`, which holds while both agree, and
recorded the first container in an annotation of the Pod.

Anybody who may write Pods may edit annotations, and a few may edit the status. A record in another form than the operator writes
is ignored.
The spec and the claim also say which storage a session manager uses, and they take precedence over the annotation.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from flamectl_operator.api.constants import (
    FIRST_CONTAINER_ANNOTATION,
    REVISION_ANNOTATION,
    SESSION_MANAGER,
    SESSION_STORE_ANNOTATION,
)
from flamectl_operator.api.status import FlameClusterStatus
from flamectl_operator.desired import names
from flamectl_operator.desired.cluster import DesiredCluster
from flamectl_operator.desired.revision import is_fingerprint
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import PersistentVolumeClaimView
from flamectl_operator.observed import pods
from flamectl_operator.observed.claims import KnownClaims, made_too_late
from flamectl_operator.observed.component import Component

#: The identity of a container: its id with the runtime, or the time of its start.
_CONTAINER = re.compile(r"[\w.+-]+://\S+|\d{4}-\d\d-\d\dT\S+")
#: A storage and the uid of its claim.
_STORE = re.compile(r"[0-9a-z]+\.[\w-]+")


@dataclass(frozen=True)
class WantedSessionManager:
    """The session manager that the spec asks for, by which its Pod is read: annotations of the Pod may have been edited.

    Args:
        recorded: The revision in the status of a Pod that is not stale, or the wanted one if the status is lost; empty while the
            Pod waits for a change of the spec.
        stale_pod: The uid and the revision of the stale Pod, as the status records them; without the uid if the Pod lacked
            its label when its revision changed.
        store: The storage in which it keeps its sessions, without the claim; empty when they do not persist.
        recorded_container: The uid of a Pod and the identity of its first container, as the status records them.
        stale_store: The storage of a stale Pod, with the claim, as the pass found it; empty when its sessions do not persist.
    """

    revision: str = ""
    recorded: str = ""
    stale_pod: str = ""
    store: str = ""
    claim: str = ""
    recorded_container: str = ""
    stale_store: str = ""

    @classmethod
    def of(cls, desired: DesiredCluster | None, stored: FlameClusterStatus) -> "WantedSessionManager":
        """Return the session manager that the spec asks for; without a valid spec only its first container is known."""
        known = stored.session_manager
        container = known.first_container or ""
        if desired is None:
            return cls(recorded_container=container)
        revision, persistence = desired.session_manager.revision, desired.spec.session_manager.persistence
        # A CRD that does not know `stalePod` drops the record of a Pod that waits.
        recorded = (known.revision or revision) if known.update_pending_since is None else ""
        stale = known.stale_pod or ""
        if persistence is None or not desired.session_store:
            return cls(revision, recorded, stale, recorded_container=container)
        claim = persistence.existing_claim or names.session_manager(desired.owner.name)
        return cls(revision, recorded, stale, desired.session_store, claim, container)

    def recording(self, stored: FlameClusterStatus) -> "WantedSessionManager":
        """Return the same session manager by what a newer status records of its Pod."""
        known = stored.session_manager
        return replace(self, stale_pod=known.stale_pod or "", recorded_container=known.first_container or "")

    def with_storage(
        self, manager: Component | None, claims: KnownClaims, named: Collection[str]
    ) -> "WantedSessionManager":
        """Return the same session manager with the storage of its stale Pod, whose annotation may be edited in the pass.

        If it was edited before, the executors may name the storage. If none belongs to this Pod alone, it is that of the spec.
        """
        if manager is None or manager.revision == self.revision:
            return self
        store = self.store_of(manager, claims)
        claim = claims.find(self.claim) if self.claim in manager.pod.claim_names else None
        if claim is not None and not made_too_late(claim, manager.pod) and not _lies_on(claim, store):
            stores = (each for each in named if _STORE.fullmatch(each) and _lies_on(claim, each))
            alone = any(each.startswith(f"{manager.pod.uid}.") for each in named)
            store = next(stores, "" if alone else on_claim(self.store, claim.uid))
        return replace(self, stale_store=store)

    def read(self, pod: PodView) -> Component:
        """Read the session manager's Pod.

        A Pod whose revision cannot be read has the recorded one, because to replace it costs the work of all executors.
        """
        if is_fingerprint(pod.annotations.get(REVISION_ANNOTATION, "")):
            return Component(pod)
        uid, _, revision = self.stale_pod.partition(".")
        stale = uid in {"", pod.uid} and is_fingerprint(revision)
        return Component(pod, known_revision=revision if stale else self.recorded)

    def store_of(self, manager: Component, claims: KnownClaims) -> str:
        """Return which storage a session manager keeps its sessions in; empty when they do not persist."""
        claim = claims.find(self.claim) if self.store and manager.revision == self.revision else None
        if (
            claim is not None
            and claim.metadata.creation_timestamp is not None
            and not made_too_late(claim, manager.pod)
        ):
            return on_claim(self.store, claim.uid)
        known = self.stale_store if manager.revision != self.revision else ""
        store = known or manager.pod.annotations.get(SESSION_STORE_ANNOTATION, "")
        return store if _STORE.fullmatch(store) else ""

    def first_container(self, pod: PodView) -> str:
        """Return the identity of the first container of a session manager's Pod; empty when it is not known."""
        uid, _, recorded = self.recorded_container.partition(".")
        known = recorded if uid == pod.uid else pod.annotations.get(FIRST_CONTAINER_ANNOTATION, "")
        if _CONTAINER.fullmatch(known):
            return known
        return _identity(pod) if pods.restarts(pod, SESSION_MANAGER) == 0 else ""

    def incarnation_of(self, manager: Component | None, store: str = "") -> str:
        """Return the incarnation of a session manager; empty without a live session manager.

        A session manager whose sessions persist continues where the one before it ended, so its incarnation is its storage.
        """
        if manager is None or not manager.live:
            return ""
        if store:
            return store
        identity, restarts = _identity(manager.pod), pods.restarts(manager.pod, SESSION_MANAGER)
        first = restarts == 0 and identity in {"", self.first_container(manager.pod)}
        return f"{manager.pod.uid}.{restarts if first or not identity else identity}"


UNKNOWN_SESSION_MANAGER = WantedSessionManager()


def on_claim(store: str, uid: str) -> str:
    """Return the identity of a storage on the claim with this uid: a claim that was made anew is another storage."""
    return f"{store}.{uid}"


def _lies_on(claim: PersistentVolumeClaimView, store: str) -> bool:
    return store.partition(".")[2] == claim.uid


def stale_pod(manager: Component) -> str:
    """Return what the status records of a session manager while it is stale, because an annotation alone may be edited."""
    return f"{manager.pod.uid}.{manager.revision}"


def other_names(manager: Component | None, store: str) -> tuple[str, ...]:
    """Return what else stands for the present incarnation of a session manager; see `WantedSessionManager.incarnation_of`.

    Earlier versions wrote a count of restarts. The identity of the present container is true even where it only seems to be the
    first one: somebody may remove the record of the first one, and the kubelet may lose its count.
    """
    if manager is None or not manager.live or store:
        return ()
    restarts, identity = pods.restarts(manager.pod, SESSION_MANAGER), _identity(manager.pod)
    names = (str(restarts) if restarts else "", identity)
    return tuple(f"{manager.pod.uid}.{each}" for each in names if each)


def _identity(pod: PodView) -> str:
    return pods.container_identity(pod, SESSION_MANAGER)
