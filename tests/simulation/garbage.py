"""The garbage collector: dependents go when their owner is gone, or before it with foreground deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flamectl_operator.kube import errors
from tests.simulation.api_server import FOREGROUND, ORPHAN
from tests.simulation.machines import without_finalizer
from tests.simulation.objects import (
    CLAIMS,
    CONFIG_MAPS,
    FLAME_CLUSTERS,
    LEASES,
    NETWORK_POLICIES,
    PODS,
    SERVICES,
    Key,
    Obj,
    terminating,
    uid_of,
    with_metadata,
)

if TYPE_CHECKING:
    from random import Random

    from tests.simulation.api_server import ApiServer, Change
    from tests.simulation.loop import VirtualLoop

_DEPENDENTS = (CLAIMS, CONFIG_MAPS, LEASES, NETWORK_POLICIES, PODS, SERVICES)
_ACTOR = "garbage-collector"


class GarbageCollector:
    """Looks at owners that go and at dependents whose owner is not there.

    Args:
        server: The API server.
        loop: Gives the time.
        random: Draws how late it is.
        delay: Seconds that it takes to notice, at the most.
    """

    def __init__(self, server: ApiServer, loop: VirtualLoop, random: Random, delay: float) -> None:
        self._server = server
        self._loop = loop
        self._random = random
        self._delay = delay
        server.listeners.append(self._observe)

    def _observe(self, change: Change) -> None:
        if change.resource == FLAME_CLUSTERS:
            if change.new is None or terminating(change.new):
                self._later(lambda: self._owner_goes(change.key, uid_of(change.last)))
        elif change.new is None:
            self._blocked_owners(change.last)
        elif change.old is None or change.old["metadata"].get("ownerReferences") != change.new["metadata"].get(
            "ownerReferences"
        ):
            self._later(lambda: self._check(change.resource, change.key))

    def _later(self, action: object) -> None:
        assert callable(action)
        self._loop.call_later(0.1 + self._random.random() * self._delay, action)

    def _owner(self, namespace: str, uid: str) -> Obj | None:
        owners = self._server.tables[FLAME_CLUSTERS].values()
        return next(
            (each for each in owners if uid_of(each) == uid and each["metadata"]["namespace"] == namespace), None
        )

    def _dependents(self, namespace: str, uid: str) -> list[tuple[str, Obj]]:
        return [
            (resource, obj)
            for resource in _DEPENDENTS
            for obj in self._server.all(resource, namespace)
            if any(reference["uid"] == uid for reference in obj["metadata"].get("ownerReferences") or ())
        ]

    def _owner_goes(self, key: Key, uid: str) -> None:
        owner = self._owner(key[0], uid)
        dependents = self._dependents(key[0], uid)
        if owner is None:
            for resource, obj in dependents:
                self._check(resource, (key[0], obj["metadata"]["name"]))
            return
        finalizers = owner["metadata"].get("finalizers", ())
        if ORPHAN in finalizers:
            for resource, obj in dependents:
                left = [each for each in obj["metadata"]["ownerReferences"] if each["uid"] != uid]
                name = (key[0], obj["metadata"]["name"])
                self._server.replace(resource, name, with_metadata(obj, ownerReferences=left or None), _ACTOR)
            self._server.replace(FLAME_CLUSTERS, key, without_finalizer(owner, ORPHAN), _ACTOR)
        elif FOREGROUND in finalizers:
            for resource, obj in dependents:
                if not terminating(obj):
                    self._delete(resource, obj)
            self._finish(key, uid)

    def _finish(self, key: Key, uid: str) -> None:
        """Let an owner go whose dependents are gone."""
        owner = self._owner(key[0], uid)
        if owner is not None and FOREGROUND in owner["metadata"].get("finalizers", ()):
            if self._dependents(key[0], uid):
                self._loop.call_later(5.0, self._owner_goes, key, uid)
            else:
                self._server.replace(FLAME_CLUSTERS, key, without_finalizer(owner, FOREGROUND), _ACTOR)

    def _blocked_owners(self, obj: Obj) -> None:
        namespace = obj["metadata"]["namespace"]
        for reference in obj["metadata"].get("ownerReferences") or ():
            owner = self._owner(namespace, reference["uid"])
            if owner is not None and terminating(owner):
                name = owner["metadata"]["name"]
                self._later(lambda name=name, uid=reference["uid"]: self._finish((namespace, name), uid))

    def _check(self, resource: str, key: Key) -> None:
        """Delete a dependent none of whose owners is there any more."""
        obj = self._server.find(resource, key)
        references = (obj["metadata"].get("ownerReferences") or ()) if obj is not None else ()
        if obj is None or not references or terminating(obj):
            return
        if all(self._owner(key[0], reference["uid"]) is None for reference in references):
            self._delete(resource, obj)

    def _delete(self, resource: str, obj: Obj) -> None:
        key = (obj["metadata"]["namespace"], obj["metadata"]["name"])
        try:
            self._server.delete(resource, key, _ACTOR, uid=uid_of(obj))
        except errors.NotFoundError:
            return
