"""Invariants of object caches and PersistentVolumeClaims, judged when a write is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.api.constants import CLAIM_ANNOTATION
from tests.simulation.objects import (
    CLAIMS,
    FLAME_CLUSTERS,
    PODS,
    REVISION_ANNOTATION,
    Obj,
    annotations_of,
    cache_ordinal,
    controller_uid,
    key_of,
    manager_key,
    moment,
    mounted_claims,
    name_of,
    orphaned,
    ready,
    terminal,
    terminating,
    uid_of,
)
from tests.simulation.passes import pass_begun
from tests.simulation.specs import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.api_server import ApiServer, Change
    from tests.simulation.client import ModelClient
    from tests.simulation.loop import VirtualLoop
    from tests.simulation.specs import Wanted


def keeps_claim(server: ApiServer, pod: Obj) -> bool:
    """Return whether a Pod keeps a claim that is being deleted. No user of these worlds confirms the loss of one."""
    if not pod["spec"].get("nodeName"):
        return False
    claims = (server.find(CLAIMS, (key_of(pod)[0], name)) for name in mounted_claims(pod))
    return any(claim is not None and terminating(claim) for claim in claims)


class Caches:
    """Looks at each object cache that operators make or delete, and at each claim that they delete.

    Args:
        server: The API server.
        loop: Gives the time.
        blame: Called when something is wrong.
    """

    def __init__(self, server: ApiServer, loop: VirtualLoop, blame: Callable[[str], None]) -> None:
        self._server = server
        self._loop = loop
        self._blame = blame
        #: Since when each FlameCluster has been going, or gone, by uid.
        self._going: dict[str, float] = {}
        #: Since when each claim has been going, by uid.
        self._claims_going: dict[str, float] = {}
        server.listeners.append(self._observe)

    def _observe(self, change: Change) -> None:
        gone = change.new is None or terminating(change.new)
        if change.resource == FLAME_CLUSTERS and gone:
            self._going.setdefault(uid_of(change.last), self._loop.now)
        elif change.resource == FLAME_CLUSTERS:
            self._going.pop(uid_of(change.last), None)  # its deletion is undone, if there was one: etcd was set back
        if change.resource == CLAIMS and change.new is not None and gone:
            self._claims_going.setdefault(uid_of(change.new), self._loop.now)
        elif change.resource == CLAIMS:
            self._claims_going.pop(uid_of(change.last), None)  # gone, or its deletion is undone

    def known(self, client: ModelClient, cluster: Obj) -> list[Obj]:
        """The object caches of a FlameCluster, as far as a process knows."""
        pods = client.knowledge.owned(PODS, uid_of(cluster))
        return [pod for pod in pods if cache_ordinal(name_of(cluster), name_of(pod)) is not None]

    def claim_going(self, client: ModelClient, cluster: Obj) -> bool:
        """Return whether a Pod of a FlameCluster, as far as a process knows, keeps a claim in danger.

        That is a claim that is being deleted, one that vanished and was made anew, so that only the Pod has the volume, or one
        that cannot be read. A pass decides once, when it begins, and the Pod or the claim may be gone since.
        """

        def in_danger(pod: Obj) -> bool:
            keys = [(key_of(pod)[0], name) for name in mounted_claims(pod)]
            claims = [claim for key in keys for claim in client.knowledge.claims(key, pass_begun())]
            placed = bool(pod["spec"].get("nodeName"))
            mounted = annotations_of(pod).get(CLAIM_ANNOTATION) if placed else None
            made_anew = mounted is not None and any(uid_of(claim) != mounted for claim in claims)
            unread = placed and any(client.knowledge.unread(key, pass_begun()) for key in keys)
            return made_anew or unread or keeps_claim(self._server, pod) or any(map(terminating, claims))

        uid = uid_of(cluster)
        gone = client.knowledge.unmounted(uid, pass_begun())
        return gone or any(map(in_danger, client.knowledge.owned(PODS, uid)))

    def creating(self, client: ModelClient, cluster: Obj, pod: Obj) -> None:
        """A Pod is about to be made: a claim that it mounts comes first, and nobody makes an object cache too many."""
        specs = _valid(client.knowledge.specs(cluster, pass_begun()))
        ordinal, what = cache_ordinal(name_of(cluster), name_of(pod)), f"{client.name} creates {name_of(pod)}"
        waits = self.claim_going(client, cluster)  # so that a suspension does not begin
        if ordinal is not None and specs and not waits and all(want.caches <= ordinal for want in specs):
            self._blame(f"{what}, though {max(want.caches for want in specs)} object caches are wanted")
        for name in mounted_claims(pod):
            key = (cluster["metadata"]["namespace"], name)
            claim = client.knowledge.named(CLAIMS, key)
            lost = client.knowledge.claims_lost.get(key, 0.0)
            if (claim is None or terminating(claim)) and lost < pass_begun():
                self._blame(f"{what}, though it knows of no claim {name} that would stay")

    def forced(self, client: ModelClient, pod: Obj) -> None:
        """A Pod is deleted by force: not one that may still write to a claim, whatever the spec says now."""
        if mounted_claims(pod):
            self._blame(f"{client.name} deletes {name_of(pod)} by force, which may still write to its claim")

    def takes_claims(self, client: ModelClient, pod: Obj) -> None:
        """A Pod is deleted: not one that keeps a claim which was deleted before the pass, because a pass reads it first."""
        for name in mounted_claims(pod) if pod["spec"].get("nodeName") else ():
            claim = self._server.find(CLAIMS, (key_of(pod)[0], name))
            if claim is not None and self._claims_going.get(uid_of(claim), pass_begun()) < pass_begun():
                self._blame(f"{client.name} deletes {name_of(pod)}, which keeps claim {name} that is being deleted")

    def deleted(self, client: ModelClient, cluster: Obj, pod: Obj, ordinal: int) -> None:
        """An object cache is deleted."""
        known = client.knowledge.specs(cluster, pass_begun())
        specs = _valid(known)
        if len(specs) < len(known) or client.knowledge.suspending_since(cluster, pass_begun()):
            return
        if any(want.suspend or ordinal >= want.caches for want in specs):
            return
        what = f"{client.name} deletes {name_of(pod)}"
        revision = annotations_of(pod).get(REVISION_ANNOTATION)
        if terminal(pod):
            current = all(want.cache_revision == revision for want in specs)
            if current and self._uncounted(client, cluster, pod):
                self._blame(f"{what}, which has failed, before that is counted")
            return
        if all(want.cache_revision == revision for want in specs):
            self._blame(f"{what} for no reason")
        if not client.knowledge.served(manager_key(cluster), pass_begun()):
            self._blame(f"{what} before the session manager is ready")
        if not ready(pod):
            return
        least = min(want.caches for want in specs)
        others = {
            name_of(each)
            for each in self.known(client, cluster)
            if each is not pod and ready(each) and uid_of(each) not in client.knowledge.leaving
        }
        missing = [
            name
            for name in (f"{name_of(cluster)}-object-cache-{number}" for number in range(least))
            if name not in others | {name_of(pod)}
        ]
        if missing:
            self._blame(f"{what}, which is ready, while {missing[0]} is not")

    def _uncounted(self, client: ModelClient, cluster: Obj, pod: Obj) -> bool:
        """Return whether an object cache failed before the pass began, as far as known, and no status counts it."""
        return (
            not terminating(pod)
            and not orphaned(pod)
            and uid_of(pod) not in client.knowledge.counted
            and client.knowledge.surely_counted(uid_of(pod), pass_begun())
            and uid_of(pod) not in client.knowledge.left(uid_of(cluster), pass_begun())
            # It has not worked for long, even if its node's clock says so.
            and self._loop.now - moment(pod["metadata"]["creationTimestamp"]) < SETTINGS.stable_after_seconds - 1
        )

    def claim_patched(self, client: ModelClient, claim: Obj, metadata: Obj) -> None:
        """A claim is changed: one that belongs to nobody gets no owner that is gone, or it would go as well."""
        owners = {each["uid"] for each in metadata.get("ownerReferences") or ()} - {controller_uid(claim)}
        if any(self._going.get(uid, pass_begun()) < pass_begun() for uid in owners):
            self._blame(f"{client.name} gives claim {name_of(claim)} an owner that is going or gone")

    def claim_deleted(self, client: ModelClient, cluster: Obj, claim: Obj) -> None:
        """A claim is deleted, and with it all that it holds."""
        what, key = f"{client.name} deletes claim {name_of(claim)}", key_of(claim)
        specs = _valid(client.knowledge.specs(cluster, pass_begun()))
        ordinal = cache_ordinal(name_of(cluster), name_of(claim))
        if ordinal is None or all(ordinal < want.caches for want in specs):
            self._blame(f"{what}, which is needed")
        if all(want.retains_caches for want in specs):
            self._blame(f"{what}, which is to be retained")
        if controller_uid(claim) != uid_of(cluster):
            self._blame(f"{what}, which has another owner, or none")
        for pod in self._server.tables[PODS].values():
            # A step that asked for such a Pod in this pass need not have seen one that was made meanwhile.
            seen = moment(pod["metadata"]["creationTimestamp"]) + 1 < pass_begun()
            if pod["metadata"]["namespace"] == key[0] and key[1] in mounted_claims(pod) and seen:
                self._blame(f"{what}, which {name_of(pod)} uses")


def _valid(specs: list[Wanted]) -> list[Wanted]:
    return [want for want in specs if want.spec is not None]
