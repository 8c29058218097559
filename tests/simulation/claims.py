"""PersistentVolumeClaims: their binding, and the protection of claims in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.api_server import ETCD
from tests.simulation.machines import without_finalizer
from tests.simulation.objects import (
    CLAIM_PROTECTION,
    CLAIMS,
    PODS,
    Key,
    Obj,
    key_of,
    mounted_claims,
    terminating,
    uid_of,
)

if TYPE_CHECKING:
    from random import Random

    from tests.simulation.api_server import ApiServer, Change
    from tests.simulation.loop import VirtualLoop

_ACTOR = "volume-controller"


class Volumes:
    """Binds claims, and lets claims go that no Pod uses.

    Args:
        server: The API server.
        loop: Gives the time.
        random: Draws how long that takes.
    """

    def __init__(self, server: ApiServer, loop: VirtualLoop, random: Random) -> None:
        self._server = server
        self._loop = loop
        self._random = random
        server.listeners.append(self._observe)

    def _observe(self, change: Change) -> None:
        if change.resource == CLAIMS and change.new is not None:
            if change.old is None or change.actor == ETCD:
                self._later(change.key, uid_of(change.new), self._bind)
            if terminating(change.new):
                self._later(change.key, uid_of(change.new), self._let_go)
        elif change.resource == PODS and change.new is None:
            for name in mounted_claims(change.last):
                key = (change.key[0], name)
                if (claim := self._server.find(CLAIMS, key)) is not None:
                    self._later(key, uid_of(claim), self._let_go)

    def _later(self, key: Key, uid: str, action: object) -> None:
        assert callable(action)
        self._loop.call_later(0.1 + 2.0 * self._random.random(), self._if_there, key, uid, action)

    def _if_there(self, key: Key, uid: str, action: object) -> None:
        claim = self._server.find(CLAIMS, key)
        if claim is not None and uid_of(claim) == uid:
            assert callable(action)
            action(claim)

    def _bind(self, claim: Obj) -> None:
        self._server.replace_status(CLAIMS, key_of(claim), {"status": {"phase": "Bound"}}, _ACTOR)

    def _let_go(self, claim: Obj) -> None:
        if terminating(claim) and not self.users(claim):
            self._server.replace(CLAIMS, key_of(claim), without_finalizer(claim, CLAIM_PROTECTION), _ACTOR)

    def users(self, claim: Obj) -> list[Obj]:
        """Return the Pods that have a node and mount a claim."""
        namespace, name = key_of(claim)
        return [
            pod
            for pod in self._server.tables[PODS].values()
            if pod["metadata"]["namespace"] == namespace and pod["spec"].get("nodeName") and name in mounted_claims(pod)
        ]
